"""DeleteRecords and DescribeProducers: their effect on a partition, their answers, and every error with its code."""

from typing import Any

import pytest

from klamm.controller.data_limits import DataLimits
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.protocol.messages.data.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)
from klamm.protocol.messages.topics.create_topics import CreatableTopicConfig
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import fetch, produce
from tests.controller.handlers.cluster import START_MS, DrivenCluster

SIZE = len(batch(10))


def filled(**fields: Any) -> DrivenCluster:
    """Topic t, led by broker 1, with three batches of ten records; partition 1 is empty."""
    cluster = DrivenCluster(3, **fields)
    assert cluster.create_at("t", [1, 2], [1, 2]).error_code == 0
    for _ in range(3):
        assert produce(cluster, batch(10), acks=1).error_code == 0
    return cluster


def delete(
    cluster: DrivenCluster, offset: int, *, topic_name: str = "t", partition: int = 0, broker_id: int = 1
) -> DeleteRecordsPartitionResult:
    partitions = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic_name, partitions=partitions)])
    found: DeleteRecordsPartitionResult = cluster.ask(request, broker_id=broker_id).topics[0].partitions[0]
    return found


@pytest.mark.parametrize(
    ("offset", "start", "batches"), [(0, 0, 3), (1, 1, 3), (10, 10, 2), (15, 15, 2), (30, 30, 0), (-1, 30, 0)]
)
def test_the_log_begins_at_the_offset(offset: int, start: int, batches: int) -> None:
    cluster = filled()
    found = delete(cluster, offset)
    assert (found.error_code, found.low_watermark) == (0, start)
    assert fetch(cluster, start)[0].log_start_offset == start
    assert cluster.data.size_bytes == batches * SIZE
    if start:
        assert fetch(cluster, start - 1)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert delete(cluster, start - 1).low_watermark == start
    assert produce(cluster, batch(10)).base_offset == 30


@pytest.mark.parametrize("offset", [0, -1])
def test_from_a_partition_that_never_held_a_record_nothing_is_deleted(offset: int) -> None:
    found = delete(filled(), offset, partition=1)
    assert (found.error_code, found.low_watermark) == (0, 0)


CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("unknown topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"topic_name": "nope"}),
    ("unknown partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"partition": 2}),
    ("a follower", ErrorCode.NOT_LEADER_OR_FOLLOWER, {"broker_id": 2}),
    ("an internal topic", ErrorCode.INVALID_TOPIC_EXCEPTION, {"topic_name": "__consumer_offsets"}),
    ("a compacted topic", ErrorCode.POLICY_VIOLATION, {"topic_name": "c"}),
    ("behind the end", ErrorCode.OFFSET_OUT_OF_RANGE, {"offset": 31}),
    ("no offset", ErrorCode.OFFSET_OUT_OF_RANGE, {"offset": -2}),
]


@pytest.mark.parametrize(("what", "code", "fields"), CASES, ids=[case[0] for case in CASES])
def test_what_is_refused_has_its_code_and_deletes_nothing(what: str, code: int, fields: dict[str, Any]) -> None:
    cluster = filled()
    cluster.create_at("__consumer_offsets", [1])
    cluster.create_at("c", [1], configs=[CreatableTopicConfig(name="cleanup.policy", value="compact")])
    found = delete(cluster, **{"offset": 0, **fields})
    assert (found.error_code, found.low_watermark) == (code, -1), what
    assert cluster.data.size_bytes == 3 * SIZE


def test_nothing_is_deleted_that_is_not_committed() -> None:
    cluster = filled(data_limits=DataLimits(replication_rate=10))
    cluster.clock.advance(999)
    assert delete(cluster, 11).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete(cluster, -1).low_watermark == 10


def producers(cluster: DrivenCluster, *indexes: int, topic_name: str = "t", broker_id: int = 1) -> Any:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic_name, partition_indexes=list(indexes))])
    return cluster.ask(request, broker_id=broker_id).topics[0].partitions


def test_the_producers_of_a_partition_are_told() -> None:
    cluster = filled()
    for producer_id, base_sequence in ((7, 0), (9, 0), (7, 2)):
        written = batch(
            2, producer_id=producer_id, producer_epoch=3, base_sequence=base_sequence, timestamp_ms=START_MS
        )
        assert produce(cluster, written).error_code == 0
    first, second = producers(cluster, 0, 1)
    assert list(producers(cluster, 0, 1, broker_id=2)) == [first, second]
    assert list(first.active_producers) == [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=3,
            last_sequence=last_sequence,
            last_timestamp=START_MS,
            coordinator_epoch=-1,
        )
        for producer_id, last_sequence in ((9, 1), (7, 3))
    ]
    assert second == PartitionResponse(partition_index=1)


@pytest.mark.parametrize(
    ("index", "fields", "code"),
    [
        (0, {"topic_name": "nope"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (2, {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, {"broker_id": 3}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_producers_that_are_not_told(index: int, fields: dict[str, Any], code: int) -> None:
    (found,) = producers(filled(), index, **fields)
    assert (found.error_code, list(found.active_producers)) == (code, [])
