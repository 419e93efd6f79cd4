"""Topics and partitions that a request about records names twice, or names without asking anything: read as Apache
Kafka 4.3 was seen to read them. The last word about a partition counts, and of a topic without partitions nothing is
said."""

from typing import Any

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from klamm.protocol.messages.data.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from klamm.protocol.messages.data.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages.data.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.messages.data.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import id_of, produce
from tests.controller.handlers.cluster import DrivenCluster

LATEST = -1
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.fixture
def cluster() -> DrivenCluster:
    """Topics t and u of two partitions on broker 1, ten records in t-0."""
    cluster = DrivenCluster(2)
    for name in ("t", "u"):
        assert cluster.create_at(name, [1], [1]).error_code == 0
    assert produce(cluster, batch(10)).error_code == 0
    return cluster


def test_offsets_are_listed_topic_by_topic(cluster: DrivenCluster) -> None:
    asked = [("t", [0]), ("u", []), ("nope", []), ("t", [1])]
    topics = [
        ListOffsetsTopic(
            name=name, partitions=[ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indexes]
        )
        for name, indexes in asked
    ]
    answer = cluster.ask(ListOffsetsRequest(replica_id=-1, topics=topics))
    told = [(topic.name, [(one.partition_index, one.offset) for one in topic.partitions]) for topic in answer.topics]
    assert told == [("t", [(0, 10), (1, 0)])]


def deleted(cluster: DrivenCluster, *asked: tuple[str, list[tuple[int, int]]]) -> list[Any]:
    topics = [
        DeleteRecordsTopic(
            name=name,
            partitions=[DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in partitions],
        )
        for name, partitions in asked
    ]
    answer = cluster.ask(DeleteRecordsRequest(topics=topics))
    return [
        (topic.name, [(one.partition_index, one.error_code, one.low_watermark) for one in topic.partitions])
        for topic in answer.topics
    ]


def test_the_last_offset_to_delete_before_counts(cluster: DrivenCluster) -> None:
    assert deleted(cluster, ("t", [(0, 5), (0, 99)])) == [("t", [(0, OUT_OF_RANGE, -1)])]
    assert deleted(cluster, ("t", [(0, 99), (0, 0)])) == [("t", [(0, 0, 0)])]
    assert deleted(cluster, ("u", []), ("t", [(0, 4)]), ("nope", []), ("t", [(1, 0)])) == [
        ("t", [(0, 0, 4), (1, 0, 0)])
    ]


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (
            [("t", [(0, 0), (1, 0), (0, 99)]), ("u", []), ("u", [(0, 0)]), ("t", [(1, 7)])],
            [[(0, OUT_OF_RANGE), (1, OUT_OF_RANGE)], [(0, 0)]],
        ),
        ([("t", [(0, 0)]), ("u", []), ("t", [(1, 7)])], [[(0, 0)], [(1, OUT_OF_RANGE)]]),
    ],
    ids=["named twice", "named once"],
)
def test_a_partition_is_fetched_once(
    asked: list[tuple[str, list[tuple[int, int]]]],
    expected: list[list[tuple[int, int]]],
    version: int,
    cluster: DrivenCluster,
) -> None:
    topics = [
        FetchTopic(
            topic=name,
            topic_id=id_of(cluster, name),
            partitions=[
                FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
                for index, offset in partitions
            ],
        )
        for name, partitions in asked
    ]
    answer = cluster.ask(FetchRequest(min_bytes=1, max_bytes=1 << 20, topics=topics), version=version)
    assert [
        [(one.partition_index, one.error_code) for one in topic.partitions] for topic in answer.responses
    ] == expected


@pytest.mark.parametrize("version", [12, 13])
def test_nothing_is_said_of_a_topic_to_which_nothing_is_produced(version: int, cluster: DrivenCluster) -> None:
    topics = [
        TopicProduceData(name=name, topic_id=id_of(cluster, name), partition_data=data)
        for name, data in (("t", []), ("nope", []), ("u", [PartitionProduceData(index=0, records=batch(1))]))
    ]
    answer = cluster.ask(ProduceRequest(acks=1, topic_data=topics), version=version)
    assert [[one.error_code for one in topic.partition_responses] for topic in answer.responses] == [[0]]


def test_a_topic_s_replicas_are_described_whichever_entry_names_them(cluster: DrivenCluster) -> None:
    asked = [("t", [0]), ("u", []), ("t", [1, 1])]
    topics = [DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in asked]
    (directory,) = cluster.ask(DescribeLogDirsRequest(topics=topics)).results
    told = [(topic.name, [one.partition_index for one in topic.partitions]) for topic in directory.topics]
    assert told == [("t", [0, 1])]
