"""BrokerHeartbeat and the clock: which brokers are unfenced, fenced after their session, allowed to stop, and which
directories count."""

from collections.abc import Callable
from typing import Any

import pytest

from klamm.controller.settings import Profile
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from klamm.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from klamm.protocol.records.brokers import BrokerRegistrationChangeRecord
from klamm.protocol.records.partitions import PartitionChangeRecord
from tests.controller.handlers.cluster import SESSION_MS, START_MS, DrivenCluster, directory
from tests.controller.log.logs import append_records

Start = Callable[..., DrivenCluster]
SET, CLEAR = 1, -1


def standing(response: Any) -> tuple[bool, bool, bool]:
    """Whether the broker is caught up, fenced, and may stop."""
    assert response.error_code == ErrorCode.NONE
    return response.is_caught_up, response.is_fenced, response.should_shut_down


@pytest.mark.parametrize("version", range(3))
def test_an_unknown_broker_and_a_stale_epoch(cluster: DrivenCluster, version: int) -> None:
    epoch = cluster.image.brokers[2].broker_epoch
    with cluster.writing() as written:
        assert cluster.heartbeat(9, version=version).error_code == ErrorCode.STALE_BROKER_EPOCH
        assert cluster.heartbeat(-1, version=version).error_code == ErrorCode.STALE_BROKER_EPOCH
        for stale in (epoch - 1, epoch + 1, -1):
            refused = cluster.heartbeat(2, version=version, broker_epoch=stale, want_shut_down=True)
            assert refused.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert written == []


def test_a_broker_is_unfenced_when_it_has_read_its_registration_and_wants_to_serve(cluster: DrivenCluster) -> None:
    epoch = cluster.register(7).broker_epoch
    with cluster.writing() as written:
        assert standing(cluster.heartbeat(7, current_metadata_offset=epoch - 1)) == (False, True, False)
        assert standing(cluster.heartbeat(7, current_metadata_offset=epoch, want_fence=True)) == (True, True, False)
    assert written == []
    with cluster.writing() as written:
        assert standing(cluster.heartbeat(7, current_metadata_offset=epoch)) == (True, False, False)
    [record] = written
    assert isinstance(record, BrokerRegistrationChangeRecord)
    assert (record.broker_id, record.broker_epoch, record.fenced) == (7, epoch, CLEAR)
    with cluster.writing() as written:
        assert standing(cluster.heartbeat(7)) == (True, False, False)
        assert standing(cluster.heartbeat(7, current_metadata_offset=0)) == (False, False, False), "behind, not fenced"
    assert written == []


def test_a_broker_that_wants_to_be_fenced_is(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [2, 1])
    assert standing(cluster.heartbeat(2, want_fence=True)) == (True, True, False)
    assert (cluster.partitions("t")[0].leader, cluster.partitions("t")[0].isr) == (1, (1,))
    assert standing(cluster.heartbeat(2)) == (True, False, False)
    cluster.tick()
    [row] = cluster.partitions("t")
    assert (row.leader, set(row.isr)) == (1, {1, 2}), "it catches up and follows"


# Controlled shutdown


def test_a_controlled_shutdown_moves_leaders_first_and_fences_when_that_was_read(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [2, 1], [1, 2], [3, 1])
    with cluster.writing() as written:
        assert standing(cluster.heartbeat(2, want_shut_down=True)) == (True, False, False)
    moved_at = cluster.log.end_offset - 1
    change, *changes = written
    assert isinstance(change, BrokerRegistrationChangeRecord)
    assert (change.in_controlled_shutdown, change.fenced) == (SET, 0)
    assert [type(record) for record in changes] == [PartitionChangeRecord] * 2
    assert [row.leader for row in cluster.partitions("t")] == [1, 1, 3]
    with cluster.writing() as written:
        behind = cluster.heartbeat(2, want_shut_down=True, current_metadata_offset=moved_at - 1)
        assert standing(behind) == (True, False, False)
        cluster.pass_time(SESSION_MS)
        assert cluster.image.brokers[2].in_controlled_shutdown
    assert written == []
    with cluster.writing() as written:
        stopped = cluster.heartbeat(2, want_shut_down=True, current_metadata_offset=moved_at)
        assert standing(stopped) == (True, True, True)
    [fenced] = written
    assert isinstance(fenced, BrokerRegistrationChangeRecord)
    assert (fenced.fenced, fenced.in_controlled_shutdown) == (SET, 0)
    assert standing(cluster.heartbeat(2, want_shut_down=True)) == (True, True, True), "asked again"


@pytest.mark.parametrize("follows", [True, False])
def test_a_broker_that_leads_nothing_may_stop_at_once(cluster: DrivenCluster, follows: bool) -> None:
    cluster.create_at("t", [1, 2] if follows else [1, 3])
    with cluster.writing() as written:
        assert standing(cluster.heartbeat(2, want_shut_down=True)) == (True, True, True)
    fenced = written[-1]
    assert isinstance(fenced, BrokerRegistrationChangeRecord)
    assert (fenced.fenced, fenced.in_controlled_shutdown, len(written)) == (SET, 0, 1 + follows)
    assert cluster.partitions("t")[0].isr == ((1,) if follows else (1, 3))


def test_a_broker_that_wants_to_be_fenced_and_to_stop_may_do_both_at_once(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [2, 1])
    assert standing(cluster.heartbeat(2, want_fence=True, want_shut_down=True)) == (True, True, True)
    assert (cluster.partitions("t")[0].leader, cluster.image.brokers[2].in_controlled_shutdown) == (1, False)


def test_a_fenced_broker_may_stop_at_once(cluster: DrivenCluster) -> None:
    cluster.register(7)
    with cluster.writing() as written:
        assert standing(cluster.heartbeat(7, want_shut_down=True)) == (True, True, True)
    assert written == []


def test_a_broker_on_its_way_out_does_not_return_by_heartbeats(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [2, 1])
    cluster.heartbeat(2, want_shut_down=True)
    assert standing(cluster.heartbeat(2, current_metadata_offset=0)) == (False, False, False)
    cluster.tick()
    assert not cluster.image.brokers[2].live
    assert cluster.partitions("t")[0].isr == (1,)


@pytest.mark.parametrize("silent", [False, True], ids=["stopped", "fell silent on the way"])
def test_a_broker_that_was_told_to_stop_serves_again_as_another_incarnation_only(
    cluster: DrivenCluster, silent: bool
) -> None:
    """Found by the simulation: unfenced while its registration was in controlled shutdown, it led partitions but was
    not live."""
    cluster.create_at("t", [2])
    if silent:
        cluster.heartbeat(2, want_shut_down=True)
        cluster.lose(2)
    else:
        cluster.shut_down(2)
    assert standing(cluster.heartbeat(2)) == (True, True, False)
    assert cluster.partitions("t")[0].leader == -1
    cluster.pass_time(SESSION_MS)
    cluster.come_back(2)
    assert cluster.partitions("t")[0].leader == 2


def test_the_last_in_sync_replica_leaves_the_partition_without_a_leader(cluster: DrivenCluster) -> None:
    """Recorded: the ISR is empty, the broker is the eligible and the last known leader, and the leader epoch grows."""
    cluster.create_at("t", [2])
    cluster.shut_down(2)
    [row] = cluster.partitions("t")
    assert (row.leader, row.isr, row.leader_epoch) == (-1, (), 1)
    assert (row.eligible_leader_replicas, row.last_known_elr) == ((2,), (2,))


# Sessions that end


def test_silence_fences_at_the_end_of_the_session_and_not_before(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [2, 1], [1, 2])
    cluster.clock.advance(1)
    cluster.heartbeat(1)
    cluster.heartbeat(3)
    cluster.clock.advance(SESSION_MS - 2)
    with cluster.writing() as written:
        cluster.tick()
    assert written == []
    cluster.clock.advance(1)
    with cluster.writing() as written:
        cluster.tick()
    assert isinstance(written[-1], BrokerRegistrationChangeRecord)
    assert (written[-1].broker_id, written[-1].fenced) == (2, SET)
    assert [broker_id for broker_id, broker in cluster.image.brokers.items() if broker.fenced] == [2]
    assert [row.leader for row in cluster.partitions("t")] == [1, 1]
    with cluster.writing() as written:
        cluster.pass_time(SESSION_MS)
    assert written == [], "fenced once"


def test_the_session_timeout_is_a_config(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile, configs={"broker.session.timeout.ms": "3000"})
    cluster.clock.advance(2999)
    cluster.tick()
    assert all(broker.live for broker in cluster.image.brokers.values())
    cluster.clock.advance(1)
    cluster.tick()
    assert all(broker.fenced for broker in cluster.image.brokers.values())


def test_after_a_restart_each_broker_has_one_session_to_be_heard_again(cluster: DrivenCluster) -> None:
    cluster.clock.advance(SESSION_MS - 1)
    cluster.restart()
    cluster.clock.advance(SESSION_MS - 1)
    cluster.heartbeat(1)
    cluster.tick()
    assert all(broker.live for broker in cluster.image.brokers.values())
    cluster.clock.advance(1)
    cluster.tick()
    assert [broker.live for broker in cluster.image.brokers.values()] == [True, False, False]


def test_a_broker_that_was_fenced_for_silence_comes_back_by_heartbeats(cluster: DrivenCluster) -> None:
    """The same incarnation, which was only unreachable: it follows again, and leads where no other replica could."""
    cluster.create_at("t", [2, 1])
    cluster.create_at("alone", [2])
    cluster.lose(2)
    cluster.heartbeat(2)
    cluster.tick()
    [row], [alone] = cluster.partitions("t"), cluster.partitions("alone")
    assert (row.leader, set(row.isr)) == (1, {1, 2})
    assert (alone.leader, alone.isr, alone.leader_recovery_state) == (2, (2,), 0)


def test_who_is_only_eligible_does_not_lead_while_somebody_is_in_sync(start: Start, profile: Profile) -> None:
    """KIP-966: broker 1 is first and eligible, but 3 is in sync."""
    cluster = start(profile=profile, configs={"min.insync.replicas": "3"})
    cluster.create_at("t", [1, 2, 3])
    cluster.lose(1)
    cluster.heartbeat(1)
    assert cluster.partitions("t")[0].eligible_leader_replicas == (1,)
    cluster.heartbeat(2, want_fence=True)
    [row] = cluster.partitions("t")
    assert (row.leader, row.isr, row.eligible_leader_replicas) == (3, (3,), (1, 2))


def test_all_brokers_may_go_and_come_back(cluster: DrivenCluster) -> None:
    cluster.create("t", 6, 3)
    before = cluster.partitions("t")
    cluster.lose(1, 2, 3)
    assert {row.leader for row in cluster.partitions("t")} == {-1}
    for broker_id in (3, 1, 2):
        cluster.come_back(broker_id, clean=False)
    for row, first in zip(cluster.partitions("t"), before, strict=True):
        assert row.replicas == first.replicas
        assert set(row.isr) == {1, 2, 3}
        assert row.leader in {1, 2, 3}
        assert row.leader_epoch > first.leader_epoch


# Log directories


def test_cordoned_directories_are_logged_once(cluster: DrivenCluster) -> None:
    with cluster.writing() as written:
        for _ in range(2):
            cluster.heartbeat(2, cordoned_log_dirs=[directory(2)])
        cluster.heartbeat(2)
        cluster.heartbeat(2, version=1)
        for _ in range(2):
            cluster.heartbeat(2, cordoned_log_dirs=[])
    assert [list(record.cordoned_log_dirs) for record in written] == [[directory(2)], []]  # type: ignore[attr-defined]
    assert cluster.image.brokers[2].cordoned_log_dirs == ()


@pytest.mark.parametrize("partitions", [2, 6], ids=["one by one", "as columns"])
def test_a_directory_that_went_offline_takes_its_replicas_out(cluster: DrivenCluster, partitions: int) -> None:
    """KIP-858: the replicas in the other directory stay, and the registration keeps the directories that are left."""
    good, bad = directory(7, 0), directory(7, 1)
    cluster.join(7, log_dirs=[good, bad])
    cluster.create_at("t", *[[7, 1]] * partitions)
    topic = cluster.image.topics_by_name["t"]
    placed = [
        PartitionChangeRecord(
            partition_id=index, topic_id=topic.topic_id, directories=[(good, bad)[index % 2], directory(1)]
        )
        for index in range(partitions)
    ]
    append_records(cluster.log, placed, START_MS)
    cluster.restart()
    with cluster.writing() as written:
        for _ in range(2):
            assert standing(cluster.heartbeat(7, offline_log_dirs=[bad])) == (True, False, False)
    *changes, registration = written
    assert len(changes) == partitions // 2
    assert all(isinstance(change, PartitionChangeRecord) for change in changes)
    assert isinstance(registration, BrokerRegistrationChangeRecord)
    assert list(registration.log_dirs) == [good]
    assert cluster.image.brokers[7].log_dirs == (good,)
    cluster.tick()  # The replica does not catch up there.
    assert [(row.leader, row.isr) for row in cluster.partitions("t")] == [(7, (7, 1)), (1, (1,))] * (partitions // 2)
    for request in (
        MetadataRequest(topics=[MetadataRequestTopic(name="t")]),
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]),
    ):
        [described] = cluster.ask(request).topics
        assert [list(partition.offline_replicas) for partition in described.partitions] == [[], [7]] * (partitions // 2)


def test_a_broker_without_any_directory_is_fenced(cluster: DrivenCluster) -> None:
    cluster.join(7, log_dirs=[directory(7, 0), directory(7, 1)])
    cluster.create_at("t", [7, 1])
    both = [directory(7, 1), directory(7, 0)]
    for _ in range(2):
        assert standing(cluster.heartbeat(7, offline_log_dirs=both)) == (True, True, False)
        cluster.tick()
        assert (cluster.partitions("t")[0].leader, cluster.partitions("t")[0].isr) == (1, (1,))
    assert cluster.image.brokers[7].log_dirs == (directory(7, 0), directory(7, 1))
    assert standing(cluster.heartbeat(7)) == (True, False, False), "they are there again"


def test_nobody_is_elected_in_a_directory_that_is_reported_offline(cluster: DrivenCluster) -> None:
    """A broker reports offline directories with the heartbeat that would unfence it; that is logged before it
    serves."""
    good, bad = directory(7, 0), directory(7, 1)
    cluster.join(7, log_dirs=[good, bad])
    cluster.create_at("t", [7], [7])
    topic_id = cluster.image.topics_by_name["t"].topic_id
    placed = [
        PartitionChangeRecord(partition_id=index, topic_id=topic_id, directories=[at])
        for index, at in enumerate((good, bad))
    ]
    append_records(cluster.log, placed, START_MS)
    cluster.restart()
    cluster.lose(7)
    assert standing(cluster.heartbeat(7, offline_log_dirs=[bad])) == (True, True, False)
    assert standing(cluster.heartbeat(7, offline_log_dirs=[bad])) == (True, False, False)
    assert [row.leader for row in cluster.partitions("t")] == [7, -1]


def test_a_foreign_directory_that_went_offline_is_nobody_s_affair(cluster: DrivenCluster) -> None:
    with cluster.writing() as written:
        cluster.heartbeat(2, offline_log_dirs=[directory(9), directory(1)])
    assert written == []
