"""A shard with share groups: the records of each heartbeat, refusals, sessions, and when assignments are computed."""

from functools import partial

import pytest

from klamm.broker.groups.share import shard as share_shard
from klamm.protocol.errors import ErrorCode
from tests.broker.share.shard_host import GROUP, ShareShard, given

E = ErrorCode
TARGET = ("TargetAssignmentMember", "TargetAssignmentMetadata")


@pytest.fixture
def shard() -> ShareShard:
    made = ShareShard()
    made.create("t", 2)
    return made


# -- joining and staying -----------------------------------------------------------------------------------------------


def test_a_first_heartbeat_writes_the_member_and_asks_for_the_state_of_its_partitions(shard: ShareShard) -> None:
    answer = shard.beat("a", 0, ["t"], rack_id="r")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms, given(answer)) == ("a", 2, 5_000, [])
    assert shard.records == [
        "MemberMetadata",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
        "StatePartitionMetadata",
    ]
    member = shard.value("MemberMetadata")
    assert (member.rack_id, member.client_id, member.client_host) == ("r", "c", "/127.0.0.1")
    assert member.subscribed_topic_names == ["t"]
    epoch = shard.value("TargetAssignmentMetadata")
    assert (epoch.assignment_epoch, epoch.assignment_timestamp) == (2, 1_000)
    current = shard.value("CurrentMemberAssignment")
    assert (current.member_epoch, current.previous_member_epoch, current.state) == (2, 0, 0)
    state = shard.value("StatePartitionMetadata")
    assert [(one.topic_name, one.partitions) for one in state.initializing_topics] == [("t", [0, 1])]
    assert (state.initialized_topics, state.deleting_topics) == ([], [])
    asked = shard.asked()
    assert (asked.group_id, asked.state_epoch, list(asked.start_offsets.values())) == (GROUP, 2, [{0: -1, 1: -1}])


def test_partitions_are_assigned_when_they_are_initialized(shard: ShareShard) -> None:
    shard.beat("a", 0, ["t"])
    assert given(shard.beat("a", 2)) is None
    assert shard.records == []
    shard.coordinator_has()
    assert shard.records == ["StatePartitionMetadata"]
    state = shard.value("StatePartitionMetadata")
    assert [one.partitions for one in state.initialized_topics] == [[0, 1]]
    assert state.initializing_topics == []
    answer = shard.beat("a", 2)
    assert (answer.member_epoch, given(answer)) == (3, [("01", [0, 1])])
    assert shard.records == ["Metadata", *TARGET, "CurrentMemberAssignment"]
    answer = shard.beat("a", 3)
    assert (answer.member_epoch, given(answer), shard.records) == (3, None, [])


def test_who_names_topics_or_joins_is_shown_the_assignment(shard: ShareShard) -> None:
    shard.join("a", "t")
    assert given(shard.beat("a", 3, ["t"])) == [("01", [0, 1])]
    assert given(shard.beat("a", 0, ["t"])) == [("01", [0, 1])]
    assert shard.group.members["a"].member_epoch == 3, "a member that joins again keeps its epoch"
    assert shard.records == []


def test_a_member_that_changes_its_rack_or_client_writes_itself_alone(shard: ShareShard) -> None:
    shard.join("a", "t")
    assert shard.beat("a", 3, rack_id="other").member_epoch == 3
    assert shard.records == ["MemberMetadata"]
    assert shard.beat("a", 3).error_code == 0
    assert shard.group.members["a"].rack_id == "other", "no rack in a request leaves it"
    assert shard.records == []


def test_a_member_that_changes_its_subscription_bumps_the_epoch(shard: ShareShard) -> None:
    shard.create("u", 1)
    shard.join("a", "t")
    answer = shard.beat("a", 3, ["t", "u"])
    assert (answer.member_epoch, given(answer)) == (4, [("01", [0, 1])])
    shard.coordinator_has()
    answer = shard.beat("a", 4)
    assert (answer.member_epoch, given(answer)) == (5, [("01", [0, 1]), ("02", [0])])
    answer = shard.beat("a", 5, ["u"])
    assert (answer.member_epoch, given(answer)) == (6, [("02", [0])])
    assert (shard.group.members["a"].previous_member_epoch, shard.group.group_epoch) == (5, 6)


def test_members_are_described_as_they_are(shard: ShareShard) -> None:
    shard.join("a", "t", "u")
    found = shard.describe()
    assert (found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name) == (
        "Stable",
        3,
        3,
        "simple",
    )
    (member,) = found.members
    assert (member.member_id, member.member_epoch, member.client_id, member.client_host, member.rack_id) == (
        "a",
        3,
        "c",
        "/127.0.0.1",
        None,
    )
    assert member.subscribed_topic_names == ["t", "u"]
    assert [(one.topic_name, one.partitions) for one in member.assignment.topic_partitions] == [("t", [0, 1])]
    shard.beat("a", -1)
    assert (shard.describe().group_state, shard.describe().members) == ("Empty", [])


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"group_id": "\t"}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"member_id": "", "group_id": "", "rack_id": ""}, "MemberId can't be empty."),
        ({"group_id": "", "topics": None}, "GroupId can't be empty."),
        ({"topics": None}, "SubscribedTopicNames must be set in first request."),
        ({"topics": []}, "SubscribedTopicNames must be set in first request."),
        ({"epoch": -2, "topics": None}, "MemberEpoch is invalid."),
    ],
)
def test_what_no_group_accepts(shard: ShareShard, fields: dict[str, object], text: str) -> None:
    answer = shard.beat(**{"member_id": "a", "epoch": 0, "topics": ["t"], **fields})  # type: ignore[arg-type]
    assert (answer.error_code, answer.error_message) == (E.INVALID_REQUEST, text)
    assert shard.state.share.groups == {}


def test_epochs_of_members_are_compared(shard: ShareShard) -> None:
    shard.join("a", "t")
    shard.beat("a", 3, ["t", "u"])
    member = shard.group.members["a"]
    assert (member.member_epoch, member.previous_member_epoch) == (4, 3)
    for epoch in (4, 3, 0):
        assert shard.beat("a", epoch, ["t", "u"]).error_code == 0
    end = " The member must abandon all its partitions and rejoin."
    answer = shard.beat("a", 5)
    text = "The share group member has a greater member epoch (5) than the one known by the group coordinator (4)."
    assert (answer.error_code, answer.error_message) == (E.FENCED_MEMBER_EPOCH, text + end)
    answer = shard.beat("a", 2)
    text = "The share group member has a smaller member epoch (2) than the one known by the group coordinator (4), "
    text += "and it does not match the previous member epoch (3)."
    assert (answer.error_code, answer.error_message) == (E.FENCED_MEMBER_EPOCH, text + end)
    answer = shard.beat("b", 4)
    assert (answer.error_code, answer.error_message) == (E.UNKNOWN_MEMBER_ID, "Member b is not a member of group g.")


def test_a_full_group_refuses_new_members_before_it_knows_their_epoch() -> None:
    shard = ShareShard(max_size=1)
    shard.create("t", 1)
    shard.join("a", "t")
    text = "The share group has reached its maximum capacity of 1 members."
    for epoch in (0, 7):
        answer = shard.beat("b", epoch, ["t"])
        assert (answer.error_code, answer.error_message) == (E.GROUP_MAX_SIZE_REACHED, text)
    assert shard.beat("a", 3).error_code == 0


def test_only_members_of_a_group_that_exists_can_leave(shard: ShareShard) -> None:
    answer = shard.beat("a", -1)
    assert (answer.error_code, answer.error_message) == (E.GROUP_ID_NOT_FOUND, "Group g not found.")
    answer = shard.beat("a", 1)
    assert (answer.error_code, answer.error_message) == (E.GROUP_ID_NOT_FOUND, "Share group g not found.")
    shard.join("a", "t")
    answer = shard.beat("b", -1)
    assert (answer.error_code, answer.error_message) == (E.UNKNOWN_MEMBER_ID, "Member b is not a member of group g.")


@pytest.mark.parametrize(("room", "code"), [(0, E.GROUP_MAX_SIZE_REACHED), (1, E.NONE)])
def test_subscriptions_of_all_members_are_limited(
    shard: ShareShard, monkeypatch: pytest.MonkeyPatch, room: int, code: ErrorCode
) -> None:
    shard.join("a", "t")
    held = shard.state.share.subscription_bytes
    assert held > 0
    monkeypatch.setattr(share_shard, "MAX_SUBSCRIPTION_BYTES", 2 * held - 1 + room)
    assert shard.beat("b", 0, ["t"]).error_code == code
    shard.beat("a", -1)
    assert shard.state.share.subscription_bytes == (held if room else 0)


# -- leaving, and sessions ---------------------------------------------------------------------------------------------


def test_a_member_that_leaves_is_removed_and_the_next_heartbeat_divides_anew(shard: ShareShard) -> None:
    shard.join("a", "t")
    epoch = shard.join("b", "t").member_epoch
    answer = shard.beat("b", -1)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("b", -1, 0)
    assert shard.records == ["-CurrentMemberAssignment", "-TargetAssignmentMember", "-MemberMetadata", "Metadata"]
    assert shard.group.group_epoch == epoch + 1
    answer = shard.beat("a", shard.group.members["a"].member_epoch)
    assert answer.member_epoch == epoch + 1
    assert list(shard.group.members["a"].assigned.values()) == [(0, 1)]
    assert list(shard.group.target) == ["a"]


def test_a_session_lasts_from_the_last_heartbeat(shard: ShareShard) -> None:
    shard.join("a", "t")
    shard.pass_time(44_999)
    assert shard.beat("a", 3).error_code == 0
    shard.pass_time(44_999)
    assert list(shard.group.members) == ["a"]
    shard.pass_time(1)
    assert list(shard.group.members) == []
    assert shard.group.group_epoch == 4
    assert shard.records[:3] == ["-CurrentMemberAssignment", "-TargetAssignmentMember", "-MemberMetadata"]


def test_a_member_that_has_left_has_no_session(shard: ShareShard) -> None:
    shard.join("a", "t")
    shard.beat("a", -1)
    shard.pass_time(45_000)
    assert shard.group.group_epoch == 4
    shard.beat("a", 0, ["t"])
    shard.pass_time(44_999)
    assert list(shard.group.members) == ["a"]


# -- when assignments are computed -------------------------------------------------------------------------------------


def test_an_assignment_waits_for_the_interval_since_the_last_one() -> None:
    shard = ShareShard(assignment_interval_ms=1_000)
    shard.create("t", 2)
    shard.beat("a", 0, ["t"])
    shard.coordinator_has()
    answer = shard.beat("a", 2)
    assert (answer.member_epoch, shard.group.group_epoch, shard.group.assignment_epoch) == (2, 3, 2)
    shard.pass_time(999)
    assert shard.beat("a", 2).member_epoch == 2
    shard.pass_time(1)
    answer = shard.beat("a", 2)
    assert (answer.member_epoch, given(answer), shard.group.assignment_epoch) == (3, [("01", [0, 1])], 3)
    assert shard.value("TargetAssignmentMetadata").assignment_timestamp == 2_000


def test_new_partitions_and_topics_are_noticed_by_the_next_heartbeat(shard: ShareShard) -> None:
    shard.join("a", "t", "u")
    shard.grow("t", 3)
    answer = shard.beat("a", 3)
    assert (answer.member_epoch, given(answer)) == (4, None)
    assert [list(found) for found in shard.state.share.to_initialize[0].start_offsets.values()] == [[2]]
    shard.coordinator_has()
    assert given(shard.beat("a", 4)) == [("01", [0, 1, 2])]
    shard.create("u", 1)
    shard.beat("a", 5)
    shard.coordinator_has()
    assert given(shard.beat("a", 6)) == [("01", [0, 1, 2]), ("03", [0])]
    shard.create("other", 1)
    assert (shard.beat("a", 7).member_epoch, shard.records) == (7, []), "a topic that no member names"


def test_a_topic_that_went_while_no_coordinator_was_loaded_is_forgotten(shard: ShareShard) -> None:
    """Otherwise each heartbeat raised the epoch of a group whose topic has been made again."""
    member = shard.join("a", "t")
    shard.topics.delete("t")
    made = shard.create("t", 2)
    shard.reload()
    assert shard.records == ["StatePartitionMetadata"]
    assert shard.value("StatePartitionMetadata").initialized_topics == []
    again = shard.beat("a", member.member_epoch)
    shard.coordinator_has()
    again = shard.beat("a", again.member_epoch)
    assert shard.group.state_topics is not None
    assert list(shard.group.state_topics.initialized) == [made]
    assert shard.beat("a", again.member_epoch).member_epoch == again.member_epoch
    assert shard.records == []


def test_a_group_of_topics_that_do_not_exist_has_no_initialized_partitions(shard: ShareShard) -> None:
    shard.beat("a", 0, ["nowhere"])
    assert shard.group.state_topics is None
    for group_id in (GROUP, "unknown"):
        assert shard.run(partial(shard.state.initialized_partitions, group_id)) == {}
    shard.join("a", "t")
    topic_id = shard.topics.by_name["t"].topic_id
    assert shard.run(partial(shard.state.initialized_partitions, GROUP)) == {topic_id: (0, 1)}


def test_a_topic_that_nobody_names_any_more_is_not_counted(shard: ShareShard) -> None:
    member = shard.join("a", "t")
    shard.create("u", 1)
    assert dict(shard.group.counts_with(None, shard.group.members["a"])) == {}
    changed = shard.beat("a", member.member_epoch, ["u"])
    assert dict(shard.group.topic_name_counts) == {"u": 1}
    while shard.state.share.to_initialize:
        shard.coordinator_has()
    settled = shard.beat("a", changed.member_epoch)
    shard.grow("t", 5)
    assert shard.beat("a", settled.member_epoch).member_epoch == settled.member_epoch
