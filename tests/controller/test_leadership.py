"""Elections and ISRs as column operations: equal to the one-by-one reference, with correct invariants."""

import copy
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.data.data_plane import DataPlane
from klamm.controller.feature_names import ELIGIBLE_LEADER_REPLICAS_VERSION, METADATA_VERSION
from klamm.controller.log_records import Record
from klamm.controller.metadata.columns import among
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import NO_LEADER, Partition, merge
from klamm.controller.settings import Settings
from klamm.controller.transitions import change_runs, elections
from klamm.controller.transitions.election_rules import TopicRules
from klamm.controller.transitions.elections import plan_broker_return
from klamm.controller.transitions.leadership import (
    count_in_sync,
    find_lost,
    plan_broker_loss,
    plan_unclean_return,
)
from klamm.controller.transitions.long_work import CatchUp
from klamm.protocol.columns import Columns
from klamm.protocol.fields import wire_fields
from klamm.protocol.records.cluster import FeatureLevelRecord
from klamm.protocol.records.partitions import PartitionChangeRecord
from tests.controller.cluster_states import (
    add_topic,
    apply,
    clusters,
    fence,
    live_cluster,
    registration,
    unfence,
    uuid_of,
)
from tests.controller.image_facts import image_facts

ROOT = Path(__file__).parents[2]
SETTINGS = Settings()
CATCH_UP_IN_EMPTY_TABLES = """
import sys
from klamm.broker.data.data_plane import DataPlane
from klamm.controller.settings import Settings
from klamm.controller.transitions.long_work import CatchUp
from klamm.protocol.records.topics import RemoveTopicRecord
from tests.controller.cluster_states import add_topic, apply, live_cluster, uuid_of

image = live_cluster(2)
add_topic(image, 1, [[1, 2]] * 2000)
apply(image, RemoveTopicRecord(topic_id=uuid_of(1)))
(table,) = image.partitions.tables.values()
CatchUp(DataPlane(Settings())).plan(image, Settings())
print(table.count, "numpy.ma" in sys.modules)
"""


def changes(records: Iterable[Record]) -> list[PartitionChangeRecord]:
    return [
        change
        for record in records
        for change in (record if isinstance(record, Columns) else [record])
        if isinstance(change, PartitionChangeRecord)
    ]


def all_partitions(image: MetadataImage) -> dict[tuple[str, int], Partition]:
    partitions: dict[tuple[str, int], Partition] = image_facts(image)["partitions"]
    return partitions


def as_one_by_one(records: Iterable[Record]) -> list[dict[str, object]]:
    """Every field of each change, in an order that does not depend on how they were planned."""
    rows = [
        {
            wire.name: tuple(value) if isinstance(value, Sequence) and not isinstance(value, bytes) else value
            for wire in wire_fields(PartitionChangeRecord)
            for value in (getattr(change, wire.name),)
        }
        for change in changes(records)
    ]
    return sorted(rows, key=repr)


def catch_up(image: MetadataImage) -> list[Record]:
    """All replicas that may join do; few partitions are one step."""
    work = CatchUp(DataPlane(SETTINGS))
    records = work.plan(image, SETTINGS)
    assert work.is_over(image)
    return records


LEVELS = (
    (),
    (FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=0),),
    (
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=11),
        FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=0),
    ),
)
"""Without eligible leader replicas, and where the leader epoch grows when a follower leaves the ISR, too."""
ACTIONS = ("lose", "return", "grow", "unclean")
LONG_ACTIONS = (*ACTIONS, "fence", "follow")
"""The ISRs of a broker that is in many follow its fencing later, so that some contain brokers that are not live."""


@st.composite
def lost_and_found(draw: st.DrawFn, actions: Sequence[str] = ACTIONS) -> tuple[MetadataImage, list[tuple[str, int]]]:
    """A cluster with some partitions in reassignment, and a history of brokers that stop and return."""
    image = draw(clusters())
    apply(image, *draw(st.sampled_from(LEVELS)))
    ids = sorted(image.brokers)
    for name, index in draw(st.sets(st.sampled_from(sorted(all_partitions(image))), max_size=4)):
        topic = image.topics_by_name[name]
        replicas = st.sampled_from(image.partitions.read(topic.row, index).replicas)
        adding, removing = (draw(st.lists(replicas, max_size=2, unique=True)) for _ in range(2))
        moving = PartitionChangeRecord(
            partition_id=index, topic_id=topic.topic_id, adding_replicas=adding, removing_replicas=removing
        )
        apply(image, moving)
    history = draw(st.lists(st.tuples(st.sampled_from(actions), st.sampled_from(ids)), max_size=8))
    return image, history


def step(image: MetadataImage, action: str, broker_id: int) -> list[Record]:
    """The records of one step of a history; none if it is not possible now."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(change_runs, "RUN_LENGTH", 1)  # Changes that are planned one by one are put into runs, too.
        return planned_step(image, action, broker_id)


def planned_step(image: MetadataImage, action: str, broker_id: int) -> list[Record]:
    fenced = image.brokers[broker_id].fenced
    if action == "lose" and not fenced:
        return [*plan_broker_loss(image, SETTINGS, broker_id), fence(broker_id)]
    if action == "fence" and not fenced:
        return [fence(broker_id)]
    if action == "follow" and fenced:
        return list(plan_broker_loss(image, SETTINGS, broker_id))
    if action == "return" and fenced:
        return [unfence(broker_id), *plan_broker_return(image, SETTINGS, broker_id)]
    if action == "unclean":
        return [*plan_unclean_return(image, SETTINGS, broker_id), *([] if fenced else [fence(broker_id)])]
    return catch_up(image) if action == "grow" else []


@given(lost_and_found(LONG_ACTIONS))
def test_column_operations_equal_the_one_by_one_reference(case: tuple[MetadataImage, list[tuple[str, int]]]) -> None:
    compare_with_reference(*case)


def compare_with_reference(image: MetadataImage, history: Iterable[tuple[str, int]]) -> None:
    for action, broker_id in history:
        planned = step(image, action, broker_id)
        with pytest.MonkeyPatch.context() as patch:
            # With every row special, all take the one-by-one path.
            patch.setattr(TopicRules, "special", lambda _self, _table, rows: rows >= 0)
            patch.setattr(elections, "_sole_eligible", lambda _image, _table, rows: (rows * 0 - 1, rows < 0))
            reference = step(image, action, broker_id)
        assert as_one_by_one(planned) == as_one_by_one(reference)
        apply(image, *planned)


@pytest.mark.parametrize("min_isr", ["1", "2"])
def test_who_is_in_sync_and_gone_is_waited_for_before_anybody_else(min_isr: str) -> None:
    """Broker 2 is fenced, and its ISRs follow later; 1 stops and returns before they did."""
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2]], min_insync_replicas=min_isr)
    compare_with_reference(image, [("fence", 2), ("lose", 1)])
    [partition] = all_partitions(image).values()
    assert (partition.leader, partition.isr, partition.last_known_elr) == (NO_LEADER, (2,), (1,))
    compare_with_reference(image, [("return", 1)])
    [partition] = all_partitions(image).values()
    assert (partition.leader, partition.isr) == (NO_LEADER, (2,))
    compare_with_reference(image, [("follow", 2), ("return", 2)])


@given(lost_and_found())
def test_runs_replay_as_their_single_records_do(case: tuple[MetadataImage, list[tuple[str, int]]]) -> None:
    image, history = case
    other = copy.deepcopy(image)
    for action, broker_id in history:
        planned = step(image, action, broker_id)
        singles = [one for record in planned for one in (record if isinstance(record, Columns) else [record])]
        apply(image, *planned)
        apply(other, *singles)
        assert image_facts(image) == image_facts(other)


@given(lost_and_found())
def test_invariants_hold_through_losses_and_returns(case: tuple[MetadataImage, list[tuple[str, int]]]) -> None:
    image, history = case
    for action, broker_id in history:
        before = all_partitions(image)
        apply(image, *step(image, action, broker_id))
        live = set(image.live_brokers().ids.tolist())
        for key, partition in all_partitions(image).items():
            assert set(partition.isr) <= set(partition.replicas)
            assert partition.leader == NO_LEADER or partition.leader in partition.isr
            assert partition.leader == NO_LEADER or partition.leader in live
            assert not set(partition.eligible_leader_replicas) & set(partition.isr)
            if not image.features.has_elr:
                assert partition.isr
                assert partition.eligible_leader_replicas == partition.last_known_elr == ()
            assert partition.leader_epoch >= before[key].leader_epoch
            # A reassignment that removes replicas names the leader, even if it stays, so that they notice.
            taken = set(before[key].replicas) - set(partition.replicas)
            shrunk = bool(set(before[key].isr) - set(partition.isr)) and image.features.elections.shrinks_raise_epochs
            named = partition.leader != before[key].leader or bool(taken) or shrunk
            assert (partition.leader_epoch > before[key].leader_epoch) == named
            assert partition.partition_epoch - before[key].partition_epoch == (partition != before[key])


def test_the_last_replica_stays_eligible_and_leads_again_when_it_returns() -> None:
    """Recorded from a real controller: Isr=[], Leader=-1, and the replica is in Elr or LastKnownElr; on its return both
    lists are emptied."""
    image = live_cluster(3)
    add_topic(image, 1, [[2]])
    [lost] = changes(plan_broker_loss(image, SETTINGS, 2))
    assert (lost.leader, list(lost.isr or ()), lost.isr is None) == (NO_LEADER, [], False)
    assert (list(lost.eligible_leader_replicas or ()), list(lost.last_known_elr or ())) == ([2], [2])
    apply(image, lost, fence(2))
    [found] = changes(plan_broker_return(image, SETTINGS, 2))
    assert (found.leader, list(found.isr or ())) == (2, [2])
    assert (found.eligible_leader_replicas, found.last_known_elr) == ((), ())


def without_elr(metadata_version: int) -> MetadataImage:
    image = live_cluster(3)
    apply(image, FeatureLevelRecord(name=METADATA_VERSION, feature_level=metadata_version))
    apply(image, FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=0))
    return image


def test_without_eligible_leader_replicas_the_last_replica_stays_in_sync_and_leads_again() -> None:
    image = without_elr(22)
    add_topic(image, 1, [[2, 3]] * 20)
    apply(image, *plan_broker_loss(image, SETTINGS, 3), fence(3))
    lost = changes(plan_broker_loss(image, SETTINGS, 2))
    assert {(one.leader, one.isr, one.eligible_leader_replicas, one.last_known_elr) for one in lost} == {
        (NO_LEADER, None, None, None)
    }
    apply(image, *lost, fence(2))
    assert {(one.leader, one.isr) for one in all_partitions(image).values()} == {(NO_LEADER, (2,))}
    # They have nothing more to lose: no later step waits for them, nor finds them.
    assert (count_in_sync(image, 2), find_lost(image), find_lost(image, registered=False)) == (0, None, None)
    assert changes(plan_broker_loss(image, SETTINGS, 2, most=3)) == []
    assert changes(plan_broker_return(image, SETTINGS, 3)) == []
    assert {(one.leader, one.isr) for one in changes(plan_broker_return(image, SETTINGS, 2))} == {(2, None)}


@pytest.mark.parametrize(("level", "leader"), [(11, 1), (12, -2)])
def test_the_leader_epoch_grows_with_each_shrink_below_3_6(level: int, leader: int) -> None:
    image = without_elr(level)
    add_topic(image, 1, [[1, 2, 3]])
    [change] = changes(plan_broker_loss(image, SETTINGS, 3))
    assert (change.leader, list(change.isr or ())) == (leader, [1, 2])


def test_who_of_several_eligible_ones_returns_first_leads_and_the_others_stay_eligible() -> None:
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2, 3]], min_insync_replicas="3")
    for broker_id in (3, 2, 1):
        apply(image, *plan_broker_loss(image, SETTINGS, broker_id), fence(broker_id))
    assert all_partitions(image)["t1", 0].eligible_leader_replicas == (1, 2, 3)
    [found] = changes(plan_broker_return(image, SETTINGS, 2))
    assert (found.leader, list(found.isr or ()), list(found.eligible_leader_replicas or ())) == (2, [2], [1, 3])


def test_a_follower_that_leaves_moves_no_leader() -> None:
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2, 3]])
    [change] = changes(plan_broker_loss(image, SETTINGS, 3))
    assert (change.leader, list(change.isr or ())) == (-2, [1, 2])


def test_the_first_live_replica_in_sync_leads_next() -> None:
    image = live_cluster(3)
    add_topic(image, 1, [[3, 1, 2]])
    [change] = changes(plan_broker_loss(image, SETTINGS, 3))
    assert (change.leader, list(change.isr or ())) == (1, [1, 2])


def test_below_min_isr_what_leaves_stays_eligible_while_a_leader_remains() -> None:
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2]], min_insync_replicas="2")
    [change] = changes(plan_broker_loss(image, SETTINGS, 2))
    assert (list(change.isr or ()), list(change.eligible_leader_replicas or ())) == ([1], [2])
    assert change.last_known_elr is None


def test_who_led_last_is_known_also_while_somebody_is_in_sync_who_cannot_lead() -> None:
    image = live_cluster(2)
    add_topic(image, 1, [[1, 2]])
    apply(image, fence(2))  # It has not left the ISR yet.
    [change] = changes(plan_broker_loss(image, SETTINGS, 1))
    assert (change.leader, list(change.isr or ()), list(change.last_known_elr or ())) == (NO_LEADER, [2], [1])


def test_an_unclean_election_is_only_for_topics_that_allow_it() -> None:
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2]], unclean_leader_election_enable="true")
    add_topic(image, 2, [[1, 2]])
    apply(image, *plan_broker_loss(image, SETTINGS, 2), fence(2))
    apply(image, unfence(2))
    apply(image, *plan_broker_loss(image, SETTINGS, 1), fence(1))
    allowed, refused = all_partitions(image)["t1", 0], all_partitions(image)["t2", 0]
    assert (allowed.leader, allowed.isr, allowed.leader_recovery_state) == (2, (2,), 1)
    assert (refused.leader, refused.isr, refused.eligible_leader_replicas) == (NO_LEADER, (), (1,))


def test_a_caught_up_replica_joins_the_isr_which_its_leader_lists_anew() -> None:
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2, 3]])
    apply(image, *plan_broker_loss(image, SETTINGS, 1), fence(1))
    apply(image, unfence(1), *plan_broker_return(image, SETTINGS, 1))
    [change] = changes(catch_up(image))
    assert (change.leader, list(change.isr or ())) == (-2, [1, 2, 3])


def test_merge_counts_epochs_in_one_place() -> None:
    partition = Partition((1, 2), (1, 2), 1, 5, 7, ())
    quiet = merge(partition, PartitionChangeRecord(isr=[1]))
    moved = merge(partition, PartitionChangeRecord(leader=2))
    assert (quiet.leader_epoch, quiet.partition_epoch) == (5, 8)
    assert (moved.leader_epoch, moved.partition_epoch) == (6, 8)


def test_a_broker_without_the_directory_of_a_replica_neither_leads_nor_joins() -> None:
    """As a real 4.3 controller does: the data was in a directory that the new registration lacks (KIP-858)."""
    image = live_cluster(3)
    add_topic(image, 1, [[1]])
    add_topic(image, 2, [[1, 2]])
    apply(image, *plan_broker_loss(image, SETTINGS, 1), fence(1))
    moved = registration(1)
    moved.log_dirs = [uuid_of(30_001)]
    apply(image, moved)
    assert changes(plan_broker_return(image, SETTINGS, 1)) == []
    apply(image, unfence(1))
    assert changes(catch_up(image)) == []
    apply(image, fence(1), registration(1))
    [found] = changes(plan_broker_return(image, SETTINGS, 1))
    assert (found.topic_id, found.leader) == (uuid_of(1), 1)


@given(st.lists(st.lists(st.integers(-3, 2000), min_size=2, max_size=2)), st.sets(st.integers(0, 2000)))
def test_ids_are_found_among_a_few(rows: list[list[int]], few: set[int]) -> None:
    ids = np.array(rows, dtype=np.int32).reshape(len(rows), 2)
    expected = [[number in few for number in row] for row in rows]
    assert among(ids, few).tolist() == among(ids, np.array(sorted(few), dtype=np.int32)).tolist() == expected


def test_nothing_is_imported_to_look_at_partitions_that_are_gone() -> None:
    """NumPy would import numpy.ma, once, for 60 to 90 ms on a busy machine, during which no request is answered."""
    done = subprocess.run(
        [sys.executable, "-c", CATCH_UP_IN_EMPTY_TABLES], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("0 False\n", "")
