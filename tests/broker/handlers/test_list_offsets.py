"""ListOffsets and OffsetForLeaderEpoch: offsets, timestamps and epochs in the answers, and every error with its
code."""

from typing import Any

import pytest

from klamm.controller.data_limits import DataLimits
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data import list_offsets as messages
from klamm.protocol.messages.data.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from klamm.protocol.messages.partitions.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import produce
from tests.controller.handlers.cluster import START_MS, DrivenCluster

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
SLOW = DataLimits(replication_rate=10)


def in_second_epoch(**fields: Any) -> DrivenCluster:
    """Topic e: partition 0 led by broker 1 in epoch 1, partition 1 by broker 3; broker 4 has no replica."""
    cluster = DrivenCluster(4, **fields)
    assert cluster.create_at("e", [2, 1, 3], [3, 1, 2]).error_code == 0
    cluster.shut_down(2)
    cluster.come_back(2)
    return cluster


def filled(**fields: Any) -> DrivenCluster:
    """Three batches of two records in partition 0; the last one has the earliest timestamp."""
    cluster = in_second_epoch(**fields)
    for timestamp_ms in (START_MS, START_MS + 10, START_MS - 10):
        assert produce(cluster, batch(2, timestamp_ms=timestamp_ms), topic_name="e", acks=1).error_code == 0
    return cluster


def asked(
    cluster: DrivenCluster,
    *timestamps: int,
    timestamp: int | None = None,
    partition: int = 0,
    topic_name: str = "e",
    replica_id: int = -1,
    current_leader_epoch: int = -1,
    isolation_level: int = 0,
    **fields: Any,
) -> list[ListOffsetsPartitionResponse]:
    partitions = [
        ListOffsetsPartition(partition_index=partition, timestamp=one, current_leader_epoch=current_leader_epoch)
        for one in (timestamps if timestamp is None else (timestamp,))
    ]
    topics = [ListOffsetsTopic(name=topic_name, partitions=partitions)]
    request = ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation_level, topics=topics)
    found: list[ListOffsetsPartitionResponse] = list(cluster.ask(request, **fields).topics[0].partitions)
    return found


@pytest.mark.parametrize("version", messages.API.kept_versions)
@pytest.mark.parametrize(
    ("timestamp", "since", "expected"),
    [
        (LATEST, 1, (6, -1, 1)),
        (EARLIEST, 1, (0, -1, 1)),
        (MAX_TIMESTAMP, 7, (2, START_MS + 10, 1)),
        (EARLIEST_LOCAL, 8, (0, -1, 1)),
        (LATEST_TIERED, 9, (-1, -1, -1)),
        (EARLIEST_PENDING_UPLOAD, 11, (-1, -1, -1)),
        (-7, 99, None),
        (0, 1, (0, START_MS, 1)),
        (START_MS, 1, (0, START_MS, 1)),
        (START_MS + 1, 1, (2, START_MS + 10, 1)),
        (START_MS + 11, 1, (-1, -1, -1)),
    ],
)
def test_offsets_are_found(timestamp: int, since: int, expected: tuple[int, int, int], version: int) -> None:
    (found,) = asked(filled(), timestamp, version=version)
    if version < since:
        assert (found.error_code, found.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)
        return
    offset, timestamp_ms, leader_epoch = expected
    assert (found.error_code, found.offset, found.timestamp) == (0, offset, timestamp_ms)
    assert found.leader_epoch == (leader_epoch if version >= 4 else -1)


@pytest.mark.parametrize(
    ("timestamp", "offset", "leader_epoch"), [(LATEST, 0, 0), (EARLIEST, 0, 0), (MAX_TIMESTAMP, -1, -1), (5, -1, -1)]
)
def test_a_partition_that_never_held_a_record(timestamp: int, offset: int, leader_epoch: int) -> None:
    (found,) = asked(filled(), timestamp, partition=1, broker_id=3)
    assert (found.error_code, found.offset, found.leader_epoch) == (0, offset, leader_epoch)


CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("unknown topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"topic_name": "nope"}),
    ("unknown partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"partition": 2}),
    ("negative partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"partition": -1}),
    ("an unknown question about nothing", ErrorCode.UNSUPPORTED_VERSION, {"topic_name": "nope", "timestamp": -7}),
    ("a follower", ErrorCode.NOT_LEADER_OR_FOLLOWER, {"broker_id": 3}),
    ("a broker without a replica", ErrorCode.NOT_LEADER_OR_FOLLOWER, {"broker_id": 4, "replica_id": -2}),
    ("an older epoch", ErrorCode.FENCED_LEADER_EPOCH, {"current_leader_epoch": 0}),
    ("a newer epoch", ErrorCode.UNKNOWN_LEADER_EPOCH, {"current_leader_epoch": 2}),
    ("a broker that asks a follower", ErrorCode.NOT_LEADER_OR_FOLLOWER, {"broker_id": 3, "replica_id": 0}),
    ("another isolation level", ErrorCode.INVALID_REQUEST, {"isolation_level": 2}),
]


@pytest.mark.parametrize(("what", "code", "fields"), CASES, ids=[case[0] for case in CASES])
def test_what_is_refused_has_its_code(what: str, code: int, fields: dict[str, Any]) -> None:
    (found,) = asked(filled(), **{"timestamp": LATEST, **fields})
    assert (found.error_code, found.offset, found.timestamp, found.leader_epoch) == (code, -1, -1, -1), what


def test_a_partition_that_is_asked_about_twice_is_told_once_and_refused() -> None:
    assert [one.error_code for one in asked(filled(), LATEST, EARLIEST)] == [ErrorCode.INVALID_REQUEST]


def test_consumers_are_told_of_what_is_committed_and_others_of_all() -> None:
    cluster = filled(data_limits=SLOW)
    assert asked(cluster, LATEST)[0].offset == 0
    assert asked(cluster, MAX_TIMESTAMP)[0].offset == -1
    assert asked(cluster, LATEST, replica_id=-2)[0].offset == 6
    assert asked(cluster, LATEST, replica_id=0)[0].offset == 6
    assert asked(cluster, MAX_TIMESTAMP, replica_id=-2)[0].offset == 2
    assert asked(cluster, LATEST, replica_id=-2, broker_id=3)[0].offset == 0
    cluster.clock.advance(199)
    assert (asked(cluster, LATEST)[0].offset, asked(cluster, MAX_TIMESTAMP)[0].offset) == (2, -1)
    cluster.clock.advance(100)
    assert asked(cluster, LATEST)[0].offset == 3
    assert asked(cluster, LATEST, replica_id=-2, broker_id=3)[0].offset == 3
    assert asked(cluster, MAX_TIMESTAMP)[0].offset == 2


@pytest.mark.parametrize(
    ("version", "code"), [(11, ErrorCode.OFFSET_NOT_AVAILABLE), (4, ErrorCode.LEADER_NOT_AVAILABLE)]
)
def test_a_new_leader_does_not_know_at_once_what_is_committed(version: int, code: int) -> None:
    """Broker 3 has more than broker 2 when it leads, and broker 2 is in sync."""
    cluster = DrivenCluster(3, data_limits=SLOW)
    cluster.create_at("e", [1, 3, 2])
    for _ in range(10):
        produce(cluster, batch(10), topic_name="e", acks=1)
    cluster.set_down([2])
    cluster.pass_time(5_000)
    cluster.shut_down(1)
    assert (cluster.partitions("e")[0].leader, cluster.partitions("e")[0].isr) == (3, (3, 2))
    (found,) = asked(cluster, LATEST, broker_id=3, version=version)
    assert (found.error_code, found.offset) == (code, -1)
    assert asked(cluster, EARLIEST, broker_id=3)[0].offset == 0
    assert asked(cluster, LATEST, broker_id=2, replica_id=-2)[0].offset == 0
    cluster.set_down([])
    cluster.pass_time(6_000)
    assert asked(cluster, LATEST, broker_id=3)[0].offset == 50


def epoch_end(cluster: DrivenCluster, epoch: int, broker_id: int = 1, **fields: Any) -> EpochEndOffset:
    topic_name = fields.pop("topic_name", "e")
    partition = OffsetForLeaderPartition(leader_epoch=epoch, **fields)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic_name, partitions=[partition])])
    found: EpochEndOffset = cluster.ask(request, broker_id=broker_id).topics[0].partitions[0]
    return found


@pytest.mark.parametrize(("epoch", "expected"), [(-1, (-1, -1)), (0, (0, 6)), (1, (0, 6)), (2, (2, 8)), (3, (-1, -1))])
def test_epochs_end_where_the_next_one_began_to_write(epoch: int, expected: tuple[int, int]) -> None:
    """Epoch 0 wrote six records, epoch 2 two; epoch 1 nothing."""
    cluster = DrivenCluster(2)
    cluster.create_at("e", [1, 2])
    produce(cluster, batch(6), topic_name="e")
    cluster.shut_down(1)
    cluster.come_back(1)
    cluster.shut_down(2)
    cluster.come_back(2)
    produce(cluster, batch(2), topic_name="e")
    found = epoch_end(cluster, epoch)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, *expected)


@pytest.mark.parametrize(("epoch", "expected"), [(0, (0, 0)), (1, (-1, -1)), (-1, (-1, -1))])
def test_epochs_of_a_partition_that_never_held_a_record(epoch: int, expected: tuple[int, int]) -> None:
    found = epoch_end(in_second_epoch(), epoch, broker_id=3, partition=1)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, *expected)


EPOCH_CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("unknown topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"topic_name": "nope"}),
    ("unknown partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"partition": 2}),
    ("a follower", ErrorCode.NOT_LEADER_OR_FOLLOWER, {"broker_id": 3}),
    ("an older epoch", ErrorCode.FENCED_LEADER_EPOCH, {"current_leader_epoch": 0}),
    ("a newer epoch", ErrorCode.UNKNOWN_LEADER_EPOCH, {"current_leader_epoch": 2}),
]


@pytest.mark.parametrize(("what", "code", "fields"), EPOCH_CASES, ids=[case[0] for case in EPOCH_CASES])
def test_an_epoch_that_is_not_told_has_its_code(what: str, code: int, fields: dict[str, Any]) -> None:
    found = epoch_end(filled(), 0, **fields)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (code, -1, -1), what
