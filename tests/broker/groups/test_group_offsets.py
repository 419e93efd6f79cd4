"""Committed offsets: what they survive, and when they are removed."""

from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.offsets import offset_commit
from klamm.protocol.messages.offsets.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.groups.conversation import CONFIGS, GROUP, SESSION_MS, Conversation
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.guarded_cluster import GuardedCluster, entry

MINUTE_MS = 60_000
WEEK_MS = 7 * 24 * 60 * MINUTE_MS


def delete(group: Conversation, topic: str) -> int:
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition()])]
    response = group.ask(OffsetDeleteRequest(group_id=GROUP, topics=topics))
    code: int = response.error_code or response.topics[0].partitions[0].error_code
    return code


def commit_of(topic: str, offset: int) -> offset_commit.OffsetCommitRequest:
    one = offset_commit.OffsetCommitRequestPartition(committed_offset=offset)
    topics = [offset_commit.OffsetCommitRequestTopic(name=topic, partitions=[one])]
    return offset_commit.OffsetCommitRequest(group_id=GROUP, topics=topics)


def test_the_last_commit_counts(group: Conversation) -> None:
    assert group.committed() == -1
    for offset in (5, 3):
        assert group.commit(offset) == 0
        assert group.committed() == offset
    assert group.committed(partition=1) == -1


def test_offsets_move_with_their_coordinator(group: Conversation) -> None:
    group.commit(7)
    group.cluster.shut_down(group.coordinator_id)
    moved = Conversation(group.cluster)
    assert moved.coordinator_id != group.coordinator_id
    assert moved.committed() == 7


def test_a_commit_waits_for_the_replicas_and_gives_up_in_time(group: Conversation) -> None:
    """Kafka: offsets.commit.timeout.ms."""
    others = {1, 2, 3} - {group.coordinator_id}
    group.commit(1)
    group.cluster.set_down(others)
    assert group.committed() == 1
    started = group.cluster.clock.now_ms
    asked = group.submit(commit_of("t", 2), 9)
    group.pass_time(4_000)
    assert asked.is_waiting
    group.pass_time(1_000)
    assert group.cluster.clock.now_ms - started == 5_000
    assert asked.response.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_member_commits_in_its_generation_only(group: Conversation) -> None:
    (member_id,), generation_id = group.stable()
    assert group.commit(1, generation_id_or_member_epoch=generation_id, member_id=member_id) == 0
    stale = group.commit(2, generation_id_or_member_epoch=generation_id - 1, member_id=member_id)
    assert stale == ErrorCode.ILLEGAL_GENERATION
    assert group.commit(3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.committed() == 1


def test_a_commit_extends_the_session(group: Conversation) -> None:
    (member_id,), generation_id = group.stable()
    for offset in range(4):
        group.pass_time(SESSION_MS - 1_000)
        code = group.commit(offset, generation_id_or_member_epoch=generation_id, member_id=member_id)
        assert code == 0


def test_metadata_are_limited_in_utf16_units(group: Conversation) -> None:
    assert group.commit(1, metadata="\U0001f600" * 2_048) == 0
    assert group.commit(2, metadata="\U0001f600" * 2_048 + "x") == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert group.committed() == 1


def test_offsets_are_deleted_one_by_one(group: Conversation) -> None:
    assert delete(group, "t") == ErrorCode.GROUP_ID_NOT_FOUND
    group.commit(1)
    assert delete(group, "t") == 0
    assert group.committed() == -1
    assert delete(group, "unknown") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_offsets_of_a_deleted_topic_go(group: Conversation) -> None:
    group.commit(1)
    group.cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1_000))
    group.cluster.create("t", 2, 3)
    assert group.committed() == -1


def test_offsets_expire_a_week_after_the_last_commit_and_the_group_with_them(group: Conversation) -> None:
    group.commit(1)
    group.pass_time(WEEK_MS - 20 * MINUTE_MS)
    assert group.committed() == 1
    group.pass_time(40 * MINUTE_MS)
    assert group.committed() == -1
    described = group.ask(DescribeGroupsRequest(groups=[GROUP])).groups[0]
    assert described.group_state == "Dead"


def test_a_retention_time_in_the_request_counts_more(group: Conversation) -> None:
    assert group.commit(1, version=4, retention_time_ms=5 * MINUTE_MS) == 0
    group.pass_time(20 * MINUTE_MS)
    assert group.committed() == -1


def test_a_restart_of_the_controller_finds_the_offsets_of_its_brokers_gone() -> None:
    """Record data are soft state: the partition is empty, the group unknown; nothing fails."""
    cluster = DrivenCluster(1, configs=CONFIGS)
    cluster.create("t", 1, 1)
    group = Conversation(cluster)
    group.commit(1)
    ends = dict(cluster.data.log_end_offsets())
    cluster.start(ends)
    again = Conversation(cluster)
    assert again.committed() == -1
    assert again.commit(2) == 0
    assert again.committed() == 2


def test_topics_that_one_may_not_read_are_refused_one_by_one() -> None:
    cluster = GuardedCluster(1, configs=CONFIGS)
    cluster.create("t", 1, 1)
    cluster.create("hidden", 1, 1)
    Conversation(cluster)  # creates the internal topic
    cluster.grant(
        entry(AclOperation.READ, GROUP, AclResourceType.GROUP), entry(AclOperation.READ, "t", AclResourceType.TOPIC)
    )
    with cluster.asking():
        for topic, code in (("t", 0), ("hidden", 29), ("missing", 29)):
            assert cluster.ask(commit_of(topic, 1), version=9).topics[0].partitions[0].error_code == code
