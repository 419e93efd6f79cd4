"""Leaders: preferred leaders, elections and departures in tables of several widths, with broker 0 among the brokers."""

from typing import Any

import pytest

from klamm.broker.data.data_plane import DataPlane
from klamm.controller.log_records import count_records
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.live_replicas import LiveReplicas
from klamm.controller.metadata.partition import NO_LEADER, RECOVERED, RECOVERING, Partition
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.controller.settings import Settings
from klamm.controller.transitions import broker_lifecycle, leadership
from klamm.controller.transitions.broker_lifecycle import BrokerStatus, plan_status
from klamm.controller.transitions.elections import leads_any
from klamm.controller.transitions.leadership import growing_at, plan_broker_loss, plan_isrs
from klamm.controller.transitions.long_work import CatchUp, PreferredLeaders, Returns, unfinished_departures
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.protocol.records.topics import RemoveTopicRecord
from tests.controller.cluster_states import add_topic, apply, fence, live_cluster, unfence, uuid_of
from tests.controller.image_facts import image_facts

SETTINGS = Settings()


def partitions(image: MetadataImage) -> dict[tuple[str, int], Partition]:
    found: dict[tuple[str, int], Partition] = image_facts(image)["partitions"]
    return found


def change(image: MetadataImage, number: int, index: int = 0, **fields: Any) -> None:
    apply(image, PartitionChangeRecord(topic_id=uuid_of(number), partition_id=index, **fields))


@pytest.mark.parametrize("first", [0, 1])
def test_a_preferred_leader_takes_over_from_any_other_also_with_a_sparse_entry(first: int) -> None:
    """Also from broker 0, and broker 0 from others. A replica that is not in sync or not live does not."""
    one, two, three = range(first, first + 3)
    image = live_cluster(3, first)
    sparse_fields: list[dict[str, Any]] = [{}, {"adding_replicas": [two]}, {"eligible_leader_replicas": [three]}]
    for number, fields in enumerate(sparse_fields, start=1):
        add_topic(image, number, [[one, two, three], [two, one, three], [three, one, two]])
        for index, leader in enumerate((two, one, one)):
            change(image, number, index, leader=leader, **fields)
    change(image, 1, 0, isr=[two, three])
    apply(image, fence(three))
    apply(image, *PreferredLeaders().plan(image, SETTINGS))
    leaders = {key: partition.leader for key, partition in partitions(image).items()}
    assert leaders == {
        (f"t{number}", index): leader
        for number in (1, 2, 3)
        for index, leader in enumerate((two if number == 1 else one, two, one))
    }


@pytest.mark.parametrize("compact_at", [0, 1000])
def test_who_led_partitions_that_are_gone_leads_nothing(compact_at: int) -> None:
    image = live_cluster(2)
    image.partitions = image.topics.partitions = PartitionTable(compact_at_dead_rows=compact_at)
    add_topic(image, 1, [[2, 1]] * 9)
    add_topic(image, 2, [[1, 2]] * 9)
    image.partitions.table(2).make_room(100)
    assert [leads_any(image, broker_id) for broker_id in (0, 1, 2)] == [False, True, True]
    apply(image, RemoveTopicRecord(topic_id=uuid_of(1)))
    assert [leads_any(image, broker_id) for broker_id in (1, 2)] == [True, False]


@pytest.mark.parametrize("waiting", [2, 3])
def test_a_broker_that_comes_back_has_few_elections_held_at_once_and_many_later(
    waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_lifecycle, "MAX_ELECTIONS_AT_ONCE", 2)
    image = live_cluster(2)
    add_topic(image, 1, [[2]] * waiting)
    apply(image, *plan_broker_loss(image, SETTINGS, 2), fence(2))
    records = plan_status(image, SETTINGS, image.brokers[2], BrokerStatus.UNFENCED)
    assert count_records(records) == 1 + (waiting if waiting == 2 else 0)


@pytest.mark.parametrize("in_sync", [2, 3])
@pytest.mark.parametrize("status", [BrokerStatus.FENCED, BrokerStatus.CONTROLLED_SHUTDOWN])
def test_a_broker_that_goes_leaves_few_isrs_at_once_and_many_later(
    in_sync: int, status: BrokerStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_lifecycle, "MAX_CHANGES_AT_ONCE", 2)
    image = live_cluster(2)
    add_topic(image, 1, [[1, 2]] * in_sync)
    records = plan_status(image, SETTINGS, image.brokers[2], status)
    assert count_records(records) == 1 + (in_sync if in_sync == 2 else 0)


@pytest.mark.parametrize("most", [1, 3, 4, 5, 8, 12, 13])
def test_what_may_change_at_most_counts_for_the_tables_of_all_widths_together(most: int) -> None:
    image = live_cluster(4)
    for number, width in enumerate((2, 3, 4), start=1):
        add_topic(image, number, [list(range(1, width + 1))] * 4)
    assert count_records(plan_broker_loss(image, SETTINGS, 1, most=most)) == min(most, 12)


@pytest.mark.parametrize("most", [3, 4, 7, 8, 40])
def test_a_row_whose_broker_becomes_eligible_costs_more_in_every_table(most: int) -> None:
    image = live_cluster(4)
    for number, width in enumerate((2, 3), start=1):
        add_topic(image, number, [list(range(1, width + 1))] * 4, min_insync_replicas=str(width))
    assert count_records(plan_broker_loss(image, SETTINGS, 1, most=most)) == min(most // leadership.COST_ELIGIBLE, 8)


NEVER = {"adding_replicas": [2], "removing_replicas": [2, -1]}
MOVES: list[tuple[str, list[int], dict[str, Any], bool]] = [
    ("nothing to do", [1, 2], {}, False),
    ("a replica is outside the ISR", [1, 2], {"isr": [1]}, True),
    ("it is not live", [1, 3], {"isr": [1]}, False),
    ("a placeholder is", [1, -1], {}, False),
    ("nobody leads", [1, 2], {"isr": [1], "leader": NO_LEADER}, False),
    ("its leader recovers, and no other replica joins", [1, 2], {"leader_recovery_state": RECOVERING}, False),
    ("nobody leads who recovers", [1, 2], {"leader_recovery_state": RECOVERING, "leader": NO_LEADER}, False),
    ("a placeholder is to go", [1, -1], {"removing_replicas": [-1]}, True),
    ("a placeholder is to go, and nobody leads", [1, -1], {"removing_replicas": [-1], "leader": NO_LEADER}, False),
    ("a replica in sync is to go with it", [1, 2, -1], {"removing_replicas": [2, -1]}, True),
    (
        "what is added and removed at once never comes",
        [1, 2, -1],
        {"adding_replicas": [2], "removing_replicas": [2, -1]},
        False,
    ),
    (
        "it recovers, and what is added never comes",
        [1, 2, -1],
        {**NEVER, "leader_recovery_state": RECOVERING},
        False,
    ),
    ("what is added is not live", [1, 3, -1], {"isr": [1], "adding_replicas": [3], "removing_replicas": [-1]}, False),
    ("a move is over but for the next change", [1, 2], {"removing_replicas": [2]}, True),
]


@pytest.mark.parametrize(("replicas", "fields", "grows"), [row[1:] for row in MOVES], ids=[row[0] for row in MOVES])
@pytest.mark.parametrize("before", [0, 2])
def test_which_partitions_a_look_for_growing_isrs_finds(
    replicas: list[int], fields: dict[str, Any], grows: bool, before: int
) -> None:
    """Also those behind rows that a check has visited: rows are counted from the beginning of a table."""
    image = live_cluster(3)
    add_topic(image, 1, [replicas] * (before + 1))
    change(image, 1, before, **fields)
    apply(image, fence(3))
    [table] = image.partitions.tables.values()
    up = LiveReplicas(image, image.live_brokers())
    assert growing_at(image, table, slice(before, before + 1), up, ()).tolist() == [grows]
    assert not growing_at(image, table, slice(before, before + 1), up, (1,)).any(), "its leader is down"
    requested = CatchUp(DataPlane(SETTINGS)).plan(image, SETTINGS)
    assert count_records(requested) == grows


def test_who_is_down_though_nobody_noticed_does_not_catch_up() -> None:
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2, 3]])
    change(image, 1, isr=[1])
    data = DataPlane(SETTINGS)
    data.set_down(image, [3], 0)
    apply(image, *CatchUp(data).plan(image, SETTINGS))
    assert partitions(image)["t1", 0].isr == (1, 2)
    data.set_down(image, [1, 3], 0)
    change(image, 1, isr=[1])
    assert CatchUp(data).plan(image, SETTINGS) == []


def test_a_departure_that_a_restart_finds_is_taken_for_a_clean_one() -> None:
    """The broker stays eligible to lead."""
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2]], min_insync_replicas="2")
    apply(image, fence(2))
    [work] = unfinished_departures(image)
    while not work.is_over(image):
        apply(image, *work.plan(image, SETTINGS))
    [partition] = partitions(image).values()
    assert (partition.isr, partition.eligible_leader_replicas) == ((1,), (2,))


@pytest.mark.parametrize("first", [0, 1])
def test_partitions_of_all_widths_elect_who_returns(first: int) -> None:
    one, two, three = range(first, first + 3)
    image = live_cluster(3, first)
    for number, replicas in enumerate(([one], [one, two], [three, two, one], [two, three]), start=1):
        add_topic(image, number, [replicas, replicas])
    for broker_id in (two, three, one):
        apply(image, *plan_broker_loss(image, SETTINGS, broker_id), fence(broker_id))
    apply(image, unfence(one))
    work = Returns(frozenset({one}))
    while not work.is_over(image):
        apply(image, *work.plan(image, SETTINGS))
    expected = {1: one, 2: one, 3: one, 4: NO_LEADER}
    assert {key: found.leader for key, found in partitions(image).items()} == {
        (f"t{number}", index): leader for number, leader in expected.items() for index in (0, 1)
    }


def test_who_led_last_is_not_told_anew_of_a_partition_that_nobody_leads() -> None:
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2, 3]] * 2)
    change(image, 1, 0, leader=NO_LEADER, isr=[2])
    change(image, 1, 1, isr=[1])
    apply(image, fence(3), *plan_broker_loss(image, SETTINGS, 2))
    apply(image, *plan_broker_loss(image, SETTINGS, 1))
    nobody_before, nobody_now = partitions(image).values()
    assert (nobody_before.leader, nobody_before.isr, nobody_before.last_known_elr) == (NO_LEADER, (), ())
    assert (nobody_now.leader, nobody_now.isr, nobody_now.last_known_elr) == (NO_LEADER, (), (1,))


def test_only_who_is_live_joins_an_isr_that_a_leader_asks_for() -> None:
    """A replica that is in the ISR already may stay."""
    image = live_cluster(4)
    add_topic(image, 1, [[1, 2, 3, 4]])
    change(image, 1, isr=[1, 2])
    apply(image, fence(2), fence(3))
    apply(image, *plan_isrs(image, SETTINGS, [((uuid_of(1), 0), (1, 2, 3, 4))]))
    assert partitions(image)["t1", 0].isr == (1, 2, 4)


@pytest.mark.parametrize(
    ("isr", "recovery"),
    [((1, 2), RECOVERED), ((1,), None), ((1, 3), None)],
    ids=["a replica joins", "the same ISR", "a replica that is not live does not join"],
)
def test_a_leader_says_that_it_has_recovered_with_its_first_change_of_the_isr(
    isr: tuple[int, ...], recovery: int | None
) -> None:
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2, 3]])
    change(image, 1, isr=[1], leader_recovery_state=RECOVERING)
    apply(image, fence(3))
    changes = plan_isrs(image, SETTINGS, [((uuid_of(1), 0), isr)])
    assert count_records(changes) == (recovery is not None)
    apply(image, *changes)
    assert partitions(image)["t1", 0].leader_recovery_state == (RECOVERING if recovery is None else recovery)


def test_of_many_new_partitions_each_has_its_own_live_replicas_in_sync() -> None:
    image = live_cluster(3)
    apply(image, fence(3))
    rows = [[1, 2], [1, 3], [3, 1], [2, 3], [3, 2]] * 4
    add_topic(image, 1, rows)
    assert [found.isr for found in partitions(image).values()] == [
        tuple(replica for replica in row if replica != 3) for row in rows
    ]
    assert [found.leader for found in partitions(image).values()] == [row[row[0] == 3] for row in rows]
