"""Fields and texts of answers about share groups that few requests have."""

from typing import Any

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups.describe_groups import DescribeGroupsRequest
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
from tests.broker.groups.conversation import Conversation
from tests.broker.share.fetching import ACCEPT, begin
from tests.broker.share.members import beat, join, new_conversation, state_of
from tests.broker.share.shard_host import GROUP, ShareShard

UNEXPECTED = "The server experienced an unexpected error when processing the request."
HIDDEN = -(2**31)


@pytest.fixture
def group() -> Conversation:
    made = new_conversation()
    made.cluster.create("u", 1, 3)
    return made


def alter(group: Conversation, *topics: tuple[str, list[tuple[int, int]]]) -> Any:
    shown = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                for index, offset in offsets
            ],
        )
        for name, offsets in topics
    ]
    return group.ask(AlterShareGroupOffsetsRequest(group_id=group.group_id, topics=shown))


def codes(answer: Any) -> list[tuple[str, list[tuple[int, int]]]]:
    return [
        (topic.topic_name, [(one.partition_index, one.error_code) for one in topic.partitions])
        for topic in answer.responses
    ]


def offsets(group: Conversation, *topics: tuple[str, list[int]]) -> Any:
    shown = [DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes) for name, indexes in topics]
    request = DescribeShareGroupOffsetsRequestGroup(group_id=group.group_id, topics=shown or None)
    return group.ask(DescribeShareGroupOffsetsRequest(groups=[request])).groups[0]


def starts(answer: Any) -> list[tuple[str, list[tuple[int, int]]]]:
    assert answer.error_code == 0, answer
    return [
        (topic.topic_name, [(one.partition_index, one.start_offset) for one in topic.partitions])
        for topic in answer.topics
    ]


@pytest.mark.parametrize(
    ("version", "code", "text", "operations"),
    [
        (6, ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a classic group.", HIDDEN),
        # What does not exist is no error in older versions, so that the operations are shown.
        (5, ErrorCode.NONE, None, 3_400),
    ],
)
def test_a_share_group_is_dead_as_a_classic_one(
    group: Conversation, version: int, code: ErrorCode, text: str | None, operations: int
) -> None:
    join(group, "a")
    request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    (shown,) = group.ask(request, version).groups
    assert (shown.error_code, shown.error_message, shown.group_state) == (code, text, "Dead")
    assert (shown.group_id, shown.authorized_operations, shown.members) == ("g", operations, ())


@pytest.mark.parametrize(
    ("states", "types", "is_listed"),
    [([], [], True), (["STABLE"], [], True), (["Empty"], ["share"], False), ([], ["Share"], True), ([], ["x"], False)],
)
def test_filters_of_a_list_of_groups(group: Conversation, states: list[str], types: list[str], is_listed: bool) -> None:
    join(group, "a")
    listed = group.ask(ListGroupsRequest(states_filter=states, types_filter=types)).groups
    assert [(one.group_id, one.group_type, one.group_state) for one in listed] == [("g", "share", "Stable")] * is_listed


def test_a_group_that_an_alteration_makes_is_of_the_first_epochs(group: Conversation) -> None:
    assert codes(alter(group, ("t", [(7, 0)]))) == [("t", [(7, 3)])]
    (shown,) = group.ask(ShareGroupDescribeRequest(group_ids=["g"])).groups
    assert (shown.error_code, shown.group_state, shown.group_epoch, shown.assignment_epoch) == (0, "Empty", 1, 1)


def test_a_topic_that_is_named_twice_is_altered_with_all_its_partitions(group: Conversation) -> None:
    """Of a partition that is named twice, the last offset counts."""
    answer = alter(group, ("t", [(0, 5)]), ("nope", [(1, 0)]), ("t", [(1, 6), (0, 7)]), ("nope", [(2, 0)]))
    assert codes(answer) == [("nope", [(1, 3), (2, 3)]), ("t", [(0, 0), (1, 0), (0, 0)])]
    assert starts(offsets(group)) == [("t", [(0, 7), (1, 6)])]


def test_a_negative_partition_is_refused_with_all_of_its_alteration(group: Conversation) -> None:
    topic_id = group.cluster.image.topics_by_name["t"].topic_id
    answer = alter(group, ("u", [(0, 4)]), ("t", [(0, 5), (-1, 0)]))
    assert (answer.error_code, answer.responses) == (ErrorCode.UNKNOWN_SERVER_ERROR, ())
    assert answer.error_message == f"Initialize share group parameters has invalid partitionId - g {topic_id} -1"
    assert (state_of(group), state_of(group, "u")) == (None, None)
    assert codes(alter(group, ("nope", [(-1, 0)]), ("u", [(0, 4)]))) == [("nope", [(-1, 3)]), ("u", [(0, 0)])]


@pytest.mark.parametrize("indexes", [[], [-1], [0, -5]])
def test_a_question_about_no_partition_of_a_topic_fails(group: Conversation, indexes: list[int]) -> None:
    alter(group, ("t", [(0, 5)]), ("u", [(0, 4)]))
    for topics in ([("t", indexes)], [("u", [0]), ("t", indexes)]):
        answer = offsets(group, *topics)
        assert (answer.error_code, answer.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED)
        assert (answer.group_id, answer.topics) == ("g", ())
    assert starts(offsets(group, ("nope", indexes), ("u", [0]))) == [
        ("u", [(0, 4)]),
        ("nope", [(index, -1) for index in indexes]),
    ]


def test_partitions_that_are_named_twice_or_do_not_exist_are_described_once(group: Conversation) -> None:
    alter(group, ("t", [(0, 5)]))
    described = offsets(group, ("t", [0, 0]), ("t", [1, 9, 0]))
    assert starts(described) == [("t", [(0, 5), (1, -1), (9, -1)])]


def test_the_text_of_a_group_that_cannot_be_described(group: Conversation) -> None:
    join(group, "a")
    group.coordinator_id = group.coordinator_id % 3 + 1
    answer = offsets(group)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.NOT_COORDINATOR,
        "This is not the correct coordinator.",
    )


def test_topics_are_compared_once_for_each_change() -> None:
    shard = ShareShard()
    shard.create("t", 2)
    shard.beat("a", 0, ["t"])

    def is_stale() -> bool:
        group = shard.state.share.find(GROUP)
        assert group is not None
        return group.metadata_are_stale

    assert not is_stale()
    shard.coordinator_has()
    shard.beat("a", 2)
    assert not is_stale(), "records of the group change nothing about topics"
    shard.create("u", 1)
    assert is_stale()
    shard.beat("a", 3)
    assert not is_stale()


@pytest.mark.parametrize(
    ("deletes", "code", "text"),
    [
        (
            False,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            "The share coordinator rejected the request because the share-group state epoch did not match.",
        ),
        (True, ErrorCode.UNKNOWN_SERVER_ERROR, "Write operation on uninitialized share partition not allowed."),
    ],
)
def test_an_acknowledgement_after_the_offsets_were_altered_or_deleted(
    group: Conversation, deletes: bool, code: ErrorCode, text: str
) -> None:
    """The text says which request of the leader was refused. An acknowledgement with a fetch has the same text."""
    member = begin(group, 4)
    member.fetch()
    beat(group, "a", -1)
    if deletes:
        topics = [DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
        assert group.ask(DeleteShareGroupOffsetsRequest(group_id="g", topics=topics)).responses[0].error_code == 0
    else:
        assert codes(alter(group, ("t", [(0, 2)]))) == [("t", [(0, 0)])]
    asked = member.submit(member.acknowledge_request([(0, 0, [ACCEPT])]))
    group.pass_time(2)
    (one,) = asked.response.responses[0].partitions
    assert (one.error_code, one.error_message) == (code, f"Error in write state RPC. {text}")
