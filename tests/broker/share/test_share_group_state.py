"""What a share group asks of the share coordinator, offsets that are altered and deleted, and what a new coordinator
loads."""

import pytest

from klamm.broker.groups.share.group import StatePartitions
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.shares.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from tests.broker.share.shard_host import GROUP, ShareShard

E = ErrorCode


@pytest.fixture
def shard() -> ShareShard:
    made = ShareShard()
    made.create("t", 2)
    return made


# -- initialization ----------------------------------------------------------------------------------------------------


def test_the_share_coordinator_is_asked_again_when_it_does_not_answer(shard: ShareShard) -> None:
    shard.beat("a", 0, ["t"])
    shard.asked()
    shard.pass_time(29_999)
    shard.beat("a", 2)
    assert len(shard.state.share.to_initialize) == 0
    shard.pass_time(1)
    shard.beat("a", 2)
    assert [list(found) for found in shard.asked().start_offsets.values()] == [[0, 1]]


def test_the_share_coordinator_is_asked_again_when_it_has_refused(shard: ShareShard) -> None:
    shard.beat("a", 0, ["t"])
    shard.coordinator_has(is_done=False)
    assert shard.value("StatePartitionMetadata").initializing_topics == []
    assert shard.group.state_topics is not None
    shard.beat("a", 2)
    assert len(shard.state.share.to_initialize) == 1


def test_partitions_are_initialized_beside_those_that_are(shard: ShareShard) -> None:
    topic_id = shard.topics.by_name["t"].topic_id
    shard.join("a", "t")
    shard.grow("t", 4)
    shard.beat("a", 3)
    shard.settle(shard.state.share.initialized(GROUP, {topic_id: [3]}, 7_000))
    found = shard.group.state_topics
    assert found is not None
    assert found.initialized == {topic_id: StatePartitions("t", frozenset({0, 1, 3}), shard.now_ms)}
    assert found.initializing[topic_id].partitions == {2}


def test_a_deleted_topic_is_forgotten_in_every_list(shard: ShareShard) -> None:
    shard.join("a", "t")
    shard.create("u", 1)
    shard.beat("a", 3, ["t", "u"])
    shard.remove("u")
    assert shard.records == ["StatePartitionMetadata"]
    state = shard.value("StatePartitionMetadata")
    assert (state.initializing_topics, [one.topic_name for one in state.initialized_topics]) == ([], ["t"])
    shard.remove("t")
    assert shard.value("StatePartitionMetadata").initialized_topics == []
    shard.create("v", 1)
    shard.remove("v")
    assert shard.records == [], "nothing of it was known"


# -- offsets -----------------------------------------------------------------------------------------------------------


def alter(shard: ShareShard, topic: str, **offsets: int) -> object:
    partitions = [
        AlterShareGroupOffsetsRequestPartition(partition_index=int(index[1:]), start_offset=offset)
        for index, offset in offsets.items()
    ]
    asked = [AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)]
    return shard.run(lambda waiter: shard.state.alter_share_offsets(GROUP, asked, waiter, shard.now_ms))


def delete(shard: ShareShard, *topics: str) -> object:
    return shard.run(lambda waiter: shard.state.delete_share_offsets(GROUP, topics, waiter, shard.now_ms))


def test_offsets_of_a_group_that_does_not_exist_make_it(shard: ShareShard) -> None:
    found = alter(shard, "t", p1=7, p2=9)
    assert [(one.partition_index, one.error_code) for one in found.topics[0].partitions] == [  # type: ignore[attr-defined]
        (1, 0),
        (2, E.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert [dict(one) for one in found.initialization.start_offsets.values()] == [{1: 7}]  # type: ignore[attr-defined]
    assert found.initialization.state_epoch == 1  # type: ignore[attr-defined]
    assert shard.records == ["StatePartitionMetadata"]
    assert list(shard.state.share.groups) == [GROUP]
    (unknown,) = alter(shard, "nope", p0=1).topics  # type: ignore[attr-defined]
    assert unknown.partitions[0].error_message == "This server does not host this topic-partition."
    assert shard.records == []


def test_offsets_are_deleted_topic_by_topic(shard: ShareShard) -> None:
    topic_id = shard.topics.by_name["t"].topic_id
    assert delete(shard, "t").code == E.GROUP_ID_NOT_FOUND  # type: ignore[attr-defined]
    shard.join("a", "t")
    assert delete(shard, "t").code == E.NON_EMPTY_GROUP  # type: ignore[attr-defined]
    shard.beat("a", -1)
    shard.create("u", 1)
    found = delete(shard, "t", "u", "nope")
    assert found.partitions == {topic_id: (0, 1)}  # type: ignore[attr-defined]
    assert [(one.topic_name, one.error_message) for one in found.refused] == [  # type: ignore[attr-defined]
        ("u", "There is no offset information to delete."),
        ("nope", "This server does not host this topic-partition."),
    ]
    state = shard.value("StatePartitionMetadata")
    assert ([one.topic_name for one in state.deleting_topics], state.initialized_topics) == (["t"], [])
    again = delete(shard, "t")
    assert again.partitions == {topic_id: (0, 1)}, "until the share coordinator has done it"  # type: ignore[attr-defined]
    shard.settle(shard.state.share.deleted(GROUP, [topic_id]))
    assert shard.value("StatePartitionMetadata").deleting_topics == []
    assert delete(shard, "t").partitions == {}  # type: ignore[attr-defined]


def test_a_topic_that_is_subscribed_again_is_not_being_deleted(shard: ShareShard) -> None:
    shard.join("a", "t")
    shard.beat("a", -1)
    delete(shard, "t")
    shard.beat("a", 0, ["t"])
    state = shard.value("StatePartitionMetadata")
    assert (state.deleting_topics, [one.partitions for one in state.initializing_topics]) == ([], [[0, 1]])


def test_a_group_that_is_deleted_leaves_nothing(shard: ShareShard) -> None:
    topic_id = shard.topics.by_name["t"].topic_id
    shard.join("a", "t")
    refused = shard.run(lambda waiter: shard.state.begin_delete(GROUP, waiter, shard.now_ms))
    assert (refused.group_id, refused.error_code) == (GROUP, E.NON_EMPTY_GROUP)
    shard.beat("a", -1)
    found = shard.run(lambda waiter: shard.state.begin_delete(GROUP, waiter, shard.now_ms))
    assert found.partitions == {topic_id: (0, 1)}
    assert [one.topic_name for one in shard.value("StatePartitionMetadata").deleting_topics] == ["t"]
    assert shard.run(lambda waiter: shard.state.delete(GROUP, waiter)).error_code == 0
    assert shard.records == ["-TargetAssignmentMetadata", "-StatePartitionMetadata", "-Metadata"]
    assert shard.state.share.groups == {}
    shard.reload()
    assert shard.state.share.groups == {}


# -- a new coordinator -------------------------------------------------------------------------------------------------


def test_a_new_coordinator_has_the_group_as_it_was(shard: ShareShard) -> None:
    shard.join("a", "t")
    shard.create("u", 1)
    shard.beat("a", 3, ["t", "u"], rack_id="r")
    before, group = shard.describe(), shard.group
    shard.reload()
    assert shard.describe() == before
    after = shard.group
    for name in ("members", "target", "group_epoch", "assignment_epoch", "assignment_timestamp_ms", "metadata_hash"):
        assert getattr(after, name) == getattr(group, name), name
    assert after.topic_name_counts == group.topic_name_counts == {"t": 1, "u": 1}
    assert after.state_topics is not None
    assert {one.topic_name: one.since_ms for one in after.state_topics.initializing.values()} == {"u": 1_000}
    assert shard.state.share.subscription_bytes > 0


def test_sessions_begin_anew_with_a_new_coordinator(shard: ShareShard) -> None:
    shard.join("a", "t")
    shard.pass_time(40_000)
    shard.reload()
    shard.pass_time(44_999)
    assert list(shard.group.members) == ["a"]
    shard.pass_time(1)
    assert list(shard.group.members) == []


def test_a_new_coordinator_compares_topics_with_the_first_heartbeat(shard: ShareShard) -> None:
    shard.join("a", "t")
    shard.grow("t", 3)
    shard.reload()
    assert shard.beat("a", 3).member_epoch == 4
