"""Work on many partitions is done in steps, and has the same result as in one batch."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given

from klamm.controller.data_limits import DataLimits
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.live_replicas import LiveReplicas
from klamm.controller.settings import Profile, Settings
from klamm.controller.transitions import long_work
from klamm.controller.transitions.election_rules import TopicRules
from klamm.controller.transitions.elections import led_by_others_at, plan_preferred_leaders
from klamm.controller.transitions.long_work import (
    UNCLEAN_ELECTION_INTERVAL_MS,
    Periods,
    PreferredLeaders,
    UncleanElections,
)
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.records.partitions import PartitionChangeRecord
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import produce
from tests.controller.cluster_states import apply
from tests.controller.handlers.cluster import START_MS, DrivenCluster
from tests.controller.handlers.tiny_steps import finish, make_steps_tiny
from tests.controller.test_leadership import as_one_by_one, lost_and_found, step

Start = Callable[..., DrivenCluster]
ROWS = {"t": [[2, 1], [1, 2], [2, 3], [3, 2]], "s": [[2], [2], [1], [2]]}
PREFERRED_MS = 300_000


@pytest.fixture
def tiny_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    make_steps_tiny(monkeypatch)


def comparable(cluster: DrivenCluster) -> list[tuple[object, ...]]:
    return [
        (row.leader, row.isr, row.eligible_leader_replicas, row.last_known_elr, row.leader_recovery_state)
        for name in ROWS
        for row in cluster.partitions(name)
    ]


def leave_and_return(cluster: DrivenCluster, kind: str) -> None:
    for name, rows in ROWS.items():
        assert cluster.create_at(name, *rows).error_code == ErrorCode.NONE
    if kind == "unregistered":
        assert cluster.ask(UnregisterBrokerRequest(broker_id=2)).error_code == ErrorCode.NONE
    elif kind == "crashed":
        cluster.clock.advance(10_000)
        cluster.lives[2] += 1
        assert cluster.register(2).error_code == ErrorCode.NONE
    else:
        cluster.lose(2)
        finish(cluster)
        cluster.lives[2] += 1
        previous = cluster.image.brokers[2].broker_epoch if kind == "stopped" else -1
        assert cluster.register(2, previous_broker_epoch=previous).error_code == ErrorCode.NONE


@pytest.mark.parametrize("min_isr", ["1", "2"])
@pytest.mark.parametrize("kind", ["unregistered", "crashed", "stopped", "lost"])
def test_steps_have_the_same_result_as_one_batch(
    start: Start, kind: str, min_isr: str, request: pytest.FixtureRequest
) -> None:
    whole = start(configs={"min.insync.replicas": min_isr})
    leave_and_return(whole, kind)
    finish(whole)
    request.getfixturevalue("tiny_steps")
    parts = start(configs={"min.insync.replicas": min_isr})
    leave_and_return(parts, kind)
    assert finish(parts) > 1 or kind == "stopped", "who stopped left every ISR then"
    assert comparable(parts) == comparable(whole)
    if kind == "unregistered":
        return
    for cluster in (whole, parts):
        assert not cluster.heartbeat(2).is_fenced
        finish(cluster)
        cluster.tick()
        finish(cluster)
    assert comparable(parts) == comparable(whole)


@pytest.mark.usefixtures("tiny_steps")
def test_a_broker_stays_fenced_until_its_former_life_is_out_of_every_isr(cluster: DrivenCluster) -> None:
    leave_and_return(cluster, "crashed")
    assert cluster.controller.has_work
    while any(2 in row.isr for row in cluster.partitions("t")):
        assert cluster.heartbeat(2).is_fenced
        cluster.controller.work()
    finish(cluster)
    assert not cluster.heartbeat(2).is_fenced


@pytest.mark.usefixtures("tiny_steps")
def test_a_restart_amid_a_departure_keeps_the_next_incarnation_fenced_until_it_is_over(cluster: DrivenCluster) -> None:
    """Otherwise it would be in sync because of its former incarnation."""
    leave_and_return(cluster, "crashed")
    cluster.restart()
    while any(2 in row.isr for row in cluster.partitions("t")):
        assert cluster.heartbeat(2).is_fenced
        cluster.controller.work()
    finish(cluster)
    assert not cluster.heartbeat(2).is_fenced


@pytest.mark.usefixtures("tiny_steps")
def test_a_broker_in_controlled_shutdown_stops_once_it_has_read_that_it_left_every_isr(cluster: DrivenCluster) -> None:
    """Its leaderships move in several steps: it may not stop between two of them, nor before it has read the last
    record."""
    cluster.create_at("t", *[[2, 1]] * 5)
    assert not cluster.heartbeat(2, want_shut_down=True).should_shut_down
    answers = []
    while cluster.controller.has_work:
        in_sync = any(2 in row.isr for row in cluster.partitions("t"))
        answers.append((in_sync, cluster.heartbeat(2, want_shut_down=True).should_shut_down))
        cluster.controller.work()
    assert answers.count((True, False)) > 1, "it had to wait between steps"
    assert (True, True) not in answers
    moved_at = cluster.log.end_offset - 1
    assert not cluster.heartbeat(2, want_shut_down=True, current_metadata_offset=moved_at - 1).should_shut_down
    assert cluster.heartbeat(2, want_shut_down=True, current_metadata_offset=moved_at).should_shut_down
    assert [row.leader for row in cluster.partitions("t")] == [1] * 5


@pytest.mark.usefixtures("tiny_steps")
def test_a_departure_that_a_restart_interrupted_is_finished(cluster: DrivenCluster) -> None:
    leave_and_return(cluster, "unregistered")
    assert any(2 in row.isr for row in cluster.partitions("t"))
    cluster.restart()
    finish(cluster)
    assert not any(2 in row.isr or row.leader == 2 for row in cluster.partitions("t"))


def test_a_look_for_who_caught_up_is_taken_some_rows_at_a_time(
    cluster: DrivenCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request waits for one step at most, also where many partitions lack a replica that cannot return."""
    assert cluster.create("many", 5_000, 2).error_code == ErrorCode.NONE
    monkeypatch.setattr(long_work, "ROWS_PER_STEP", 1_000)
    cluster.lose(2)
    with cluster.writing() as written:
        assert finish(cluster) == 4, "the tick that fenced the broker took the first step"
    assert not written


def test_partitions_of_different_widths_share_what_a_look_may_take(
    cluster: DrivenCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, replication_factor in (("two", 2), ("three", 3)):
        assert cluster.create(name, 2_000, replication_factor).error_code == ErrorCode.NONE
    monkeypatch.setattr(long_work, "ROWS_PER_STEP", 1_000)
    cluster.lose(2)
    with cluster.writing() as written:
        assert finish(cluster) == 3, "the tick that fenced the broker took the first step"
    assert not written


def test_many_that_caught_up_join_at_once_or_in_steps(
    start: Start, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_and_find_again() -> DrivenCluster:
        cluster = start(configs={"auto.leader.rebalance.enable": "false"})
        for name, rows in ROWS.items():
            assert cluster.create_at(name, *rows).error_code == ErrorCode.NONE
        assert cluster.create_at("wide", *[[1, 2, 3]] * 5).error_code == ErrorCode.NONE
        cluster.lose(2)
        finish(cluster)
        cluster.come_back(2)
        cluster.tick()
        return cluster

    whole = lose_and_find_again()
    finish(whole)
    monkeypatch.setattr(long_work, "ROWS_PER_STEP", 3)
    request.getfixturevalue("tiny_steps")
    parts = lose_and_find_again()
    assert finish(parts) > 3
    assert comparable(parts) == comparable(whole)
    assert parts.partitions("wide") == whole.partitions("wide")
    assert all(set(row.isr) == set(row.replicas) for row in parts.partitions("wide"))


def test_nobody_catches_up_with_a_leader_that_is_down(cluster: DrivenCluster) -> None:
    """Brokers may be down before the controller has noticed."""
    cluster.create_at("t", [1, 2], [3, 2])
    cluster.lose(2)
    finish(cluster)
    cluster.set_down({1})
    cluster.come_back(2)
    finish(cluster)
    assert [row.isr for row in cluster.partitions("t")] == [(1,), (2, 3)]
    cluster.set_down(())
    cluster.tick()
    finish(cluster)
    assert [row.isr for row in cluster.partitions("t")] == [(1, 2), (2, 3)]


def test_who_has_records_to_fetch_does_not_join_with_those_that_have_none(start: Start) -> None:
    cluster = start(data_limits=DataLimits(replication_rate=1))
    cluster.create_at("t", [1, 2], [1, 2])
    assert produce(cluster, batch(100), acks=1).error_code == ErrorCode.NONE
    cluster.lose(2)
    finish(cluster)
    cluster.come_back(2)
    finish(cluster)
    assert [row.isr for row in cluster.partitions("t")] == [(1,), (1, 2)]
    wait(cluster, 100_000)
    assert [row.isr for row in cluster.partitions("t")] == [(1, 2), (1, 2)]


def test_a_leader_elected_uncleanly_has_recovered_when_a_follower_joins_with_its_records_or_without(
    start: Start,
) -> None:
    """Seen on Apache Kafka 4.3: the leader says so in its first AlterPartition, and none is due before a replica joins
    or leaves."""
    cluster = start(data_limits=DataLimits(replication_rate=1))
    cluster.create_at("t", [1, 2], [1, 2])
    set_unclean(cluster, 2, "t")
    assert produce(cluster, batch(100), acks=1).error_code == ErrorCode.NONE
    cluster.lose(2)
    cluster.lose(1)
    cluster.come_back(2)
    finish(cluster)
    assert cluster.data.incomplete, "the first partition has records that broker 1 has to fetch"
    assert [(row.leader, row.isr, row.leader_recovery_state) for row in cluster.partitions("t")] == [(2, (2,), 1)] * 2
    assert [row.leader_epoch for row in cluster.partitions("t")] == [2, 2], "it was elected"
    before = [row.partition_epoch for row in cluster.partitions("t")]
    cluster.come_back(1)
    wait(cluster, 100_000)
    assert [(row.isr, row.leader_recovery_state) for row in cluster.partitions("t")] == [((1, 2), 0)] * 2
    assert [row.partition_epoch - old for row, old in zip(cluster.partitions("t"), before, strict=True)] == [1, 1]


# Periodic elections


def wait(cluster: DrivenCluster, milliseconds: int) -> None:
    cluster.pass_time(milliseconds)
    finish(cluster)


def test_leaderships_go_back_to_the_first_replica_after_a_while(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [2, 1], [2, 3], [1, 2], [3, 1])
    cluster.lose(2)
    cluster.come_back(2)
    assert [row.leader for row in cluster.partitions("t")] == [1, 3, 1, 3]
    before = cluster.partitions("t")
    with cluster.writing() as written:
        wait(cluster, PREFERRED_MS)
    after = cluster.partitions("t")
    assert [row.leader for row in after] == [2, 2, 1, 3]
    assert [row.isr for row in after] == [row.isr for row in before]
    assert [row.leader_epoch - old.leader_epoch for row, old in zip(after, before, strict=True)] == [1, 1, 0, 0]
    topic_id = cluster.image.topics_by_name["t"].topic_id
    assert written == [PartitionChangeRecord(partition_id=index, topic_id=topic_id, leader=2) for index in (0, 1)]
    cluster.lose(2)
    cluster.come_back(2)
    wait(cluster, PREFERRED_MS // 2)
    assert [row.leader for row in cluster.partitions("t")] == [1, 3, 1, 3], "the next look is not due yet"


def test_only_who_is_live_and_in_sync_gets_leadership_back(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [2, 1])
    cluster.lose(2)
    with cluster.writing() as written:
        wait(cluster, PREFERRED_MS)
    assert [record for record in written if isinstance(record, PartitionChangeRecord)] == []
    assert cluster.partitions("t")[0].leader == 1


@pytest.mark.parametrize(
    ("configs", "waited_ms", "leader"),
    [
        ({}, PREFERRED_MS - 60_000, 1),
        ({"leader.imbalance.check.interval.seconds": "20"}, 30_000, 2),
        ({"auto.leader.rebalance.enable": "false"}, 2 * PREFERRED_MS, 1),
    ],
)
def test_how_often_is_a_config(
    start: Start, profile: Profile, configs: dict[str, str], waited_ms: int, leader: int
) -> None:
    cluster = start(profile=profile, configs=configs)
    cluster.create_at("t", [2, 1])
    cluster.lose(2)
    cluster.come_back(2)
    wait(cluster, waited_ms)
    assert cluster.partitions("t")[0].leader == leader


@given(lost_and_found())
def test_preferred_leaders_as_columns_are_those_of_one_by_one(
    case: tuple[MetadataImage, list[tuple[str, int]]],
) -> None:
    image, history = case
    settings = Settings()
    for action, broker_id in history:
        apply(image, *step(image, action, broker_id))
    acceptable, rules = LiveReplicas(image, image.live_brokers()), TopicRules(image, settings)
    for table in image.partitions.tables.values():
        rows = np.flatnonzero(led_by_others_at(table, slice(0, table.count)))
        reference = [one for row in rows.tolist() for one in rules.plan_row(table, row, acceptable, preferred=True)]
        planned = plan_preferred_leaders(image, table, rows, acceptable, rules)
        assert as_one_by_one(planned) == as_one_by_one(reference)


def test_periodic_work_is_due_a_period_after_it_began_last_and_once_however_late() -> None:
    configs = {"leader.imbalance.check.interval.seconds": "20"}
    periods = Periods(Settings(static_configs=configs), START_MS)
    begun = [(at, [type(work) for work in periods.due(START_MS + at)]) for at in (
        0, 19_999, 20_000, 20_001, 39_999, 40_000, 75_000, 94_999, 95_000, 299_999, 300_000, 319_998, 599_999, 600_000
    )]  # fmt: skip
    preferred, unclean = [PreferredLeaders], [UncleanElections]
    assert [(at, work) for at, work in begun if work] == [
        (20_000, preferred),
        (40_000, preferred),
        (75_000, preferred),
        (95_000, preferred),
        (299_999, preferred),
        (300_000, unclean),
        (599_999, preferred),
        (600_000, unclean),
    ]


def set_unclean(cluster: DrivenCluster, resource_type: int, resource_name: str) -> None:
    config = AlterableConfig(name="unclean.leader.election.enable", config_operation=0, value="true")
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=resource_name, configs=[config])
    response = cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    assert response.responses[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("resource", [(2, "t"), (4, "")], ids=["topic", "cluster"])
def test_unclean_elections_that_a_config_allows_come_with_the_next_look(
    cluster: DrivenCluster, resource: tuple[int, str]
) -> None:
    """Recorded: not at once, but with the next run of the periodic task."""
    cluster.create_at("t", [2, 3])
    cluster.create_at("other", [2, 3])
    cluster.lose(3)
    cluster.lose(2)
    cluster.lives[3] += 1
    cluster.register(3)
    cluster.heartbeat(3)
    cluster.tick()
    set_unclean(cluster, *resource)
    finish(cluster)
    assert (cluster.partitions("t")[0].leader, cluster.partitions("t")[0].isr) == (-1, ())
    wait(cluster, UNCLEAN_ELECTION_INTERVAL_MS)
    [row] = cluster.partitions("t")
    assert (row.leader, row.isr, row.leader_recovery_state) == (3, (3,), 1)  # No replica has joined yet.
    assert (row.eligible_leader_replicas, row.last_known_elr) == ((), ())
    assert cluster.partitions("other")[0].leader == (-1 if resource[1] else 3)


def test_who_comes_back_elects_nobody_where_it_has_no_replica(cluster: DrivenCluster) -> None:
    """Other replicas may have become electable meanwhile; the periodic check elects them."""
    cluster.create_at("t", [2, 3])
    cluster.lose(3)
    cluster.lose(2)
    cluster.come_back(3)
    set_unclean(cluster, 2, "t")
    cluster.lose(1)
    cluster.come_back(1)
    finish(cluster)
    assert cluster.partitions("t")[0].leader == -1
    wait(cluster, UNCLEAN_ELECTION_INTERVAL_MS)
    assert cluster.partitions("t")[0].leader == 3
