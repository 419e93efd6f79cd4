"""How the admin client handles answers: results with their errors, joined pages, and which broker it asks."""

import pytest
import trio

import klamm
from klamm import ConfigResource, ErrorCode, NewPartitions, NewTopic, Uuid
from klamm.protocol.fields import Message
from klamm.protocol.messages.cluster.describe_cluster import API as DESCRIBE_CLUSTER
from klamm.protocol.messages.cluster.describe_cluster import DescribeClusterResponse
from klamm.protocol.messages.configs.describe_configs import API as DESCRIBE_CONFIGS
from klamm.protocol.messages.configs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from klamm.protocol.messages.topics.create_partitions import API as CREATE_PARTITIONS
from klamm.protocol.messages.topics.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from klamm.protocol.messages.topics.create_topics import API as CREATE_TOPICS
from klamm.protocol.messages.topics.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from klamm.protocol.messages.topics.delete_topics import API as DELETE_TOPICS
from klamm.protocol.messages.topics.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from klamm.protocol.messages.topics.describe_topic_partitions import API as DESCRIBE_TOPIC_PARTITIONS
from klamm.protocol.messages.topics.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from klamm.protocol.messages.topics.metadata import API as METADATA
from klamm.protocol.messages.topics.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from tests.klamm.admin.peer import Asked, Peer, served

TOPIC_ID = Uuid(b"0123456789abcdef")
APIS = (
    *(CREATE_TOPICS, CREATE_PARTITIONS, DELETE_TOPICS, METADATA),
    *(DESCRIBE_CLUSTER, DESCRIBE_CONFIGS, DESCRIBE_TOPIC_PARTITIONS),
)
ALL = served(*(api.key for api in APIS))


async def answering(nursery: trio.Nursery, *answers: Message, versions: dict[int, range] | None = None) -> Peer:
    """A peer that gives these answers, one per request."""
    left = list(answers)

    async def answer(asked: Asked) -> Message:
        return left.pop(0)

    return await Peer(answer, ALL if versions is None else versions).start(nursery)


async def test_a_created_topic_is_told_with_what_the_broker_filled_in(nursery: trio.Nursery) -> None:
    made = CreatableTopicResult(name="a", topic_id=TOPIC_ID, num_partitions=3, replication_factor=2)
    refused = CreatableTopicResult(name="b", error_code=36, error_message="Topic 'b' already exists.")
    peer = await answering(nursery, CreateTopicsResponse(topics=[made, refused]))
    async with klamm.AdminClient(peer.address) as admin:
        one, other = await admin.create_topics(["a", "b"])
    assert one.raise_for_error() is one
    assert (one.topic_name, one.topic_id, one.num_partitions, one.replication_factor) == ("a", TOPIC_ID, 3, 2)
    assert (other.topic_id, other.num_partitions, other.replication_factor) == (None, None, None)
    with pytest.raises(klamm.RequestFailed) as raised:
        other.raise_for_error()
    assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert str(raised.value) == "topic 'b': TOPIC_ALREADY_EXISTS (36): Topic 'b' already exists."


async def test_a_new_topic_is_asked_for_as_it_was_described(nursery: trio.Nursery) -> None:
    peer = await answering(nursery, CreateTopicsResponse())
    async with klamm.AdminClient(peer.address) as admin:
        await admin.create_topics(
            [
                "a",
                NewTopic("b", 3, 2, {"retention.ms": "1"}),
                NewTopic("c", replica_assignments={0: (1, 2), 1: (2, 1)}),
            ],
            validate_only=True,
            timeout_ms=7,
        )
    assert peer.asked[0].body == CreateTopicsRequest(
        topics=[
            CreatableTopic(name="a", num_partitions=-1, replication_factor=-1),
            CreatableTopic(
                name="b",
                num_partitions=3,
                replication_factor=2,
                configs=[CreatableTopicConfig(name="retention.ms", value="1")],
            ),
            CreatableTopic(
                name="c",
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2]),
                    CreatableReplicaAssignment(partition_index=1, broker_ids=[2, 1]),
                ],
            ),
        ],
        validate_only=True,
        timeout_ms=7,
    )


async def test_new_partitions_without_assignments_leave_the_placing_to_the_broker(nursery: trio.Nursery) -> None:
    refused = CreatePartitionsTopicResult(name="b", error_code=37, error_message="no")
    answer = CreatePartitionsResponse(results=[CreatePartitionsTopicResult(name="a"), refused])
    peer = await answering(nursery, answer)
    async with klamm.AdminClient(peer.address) as admin:
        results = await admin.create_partitions([NewPartitions("a", 4), NewPartitions("b", 2, [[3, 1]])])
    assert [(r.topic_name, r.error and r.error.code.name) for r in results] == [
        ("a", None),
        ("b", "INVALID_PARTITIONS"),
    ]
    assert isinstance(peer.asked[0].body, CreatePartitionsRequest)
    assert list(peer.asked[0].body.topics) == [
        CreatePartitionsTopic(name="a", count=4, assignments=None),
        CreatePartitionsTopic(name="b", count=2, assignments=[CreatePartitionsAssignment(broker_ids=[3, 1])]),
    ]


async def test_topics_are_deleted_by_name_or_by_id(nursery: trio.Nursery) -> None:
    answer = DeleteTopicsResponse(
        responses=[DeletableTopicResult(name="a"), DeletableTopicResult(name=None, topic_id=TOPIC_ID, error_code=100)]
    )
    peer = await answering(nursery, answer)
    async with klamm.AdminClient(peer.address) as admin:
        by_name, by_id = await admin.delete_topics(["a", TOPIC_ID])
    assert by_name.error is None
    with pytest.raises(klamm.RequestFailed, match=f"topic id {TOPIC_ID}: UNKNOWN_TOPIC_ID"):
        by_id.raise_for_error()
    assert isinstance(peer.asked[0].body, DeleteTopicsRequest)
    assert list(peer.asked[0].body.topics) == [DeleteTopicState(name="a"), DeleteTopicState(topic_id=TOPIC_ID)]


async def test_an_old_broker_deletes_by_name_only(nursery: trio.Nursery) -> None:
    versions = {DELETE_TOPICS.key: range(1, 6)}
    peer = await answering(nursery, DeleteTopicsResponse(responses=[DeletableTopicResult(name="a")]), versions=versions)
    async with klamm.AdminClient(peer.address) as admin:
        with pytest.raises(klamm.NotSupportedByBroker, match="by name only"):
            await admin.delete_topics(["a", TOPIC_ID])
        assert [result.topic_name for result in await admin.delete_topics(["a"])] == ["a"]
    assert isinstance(peer.asked[0].body, DeleteTopicsRequest)
    assert list(peer.asked[0].body.topic_names) == ["a"]


async def test_metadata_tells_leaderless_partitions_and_unknown_topics(nursery: trio.Nursery) -> None:
    partitions = [
        MetadataResponsePartition(error_code=5, partition_index=1, leader_id=-1, replica_nodes=[1, -1], isr_nodes=[]),
        MetadataResponsePartition(
            partition_index=0, leader_id=2, leader_epoch=4, replica_nodes=[2, 1], isr_nodes=[2], offline_replicas=[1]
        ),
    ]
    topics = [
        MetadataResponseTopic(name="a", topic_id=TOPIC_ID, partitions=partitions),
        MetadataResponseTopic(name="gone", error_code=3),
    ]
    peer = await answering(nursery, MetadataResponse(cluster_id="c", controller_id=-1, topics=topics))
    async with klamm.AdminClient(peer.address) as admin:
        seen = await admin.metadata(["a", "gone"])
    assert (seen.cluster_id, seen.controller_id, seen.brokers) == ("c", None, ())
    known, gone = seen.topics
    first, second = known.partitions
    assert (first.leader, first.leader_epoch, first.replicas, first.isr, first.offline_replicas) == (
        2,
        4,
        (2, 1),
        (2,),
        (1,),
    )
    assert (second.leader, second.leader_epoch, second.replicas) == (None, None, (1, -1))
    with pytest.raises(klamm.RequestFailed, match="partition 1: LEADER_NOT_AVAILABLE"):
        second.raise_for_error()
    with pytest.raises(klamm.RequestFailed, match="topic 'gone': UNKNOWN_TOPIC_OR_PARTITION"):
        gone.raise_for_error()


async def test_a_request_refused_as_a_whole_is_raised(nursery: trio.Nursery) -> None:
    peer = await answering(nursery, DescribeClusterResponse(error_code=115, error_message="not here"))
    async with klamm.AdminClient(peer.address) as admin:
        with pytest.raises(klamm.RequestFailed, match=r"DescribeCluster: .* \(115\): not here"):
            await admin.describe_cluster()


async def test_an_error_code_of_the_future_is_told_with_its_number(nursery: trio.Nursery) -> None:
    topic = CreatableTopicResult(name="a", error_code=9999, error_message="new")
    peer = await answering(nursery, CreateTopicsResponse(topics=[topic]))
    async with klamm.AdminClient(peer.address) as admin:
        (result,) = await admin.create_topics(["a"])
    assert result.error == klamm.ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "error code 9999: new")


def configs_of(kind: int, name: str) -> DescribeConfigsResult:
    entry = DescribeConfigsResourceResult(name="k", value=f"of {name}", config_source=5)
    return DescribeConfigsResult(resource_type=kind, resource_name=name, configs=[entry])


async def test_a_broker_is_asked_itself_for_its_configs_and_any_broker_for_the_rest(nursery: trio.Nursery) -> None:
    peers: list[Peer] = []

    async def answer(asked: Asked) -> Message:
        if asked.api is METADATA:
            return MetadataResponse(brokers=[peer.as_broker(number) for number, peer in enumerate(peers, start=1)])
        assert isinstance(asked.body, DescribeConfigsRequest)
        return DescribeConfigsResponse(
            results=[configs_of(r.resource_type, r.resource_name) for r in reversed(asked.body.resources)]
        )

    peers += [await Peer(answer, ALL).start(nursery) for _ in range(2)]
    first, second = peers
    wanted = [ConfigResource.broker(2), ConfigResource.topic("a"), ConfigResource.broker(), ConfigResource.broker(9)]
    async with klamm.AdminClient(first.address) as admin:
        results = await admin.describe_configs(wanted, keys=["k"])
    assert [result.resource for result in results] == wanted
    assert [result.configs["k"].value for result in results] == ["of 2", "of a", "of ", "of 9"]

    def resources_asked(peer: Peer) -> list[list[str]]:
        bodies = [requested.body for requested in peer.asked if isinstance(requested.body, DescribeConfigsRequest)]
        return [[resource.resource_name for resource in body.resources] for body in bodies]

    assert resources_asked(second) == [["2"]]
    assert resources_asked(first) == [["a", "", "9"]]


def page(
    topic_name: str, indexes: range, cursor: Cursor | None, error_code: int = 0
) -> DescribeTopicPartitionsResponse:
    partitions = [
        DescribeTopicPartitionsResponsePartition(partition_index=index, eligible_leader_replicas=[index])
        for index in indexes
    ]
    topic = DescribeTopicPartitionsResponseTopic(name=topic_name, error_code=error_code, partitions=partitions)
    return DescribeTopicPartitionsResponse(topics=[topic], next_cursor=cursor)


async def test_pages_of_partitions_are_joined(nursery: trio.Nursery) -> None:
    cursors = [Cursor(topic_name="a", partition_index=2), Cursor(topic_name="b", partition_index=0)]
    peer = await answering(
        nursery, page("a", range(2), cursors[0]), page("a", range(2, 3), cursors[1]), page("b", range(1), None)
    )
    async with klamm.AdminClient(peer.address) as admin:
        topics = await admin.describe_topic_partitions(["b", "a"], response_partition_limit=2)
    assert [(topic.topic_name, [p.partition_index for p in topic.partitions]) for topic in topics] == [
        ("a", [0, 1, 2]),
        ("b", [0]),
    ]
    assert topics[0].partitions[2].eligible_leader_replicas == (2,)
    bodies = [requested.body for requested in peer.asked if isinstance(requested.body, DescribeTopicPartitionsRequest)]
    assert [body.cursor for body in bodies] == [None, *cursors]
    assert [[topic.name for topic in body.topics] for body in bodies] == [["a", "b"]] * 3


async def test_pages_that_do_not_get_on_are_an_error_and_no_endless_loop(nursery: trio.Nursery) -> None:
    cursor = Cursor(topic_name="a", partition_index=2)
    peer = await answering(nursery, page("a", range(2), cursor), page("a", range(2), cursor))
    async with klamm.AdminClient(peer.address) as admin:
        with pytest.raises(klamm.ClusterUnreachable, match="do not end"):
            await admin.describe_topic_partitions()


async def test_no_topics_named_are_no_topics_described(nursery: trio.Nursery) -> None:
    """On the wire an empty list would mean all topics."""
    peer = await answering(nursery)
    async with klamm.AdminClient(peer.address) as admin:
        assert await admin.describe_topic_partitions([]) == ()
    assert peer.asked == []
