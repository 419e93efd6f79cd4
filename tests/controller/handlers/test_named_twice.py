"""Topics and partitions that a request names twice, or names without any content: handled as recorded from Apache Kafka
4.3. In requests about records the last entry of a partition counts, and a topic without partitions has no answer."""

from typing import Any

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from klamm.protocol.messages.data.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from klamm.protocol.messages.data.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages.data.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.messages.data.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.messages.partitions.elect_leaders import ElectLeadersRequest, TopicPartitions
from klamm.protocol.messages.partitions.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from klamm.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from klamm.protocol.uuid import Uuid
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import id_of, produce
from tests.controller.handlers.cluster import ENOUGH_TIME_MS, DrivenCluster
from tests.controller.handlers.reassignment_requests import moved, reassign

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
    requested = [("t", [0]), ("u", []), ("nope", []), ("t", [1])]
    topics = [
        ListOffsetsTopic(
            name=name, partitions=[ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indexes]
        )
        for name, indexes in requested
    ]
    answer = cluster.ask(ListOffsetsRequest(replica_id=-1, topics=topics))
    reported = [
        (topic.name, [(one.partition_index, one.offset) for one in topic.partitions]) for topic in answer.topics
    ]
    assert reported == [("t", [(0, 10), (1, 0)])]


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
        ([("t", [(0, 0)]), ("u", []), ("t", [(1, 7)])], [[(0, 0), (1, OUT_OF_RANGE)]]),
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
    requested = [("t", [0]), ("u", []), ("t", [1, 1])]
    topics = [DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in requested]
    (directory,) = cluster.ask(DescribeLogDirsRequest(topics=topics)).results
    reported = [(topic.name, [one.partition_index for one in topic.partitions]) for topic in directory.topics]
    assert reported == [("t", [0, 1])]


def test_metadata_tells_a_topic_once_however_often_it_is_named(cluster: DrivenCluster) -> None:
    ids = [id_of(cluster, name) for name in ("t", "u")]
    unknown = Uuid(b"x" * 16)
    by_name = [MetadataRequestTopic(name=name) for name in ("u", "t", "u", "nope", "t", "nope")]
    by_id = [MetadataRequestTopic(topic_id=one, name=None) for one in (ids[1], unknown, ids[0], ids[1], unknown)]
    reported = cluster.ask(MetadataRequest(topics=by_name, allow_auto_topic_creation=False)).topics
    assert [topic.name for topic in reported] == ["u", "t", "nope"]
    reported = cluster.ask(MetadataRequest(topics=by_id)).topics
    assert [topic.topic_id for topic in reported] == [ids[1], unknown, ids[0]]
    reported = cluster.ask(MetadataRequest(topics=by_id[2:4] + by_id[3:4])).topics
    assert [topic.topic_id for topic in reported] == [ids[0], ids[1]], "all of them exist"


def test_a_reassignment_is_listed_as_often_as_it_is_asked_for(cluster: DrivenCluster) -> None:
    cluster.set_down([2])
    reassign(cluster, moved("t", [2]))
    topics = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
        for name, indexes in (("t", [0, 1, 0]), ("u", [0]), ("t", [0]))
    ]
    answer = cluster.ask(ListPartitionReassignmentsRequest(topics=topics))
    reported = [(topic.name, [one.partition_index for one in topic.partitions]) for topic in answer.topics]
    assert reported == [("t", [0, 0]), ("t", [0])]


def test_of_an_election_asked_for_twice_the_second_is_not_needed(cluster: DrivenCluster) -> None:
    """Each entry is decided on the state before the request."""
    assert cluster.create_at("v", [1, 2]).error_code == 0
    reassign(cluster, moved("v", [2, 1]))
    topics = [TopicPartitions(topic="v", partitions=[0]), TopicPartitions(topic="v", partitions=[0])]
    answer = cluster.ask(ElectLeadersRequest(topic_partitions=topics, timeout_ms=ENOUGH_TIME_MS))
    reported = [one.error_code for topic in answer.replica_election_results for one in topic.partition_result]
    assert reported == [0, 0]
    assert cluster.partitions("v")[0].leader == 2
