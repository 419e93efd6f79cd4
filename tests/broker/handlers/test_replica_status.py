"""ReplicaStatus and DescribeLogDirs: the lag and the size of replicas, and every error in its order."""

from typing import Any

import pytest

from klamm.controller.data_limits import DataLimits
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from klamm.protocol.messages.partitions.replica_status import (
    ReplicaStatusEntry,
    ReplicaStatusRequest,
    ReplicaStatusRequestEntry,
)
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import produce
from tests.controller.handlers.cluster import START_MS, DrivenCluster
from tests.controller.handlers.guarded_cluster import GuardedCluster

SLOW = DataLimits(replication_rate=100)
SIZE = len(batch(50))


def new_cluster(**fields: Any) -> DrivenCluster:
    """Topic t: partition 0 led by broker 1, partition 1 by broker 2; broker 3 has a replica of partition 0 only."""
    cluster = DrivenCluster(3, data_limits=SLOW, **fields)
    assert cluster.create_at("t", [1, 2], [2, 1]).error_code == 0
    assert cluster.create_at("u", [1, 2, 3]).error_code == 0
    return cluster


def status(cluster: DrivenCluster, *entries: tuple[str, int, int], broker_id: int = 1) -> list[ReplicaStatusEntry]:
    wanted = [ReplicaStatusRequestEntry(topic=name, partition_id=index, broker=one) for name, index, one in entries]
    request = ReplicaStatusRequest(replica_status_requests=wanted)
    found: list[ReplicaStatusEntry] = list(cluster.ask(request, broker_id=broker_id).replica_status)
    assert [(one.topic, one.partition_id, one.broker) for one in found] == list(entries)
    return found


def test_a_lag_is_what_the_replica_lacks_of_the_leader_s_log() -> None:
    cluster = new_cluster()
    produce(cluster, batch(50), topic_name="u", acks=1)
    produce(cluster, batch(50), topic_name="u", acks=1)
    entries = [("u", 0, broker_id) for broker_id in (1, 2, 3)]
    cluster.clock.advance(99)
    assert [(one.error_code, one.lag, one.status_time) for one in status(cluster, *entries)] == [
        (0, lag, START_MS + 99) for lag in (0, 90, 90)
    ]
    cluster.set_down([3])
    cluster.clock.advance(2_000)
    assert [one.lag for one in status(cluster, *entries)] == [0, 0, 90]


def test_a_partition_without_records_lags_behind_nothing() -> None:
    assert [one.lag for one in status(new_cluster(), ("t", 0, 1), ("t", 0, 2))] == [0, 0]


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (("nope", -1, 9), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (("t", 2, 9), ErrorCode.INVALID_PARTITIONS),
        (("t", -1, 9), ErrorCode.INVALID_PARTITIONS),
        (("t", 1, 9), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (("t", 0, 9), ErrorCode.UNKNOWN_MEMBER_ID),
        (("t", 0, -1), ErrorCode.UNKNOWN_MEMBER_ID),
        (("t", 0, 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_the_first_thing_that_is_wrong_is_told(entry: tuple[str, int, int], code: int) -> None:
    bad, good = status(new_cluster(), entry, ("t", 0, 2))
    assert (bad.error_code, bad.lag, bad.status_time) == (code, -1, START_MS)
    assert (good.error_code, good.lag) == (0, 0)


def test_without_a_leader_every_broker_says_that_it_is_not_it() -> None:
    cluster = new_cluster()
    cluster.lose(1, 2)
    assert cluster.partitions("t")[0].leader == -1
    for broker_id in (1, 2, 3):
        (found,) = status(cluster, ("t", 0, 1), broker_id=broker_id)
        assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_placeholder_is_no_broker() -> None:
    cluster = DrivenCluster(1, configs={"enable.under.replicated.topic.creation": "true"})
    cluster.create("p", 1, 2)
    assert cluster.partitions("p")[0].replicas == (1, -1)
    (found,) = status(cluster, ("p", 0, -1))
    assert found.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_may_not_describe_the_cluster_is_told_so_for_every_entry() -> None:
    guarded = GuardedCluster(1)
    guarded.create_at("t", [1])
    with guarded.asking():
        found = status(guarded, ("t", 0, 1), ("nope", 0, 1))
    assert [one.error_code for one in found] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2


def sizes(cluster: DrivenCluster, broker_id: int, *topic_names: str) -> dict[tuple[str, int], tuple[int, int]]:
    """Size and offset lag of each replica on a broker."""
    topics = [DescribableLogDirTopic(topic=name, partitions=[0, 1]) for name in topic_names]
    (found,) = cluster.ask(DescribeLogDirsRequest(topics=topics or None), broker_id=broker_id).results
    return {
        (topic.name, one.partition_index): (one.partition_size, one.offset_lag)
        for topic in found.topics
        for one in topic.partitions
    }


def test_sizes_are_those_of_what_a_replica_has() -> None:
    cluster = new_cluster()
    for _ in range(2):
        produce(cluster, batch(50), topic_name="u", acks=1)
    cluster.clock.advance(600)
    empty = {("t", 0): (0, 0), ("t", 1): (0, 0)}
    assert sizes(cluster, 1) == {**empty, ("u", 0): (2 * SIZE, 0)}
    assert sizes(cluster, 2) == {**empty, ("u", 0): (SIZE, 0)}
    assert sizes(cluster, 3) == sizes(cluster, 3, "u", "t") == {("u", 0): (SIZE, 0)}
    cluster.clock.advance(600)
    assert sizes(cluster, 3) == {("u", 0): (2 * SIZE, 0)}
    cluster.data.delete_before(cluster.image.topics_by_name["u"].topic_id, 0, 50, cluster.clock.now_ms)
    assert sizes(cluster, 3) == {("u", 0): (SIZE, 0)}
