"""The admin client's requests about partitions: moves, elections, directories, and the lag of replicas (KIP-179)."""

from collections.abc import Callable

import pytest
import trio

import klamm
from klamm import ElectionType, TopicAlteration, TopicPartition, TopicPartitionReplica
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers.describe_log_dirs import API as DESCRIBE_LOG_DIRS
from klamm.protocol.messages.brokers.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from klamm.protocol.messages.data.list_offsets import API as LIST_OFFSETS
from klamm.protocol.messages.partitions.alter_partition_reassignments import API as ALTER_REASSIGNMENTS
from klamm.protocol.messages.partitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from klamm.protocol.messages.partitions.elect_leaders import API as ELECT_LEADERS
from klamm.protocol.messages.partitions.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from klamm.protocol.messages.partitions.list_partition_reassignments import API as LIST_REASSIGNMENTS
from klamm.protocol.messages.partitions.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from klamm.protocol.messages.partitions.replica_status import API as REPLICA_STATUS
from klamm.protocol.messages.topics.alter_topics import API as ALTER_TOPICS
from klamm.protocol.messages.topics.alter_topics import (
    AlterTopicRequest,
    AlterTopicsRequest,
    AlterTopicsResponse,
    PartitionAssignment,
    TopicError,
)
from klamm.protocol.messages.topics.metadata import API as METADATA
from klamm.protocol.messages.topics.metadata import MetadataResponse
from tests.klamm.admin.peer import Asked, Peer, served
from tests.klamm.admin.scripted_cluster import Partition, ScriptedCluster

APIS = (ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS, ELECT_LEADERS, DESCRIBE_LOG_DIRS, ALTER_TOPICS, METADATA)


async def answering(nursery: trio.Nursery, answer: Message, versions: dict[int, range] | None = None) -> Peer:
    """A peer that gives this answer, and metadata with itself as broker 1."""

    async def reply(asked: Asked) -> Message:
        return MetadataResponse(brokers=[peer.as_broker(1)]) if asked.api is METADATA else answer

    peer = await Peer(reply, versions or served(*(api.key for api in APIS))).start(nursery)
    return peer


async def test_moves_are_asked_for_by_topic_and_answered_one_by_one(nursery: trio.Nursery) -> None:
    refused = ReassignablePartitionResponse(partition_index=1, error_code=39, error_message="no")
    peer = await answering(
        nursery,
        AlterPartitionReassignmentsResponse(
            responses=[
                ReassignableTopicResponse(
                    name="a", partitions=[ReassignablePartitionResponse(partition_index=0, error_message=None), refused]
                )
            ]
        ),
    )
    async with klamm.AdminClient(peer.address) as admin:
        targets = {TopicPartition("a", 0): [1, 2], TopicPartition("b", 0): [3], TopicPartition("a", 1): None}
        begun, other = await admin.alter_partition_reassignments(
            targets, allow_replication_factor_change=False, timeout_ms=7
        )
    assert (begun.partition, begun.error) == (("a", 0), None)
    with pytest.raises(klamm.RequestFailed, match=r"partition a-1: INVALID_REPLICA_ASSIGNMENT \(39\): no"):
        other.raise_for_error()
    assert peer.asked[0].body == AlterPartitionReassignmentsRequest(
        timeout_ms=7,
        allow_replication_factor_change=False,
        topics=[
            ReassignableTopic(
                name="a",
                partitions=[
                    ReassignablePartition(partition_index=0, replicas=[1, 2]),
                    ReassignablePartition(partition_index=1, replicas=None),
                ],
            ),
            ReassignableTopic(name="b", partitions=[ReassignablePartition(partition_index=0, replicas=[3])]),
        ],
    )


async def test_an_old_broker_cannot_be_told_to_keep_the_replication_factor(nursery: trio.Nursery) -> None:
    versions = {ALTER_REASSIGNMENTS.key: range(1)}
    peer = await answering(nursery, AlterPartitionReassignmentsResponse(), versions)
    async with klamm.AdminClient(peer.address) as admin:
        assert await admin.alter_partition_reassignments({("a", 0): [1]}) == ()
        with pytest.raises(klamm.NotSupportedByBroker, match="AlterPartitionReassignments"):
            await admin.alter_partition_reassignments({("a", 0): [1]}, allow_replication_factor_change=False)


@pytest.mark.parametrize(("partitions", "topics"), [
    (None, None),
    ((), []),
    ((("a", 1), ("b", 0), ("a", 0), ("a", 1)), [
        ListPartitionReassignmentsTopics(name="a", partition_indexes=[1, 0]),
        ListPartitionReassignmentsTopics(name="b", partition_indexes=[0]),
    ]),
])  # fmt: skip
async def test_all_moves_or_those_of_some_partitions_are_listed(
    partitions: tuple[tuple[str, int], ...] | None,
    topics: list[ListPartitionReassignmentsTopics] | None,
    nursery: trio.Nursery,
) -> None:
    move = OngoingPartitionReassignment(
        partition_index=3, replicas=[1, 2, 3], adding_replicas=[1], removing_replicas=[3]
    )
    answer = ListPartitionReassignmentsResponse(topics=[OngoingTopicReassignment(name="a", partitions=[move])])
    peer = await answering(nursery, answer)
    async with klamm.AdminClient(peer.address) as admin:
        (found,) = await admin.list_partition_reassignments(partitions, timeout_ms=7)
    assert (str(found.partition), found.replicas) == ("a-3", (1, 2, 3))
    assert (found.adding_replicas, found.removing_replicas) == ((1,), (3,))
    assert peer.asked[0].body == ListPartitionReassignmentsRequest(timeout_ms=7, topics=topics)


async def test_leaders_are_elected_where_it_is_asked_for_or_everywhere(nursery: trio.Nursery) -> None:
    results = [PartitionResult(partition_id=0, error_message=None), PartitionResult(partition_id=1, error_code=84)]
    answer = ElectLeadersResponse(replica_election_results=[ReplicaElectionResult(topic="a", partition_result=results)])
    peer = await answering(nursery, answer)
    async with klamm.AdminClient(peer.address) as admin:
        elected, other = await admin.elect_leaders([("a", 0), ("a", 1)], ElectionType.UNCLEAN, timeout_ms=7)
        await admin.elect_leaders()
    assert (elected.partition, elected.error) == (("a", 0), None)
    assert other.error is not None
    assert other.error.code is ErrorCode.ELECTION_NOT_NEEDED
    assert [requested.body for requested in peer.asked] == [
        ElectLeadersRequest(
            election_type=1, topic_partitions=[TopicPartitions(topic="a", partitions=[0, 1])], timeout_ms=7
        ),
        ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=30_000),
    ]


Call = Callable[[klamm.AdminClient], object]


@pytest.mark.parametrize(("answer", "subject", "call"), [
    (AlterPartitionReassignmentsResponse(error_code=31), "AlterPartitionReassignments",
        lambda admin: admin.alter_partition_reassignments({})),
    (ListPartitionReassignmentsResponse(error_code=31), "ListPartitionReassignments",
        lambda admin: admin.list_partition_reassignments()),
    (ElectLeadersResponse(error_code=31), "ElectLeaders", lambda admin: admin.elect_leaders()),
    (DescribeLogDirsResponse(error_code=31), "DescribeLogDirs of broker 1", lambda admin: admin.describe_log_dirs()),
])  # fmt: skip
async def test_a_request_refused_as_a_whole_is_raised(
    answer: Message, subject: str, call: Call, nursery: trio.Nursery
) -> None:
    peer = await answering(nursery, answer)
    async with klamm.AdminClient(peer.address) as admin:
        with pytest.raises(klamm.RequestFailed, match=f"^{subject}: CLUSTER_AUTHORIZATION_FAILED"):
            await call(admin)  # type: ignore[misc]


async def test_log_directories_are_told_with_what_they_hold(nursery: trio.Nursery) -> None:
    held = DescribeLogDirsPartition(partition_index=2, partition_size=100, offset_lag=7, is_future_key=True)
    answer = DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir="/1",
                topics=[DescribeLogDirsTopic(name="a", partitions=[held])],
                total_bytes=10,
                usable_bytes=4,
                is_cordoned=True,
            ),
            DescribeLogDirsResult(log_dir="/2", error_code=56),
        ]
    )
    peer = await answering(nursery, answer)
    async with klamm.AdminClient(peer.address) as admin:
        one, other = await admin.describe_log_dirs(partitions=[("a", 2)])
        with pytest.raises(klamm.ClusterUnreachable, match="broker 9 is not live"):
            await admin.describe_log_dirs([9])
    assert (one.broker_id, one.path, one.total_bytes, one.usable_bytes, one.is_cordoned) == (1, "/1", 10, 4, True)
    (replica,) = one.replicas
    assert (str(replica.partition), replica.size_bytes, replica.offset_lag, replica.is_future) == ("a-2", 100, 7, True)
    assert (other.total_bytes, other.usable_bytes) == (None, None)
    with pytest.raises(klamm.RequestFailed, match="log directory '/2' of broker 1: KAFKA_STORAGE_ERROR"):
        other.raise_for_error()
    bodies = [requested.body for requested in peer.asked if requested.api is DESCRIBE_LOG_DIRS]
    assert bodies == [DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="a", partitions=[2])])]


async def test_topics_are_altered_as_it_was_described(nursery: trio.Nursery) -> None:
    answer = AlterTopicsResponse(topic_errors=[TopicError(topic="a"), TopicError(topic="b", error_code=38)])
    peer = await answering(nursery, answer)
    async with klamm.AdminClient(peer.address) as admin:
        altered, refused = await admin.alter_topics(
            [TopicAlteration("a", 6, 3), TopicAlteration("b", replica_assignments={1: (2, 3)})],
            validate_only=True,
            timeout_ms=7,
        )
    assert (altered.topic_name, altered.error) == ("a", None)
    with pytest.raises(klamm.RequestFailed, match="topic 'b': INVALID_REPLICATION_FACTOR"):
        refused.raise_for_error()
    assert peer.asked[0].body == AlterTopicsRequest(
        alter_topic_requests=[
            AlterTopicRequest(topic="a", num_partitions=6, replication_factor=3),
            AlterTopicRequest(
                topic="b",
                num_partitions=-1,
                replication_factor=-1,
                partition_assignment=[PartitionAssignment(partition_id=1, brokers=[2, 3])],
            ),
        ],
        validate_only=True,
        timeout=7,
    )


def status_cluster() -> ScriptedCluster:
    cluster = ScriptedCluster(serves_status=True)
    cluster.partitions = {
        TopicPartition("a", 0): Partition(1, (1, 2)),
        TopicPartition("a", 1): Partition(2, (2, 1)),
        TopicPartition("b", 0): Partition(1, (1, 3)),
    }
    return cluster


async def test_each_partition_s_leader_is_asked_once_for_all_that_it_leads(nursery: trio.Nursery) -> None:
    cluster = status_cluster()
    wanted = [TopicPartitionReplica(*one) for one in (("b", 0, 3), ("a", 1, 1), ("a", 0, 2), ("b", 0, 3), ("a", 0, 9))]
    cluster.statuses = dict(zip(wanted, [(0, 7), (0, 0), (0, 10_456), (0, 7), (25, -1)], strict=True))
    await cluster.start(nursery)
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        results = await admin.replica_status(wanted)
    assert [result.replica for result in results] == wanted
    assert [result.lag for result in results] == [7, 0, 10_456, 7, None]
    assert [result.status_time_ms for result in results] == [0, 0, 0, 0, None]
    with pytest.raises(klamm.RequestFailed, match="replica of partition a-0 on broker 9: UNKNOWN_MEMBER_ID"):
        results[-1].raise_for_error()
    assert sorted(cluster.brokers_asked(REPLICA_STATUS)) == [1, 2]
    assert len(cluster.brokers_asked(METADATA)) == 1


async def test_a_leader_that_has_moved_on_is_looked_up_once_more(nursery: trio.Nursery) -> None:
    cluster = status_cluster()
    stays, moves = TopicPartitionReplica("b", 0, 3), TopicPartitionReplica("a", 0, 2)
    cluster.statuses = {stays: (0, 1), moves: (6, -1)}

    def move(asked: Asked) -> None:
        if asked.api is METADATA and cluster.brokers_asked(METADATA):
            cluster.partitions[moves.partition].leader = 3
            cluster.statuses[moves] = (0, 5)

    cluster.before_answer = move
    await cluster.start(nursery)
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        results = await admin.replica_status([stays, moves])
    assert [result.lag for result in results] == [1, 5]
    assert cluster.brokers_asked(REPLICA_STATUS) == [1, 3]
    assert len(cluster.brokers_asked(METADATA)) == 2


@pytest.mark.parametrize("leader", [-1, 7])
async def test_without_a_live_leader_any_broker_says_so_after_one_refresh(leader: int, nursery: trio.Nursery) -> None:
    cluster = status_cluster()
    replica = TopicPartitionReplica("a", 0, 2)
    cluster.partitions[replica.partition].leader = leader
    cluster.statuses = {replica: (6, -1)}
    await cluster.start(nursery)
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        (result,) = await admin.replica_status([replica])
    assert result.error is not None
    assert result.error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(cluster.brokers_asked(METADATA)) == 2


async def test_a_leader_that_cannot_be_reached_is_looked_up_once_more(nursery: trio.Nursery) -> None:
    """Another broker then says that it is not the leader; if there is a leader by then, the client asks that one."""
    cluster = status_cluster()
    replica = TopicPartitionReplica("a", 1, 1)
    cluster.statuses = {replica: (6, -1)}
    await cluster.start(nursery)
    with trio.socket.socket() as closed:
        await closed.bind(("127.0.0.1", 0))
        cluster.peer(2).address = f"127.0.0.1:{closed.getsockname()[1]}"

        def elect(asked: Asked) -> None:
            if asked.api is METADATA and cluster.brokers_asked(METADATA):
                cluster.partitions[replica.partition].leader = 3
                cluster.statuses = {replica: (0, 5)}

        async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
            (result,) = await admin.replica_status([replica])
            assert (result.error, result.lag) == (klamm.ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER), None)
            assert (len(cluster.brokers_asked(METADATA)), cluster.brokers_asked(REPLICA_STATUS)) == (2, [1])
            cluster.asked.clear()
            cluster.before_answer = elect
            (result,) = await admin.replica_status([replica])
    assert (result.lag, cluster.brokers_asked(REPLICA_STATUS)) == (5, [3])


async def test_nothing_asked_is_nothing_answered(nursery: trio.Nursery) -> None:
    cluster = await status_cluster().start(nursery)
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        assert await admin.replica_status([]) == ()
    assert cluster.asked == []


async def test_a_cluster_without_replica_status_is_told_from_one_that_refuses(nursery: trio.Nursery) -> None:
    cluster = status_cluster()
    cluster.serves_status = False
    await cluster.start(nursery)
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        with pytest.raises(klamm.NotSupportedByBroker, match="ReplicaStatus"):
            await admin.replica_status([("a", 0, 1)])


async def test_each_broker_tells_where_its_own_log_ends(nursery: trio.Nursery) -> None:
    cluster = status_cluster()
    cluster.partitions[TopicPartition("a", 0)].ends = {1: 9, 2: 4}
    await cluster.start(nursery)
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        requested = [("a", 0, 2), ("a", 0, 77), ("a", 1, 1), ("a", 0, 1)]
        ends = await admin.replica_end_offsets(requested)
    assert [(end.replica, end.log_end_offset) for end in ends] == [
        (("a", 0, 2), 4),
        (("a", 1, 1), None),
        (("a", 0, 1), 9),
    ]
    with pytest.raises(klamm.RequestFailed, match="replica of partition a-1 on broker 1: NOT_LEADER_OR_FOLLOWER"):
        ends[1].raise_for_error()
    assert sorted(cluster.brokers_asked(LIST_OFFSETS)) == [1, 2]
