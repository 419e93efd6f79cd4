"""Members of share groups, their assignment, and what survives a change of the coordinator."""

import pytest

from klamm.broker.groups.share import shard as share_shard
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from klamm.protocol.messages.groups.delete_groups import DeleteGroupsRequest
from klamm.protocol.messages.groups.heartbeat import HeartbeatRequest
from klamm.protocol.messages.groups.list_groups import ListGroupsRequest
from klamm.protocol.messages.shares.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from klamm.protocol.messages.shares.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from klamm.protocol.messages.shares.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from klamm.protocol.messages.shares.share_group_describe import ShareGroupDescribeRequest
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.groups.conversation import Conversation
from tests.broker.share.members import SESSION_MS, beat, join, new_conversation, partitions, state_of


@pytest.fixture
def group() -> Conversation:
    return new_conversation()


def described(group: Conversation) -> object:
    return group.ask(ShareGroupDescribeRequest(group_ids=[group.group_id])).groups[0]


def alter(group: Conversation, partition: int, offset: int) -> object:
    one = AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[one])
    return group.ask(AlterShareGroupOffsetsRequest(group_id=group.group_id, topics=[topic]))


def offsets(group: Conversation, *asked: int) -> list[tuple[int, int, int, int]]:
    topics = [DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=list(asked))] if asked else None
    request = DescribeShareGroupOffsetsRequestGroup(group_id=group.group_id, topics=topics)
    answer = group.ask(DescribeShareGroupOffsetsRequest(groups=[request])).groups[0]
    assert answer.error_code == 0
    return [
        (one.partition_index, one.start_offset, one.leader_epoch, one.lag)
        for topic in answer.topics
        for one in topic.partitions
    ]


def test_partitions_are_assigned_after_the_share_coordinator_has_their_state(group: Conversation) -> None:
    first = beat(group, "a", 0, ["t"])
    assert (first.member_epoch, partitions(first)) == (2, [])
    assert state_of(group) is not None
    second = beat(group, "a", 2)
    assert (second.member_epoch, partitions(second)) == (3, [0, 1])
    assert beat(group, "a", 3).assignment is None
    assert partitions(beat(group, "a", 3, ["t"])) == [0, 1]


def test_a_lost_assignment_is_repeated_to_a_member_that_names_its_topics(group: Conversation) -> None:
    """Kafka's coordinator does not repeat it to others, and Kafka's client names its topics after each failure."""
    beat(group, "a", 0, ["t"])
    lost = beat(group, "a", 2)
    assert (lost.member_epoch, partitions(lost)) == (3, [0, 1])
    silent = beat(group, "a", 2)
    assert (silent.member_epoch, silent.assignment) == (3, None)
    named = beat(group, "a", 2, ["t"])
    assert (named.member_epoch, partitions(named)) == (3, [0, 1])


def test_members_share_partitions_and_each_has_something(group: Conversation) -> None:
    join(group, "a")
    assert partitions(join(group, "b")) != []
    assert partitions(join(group, "c")) != []
    refused = beat(group, "d", 0, ["t"])
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.error_message == "The share group has reached its maximum capacity of 3 members."
    assert beat(group, "a", 3).error_code == 0


def test_the_epoch_before_is_accepted_and_others_are_not(group: Conversation) -> None:
    joined = join(group, "a")
    assert beat(group, "a", joined.member_epoch - 1).error_code == 0
    assert beat(group, "a", joined.member_epoch - 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert beat(group, "a", joined.member_epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": "x" * 37, "member_epoch": 0}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "a", "member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "a", "member_epoch": 0, "topics": []}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "a", "member_epoch": 0, "topics": ["t"], "rack_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "a", "member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_id": "a", "member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_refused_heartbeats_leave_no_group(group: Conversation, fields: dict[str, object], code: ErrorCode) -> None:
    answer = beat(group, fields.pop("member_id"), fields.pop("member_epoch"), **fields)  # type: ignore[arg-type]
    assert answer.error_code == code
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (None, 0, 0)
    assert described(group).error_code == ErrorCode.GROUP_ID_NOT_FOUND  # type: ignore[attr-defined]


def test_a_silent_member_is_removed_at_the_end_of_its_session(group: Conversation) -> None:
    join(group, "a")
    epoch = join(group, "b").member_epoch
    group.pass_time(SESSION_MS - 1_000)
    assert beat(group, "b", epoch).error_code == 0
    group.pass_time(1_000)
    assert beat(group, "a", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert partitions(beat(group, "b", epoch)) == [0, 1]


def test_the_group_and_the_state_survive_a_change_of_coordinators(group: Conversation) -> None:
    joined = join(group, "a")
    before = described(group)
    for broker_id in (1, 2):
        group.cluster.shut_down(broker_id)
    moved = Conversation(group.cluster)
    assert described(moved) == before
    assert state_of(moved) is not None
    assert beat(moved, "a", joined.member_epoch).error_code == 0


def test_new_partitions_and_deleted_topics_are_noticed(group: Conversation) -> None:
    epoch = join(group, "a").member_epoch
    group.cluster.create("u", 1, 3)
    both = beat(group, "a", epoch, ["t", "u"])
    both = beat(group, "a", both.member_epoch)
    assert len(both.assignment.topic_partitions) == 2
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="u")], timeout_ms=1_000)
    assert group.cluster.ask(deletion).responses[0].error_code == 0
    left = beat(group, "a", both.member_epoch)
    assert len(left.assignment.topic_partitions) == 1
    assert [place[0] for place in offsets(group)] == [0, 1]


def test_offsets_of_an_empty_group_are_altered_described_and_deleted(group: Conversation) -> None:
    assert offsets(group, 0, 1) == [(0, -1, 0, -1), (1, -1, 0, -1)]
    altered = alter(group, 1, 7)
    assert [one.error_code for topic in altered.responses for one in topic.partitions] == [0]  # type: ignore[attr-defined]
    assert offsets(group) == [(1, 7, 0, -7)]
    wrong = alter(group, 2, 7)
    assert [one.error_code for topic in wrong.responses for one in topic.partitions] == [3]  # type: ignore[attr-defined]
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in ("t", "nope")]
    deleted = group.ask(DeleteShareGroupOffsetsRequest(group_id=group.group_id, topics=topics))
    assert [(topic.topic_name, topic.error_code) for topic in deleted.responses] == [("t", 0), ("nope", 3)]
    assert offsets(group) == []
    assert state_of(group, partition=1) is None


def test_a_group_with_members_keeps_its_offsets(group: Conversation) -> None:
    join(group, "a")
    assert alter(group, 0, 7).error_code == ErrorCode.NON_EMPTY_GROUP  # type: ignore[attr-defined]
    assert group.ask(DeleteShareGroupOffsetsRequest(group_id=group.group_id)).error_code == ErrorCode.NON_EMPTY_GROUP
    (refused,) = group.ask(DeleteGroupsRequest(groups_names=[group.group_id])).results
    assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
    assert state_of(group) is not None


def test_a_deleted_group_leaves_no_state_and_may_begin_anew(group: Conversation) -> None:
    epoch = join(group, "a").member_epoch
    assert beat(group, "a", -1).member_epoch == -1
    (deleted,) = group.ask(DeleteGroupsRequest(groups_names=[group.group_id])).results
    assert deleted.error_code == 0
    assert (state_of(group), state_of(group, partition=1)) == (None, None)
    assert group.ask(ListGroupsRequest()).groups == ()
    again = join(group, "a")
    assert (again.error_code, again.member_epoch) == (0, epoch)


def test_an_id_is_of_one_kind_of_group(group: Conversation) -> None:
    join(group, "a")
    assert group.join().response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    heartbeat = HeartbeatRequest(group_id=group.group_id, generation_id=1, member_id="a")
    assert group.ask(heartbeat).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    consumer = ConsumerGroupHeartbeatRequest(
        group_id=group.group_id,
        member_id="m",
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert group.ask(consumer).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert group.commit(1) == ErrorCode.GROUP_ID_NOT_FOUND
    classic = Conversation(group.cluster, "classic")
    classic.commit(1)
    refused = beat(classic, "a", 0, ["t"])
    assert refused.error_message == "Group classic is not a share group."


def test_groups_and_subscriptions_are_limited(group: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_shard, "MAX_GROUPS", 0)
    assert beat(group, "a", 0, ["t"]).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert alter(group, 0, 7).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE  # type: ignore[attr-defined]
    monkeypatch.setattr(share_shard, "MAX_GROUPS", 1)
    join(group, "a")
    monkeypatch.setattr(share_shard, "MAX_SUBSCRIPTION_BYTES", 100)
    assert beat(group, "b", 0, ["t"]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_without_the_feature_nothing_is_served(group: Conversation) -> None:
    group.cluster.image.features["share.version"] = 0
    assert beat(group, "a", 0, ["t"]).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert described(group).error_code == ErrorCode.UNSUPPORTED_VERSION  # type: ignore[attr-defined]
    assert alter(group, 0, 7).error_code == ErrorCode.UNSUPPORTED_VERSION  # type: ignore[attr-defined]
