"""Classic groups by the clock: joins, rebalances, sessions. The recorded scenarios judge the codes and their order."""

import pytest

from klamm.broker.groups import groups
from klamm.broker.groups.groups import Groups
from klamm.broker.groups.limits import MAX_GROUP_BYTES, MAX_MEMBERS_BYTES
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups.delete_groups import DeleteGroupsRequest
from klamm.protocol.messages.groups.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.groups.list_groups import ListGroupsRequest
from tests.broker.groups.conversation import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, Conversation


def timers_per_shard(group: Conversation) -> set[int]:
    shards = group.cluster.brokers.coordinators._shards.values()
    return {len(shard.state.timers) for shard in shards if isinstance(shard.state, Groups)}


def state_of(group: Conversation) -> str:
    state: str = group.ask(DescribeGroupsRequest(groups=[GROUP])).groups[0].group_state
    return state


def leave(group: Conversation, member_id: str) -> int:
    request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=member_id)])
    code: int = group.ask(request).members[0].error_code
    return code


def test_the_first_join_waits_for_the_initial_delay(group: Conversation) -> None:
    member_id = group.new_member_id()
    joined = group.join(member_id)
    group.pass_time(DELAY_MS - 1)
    assert joined.is_waiting
    group.pass_time(1)
    assert (joined.response.generation_id, joined.response.leader, joined.response.member_id) == (1, *[member_id] * 2)


def test_a_waiting_join_needs_no_tick_of_the_server(group: Conversation) -> None:
    joined = group.join(group.new_member_id())
    assert joined.is_waiting
    assert joined.answer.response.retry_at_ms == group.cluster.clock.now_ms + DELAY_MS  # type: ignore[union-attr]
    group.cluster.clock.advance(DELAY_MS)
    assert joined.response.generation_id == 1


def test_each_new_member_extends_the_initial_delay(group: Conversation) -> None:
    first = group.join(group.new_member_id())
    second_id = group.new_member_id()
    group.pass_time(DELAY_MS // 2)
    second = group.join(second_id)
    group.pass_time(DELAY_MS // 2)
    assert first.is_waiting
    group.pass_time(DELAY_MS)
    assert first.response.generation_id == second.response.generation_id == 1
    assert len(first.response.members) == 2
    assert not second.response.members


def test_the_leaders_assignment_reaches_all(group: Conversation) -> None:
    ids, generation_id = group.stable(3)
    assert state_of(group) == "Stable"
    for member_id in ids:
        assert group.sync(member_id, generation_id).response.assignment == member_id.encode()
        assert group.heartbeat(member_id, generation_id) == 0


def test_a_fourth_member_is_too_much(group: Conversation) -> None:
    group.stable(3)
    assert group.join(group_instance_id="i").response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_silent_member_is_removed_and_the_other_rebalances(group: Conversation) -> None:
    (leader, follower), generation_id = group.stable(2)
    for _ in range(3):
        group.pass_time(SESSION_MS // 2 - 10)
        assert group.heartbeat(leader, generation_id) in (0, ErrorCode.REBALANCE_IN_PROGRESS)
    assert group.heartbeat(leader, generation_id) == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.heartbeat(follower, generation_id) == ErrorCode.UNKNOWN_MEMBER_ID
    joined = group.join(leader)
    assert joined.response.generation_id == generation_id + 1


def test_who_does_not_join_again_in_time_is_removed(group: Conversation) -> None:
    (leader, follower), generation_id = group.stable(2)
    joined = group.join(leader)
    for _ in range(REBALANCE_MS // 4_000):
        assert joined.is_waiting
        assert group.heartbeat(follower, generation_id) == ErrorCode.REBALANCE_IN_PROGRESS
        group.pass_time(4_000)
    assert [member.member_id for member in joined.response.members] == [leader]
    assert group.heartbeat(follower, generation_id + 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_does_not_sync_in_time_is_removed(group: Conversation) -> None:
    ids = [group.new_member_id() for _ in range(2)]
    joins = [group.join(member_id) for member_id in ids]
    for _ in range(3):
        group.pass_time(DELAY_MS)
    leader = joins[0].response.leader
    (follower,) = set(ids) - {leader}
    waiting = group.sync(follower, 1)
    for _ in range(REBALANCE_MS // 4_000):
        assert waiting.is_waiting
        group.heartbeat(leader, 1)
        group.pass_time(4_000)
    assert waiting.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.heartbeat(leader, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restarted_static_member_keeps_its_assignment_without_a_rebalance(group: Conversation) -> None:
    joined = group.join(group_instance_id="i")
    group.pass_time(DELAY_MS)
    old_id = joined.response.member_id
    synced = group.sync(old_id, 1, {old_id: b"a"})
    group.pass_time(2)
    assert synced.response.assignment == b"a"
    again = group.join(group_instance_id="i")
    group.pass_time(2)
    response = again.response
    assert (response.generation_id, response.skip_assignment, response.error_code) == (1, True, 0)
    assert response.member_id != old_id
    assert group.sync(response.member_id, 1).response.assignment == b"a"
    fenced = group.join(old_id, group_instance_id="i").response
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_the_last_member_leaves_and_the_group_can_be_deleted(group: Conversation) -> None:
    (member_id,), _ = group.stable()
    refused = group.ask(DeleteGroupsRequest(groups_names=[GROUP])).results[0].error_code
    assert refused == ErrorCode.NON_EMPTY_GROUP
    assert leave(group, member_id) == 0
    assert state_of(group) == "Empty"
    assert group.ask(DeleteGroupsRequest(groups_names=[GROUP])).results[0].error_code == 0
    assert state_of(group) == "Dead"
    assert group.ask(DeleteGroupsRequest(groups_names=[GROUP])).results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_moves_with_members_and_generation(group: Conversation) -> None:
    """The new leader of the partition has read the group; the old one is not the coordinator any more."""
    (leader, follower), generation_id = group.stable(2)
    waiting = group.join(leader)
    assert waiting.is_waiting
    old = group.coordinator_id
    group.cluster.shut_down(old)
    group.cluster.brokers.tick()
    assert waiting.response.error_code == ErrorCode.NOT_COORDINATOR
    moved = Conversation(group.cluster)
    assert moved.coordinator_id != old
    assert moved.heartbeat(follower, generation_id) == 0
    assert moved.sync(follower, generation_id).response.assignment == follower.encode()
    assert group.heartbeat(follower, generation_id) == ErrorCode.NOT_COORDINATOR
    group.pass_time(SESSION_MS)
    assert moved.heartbeat(follower, generation_id) != 0, "sessions begin anew, and end"


@pytest.mark.parametrize(
    ("states", "types", "shown"), [((), (), 1), (("stable",), ("CLASSIC",), 1), (("Empty",), (), 0)]
)
def test_list_groups_filters_without_regard_to_case(
    group: Conversation, states: tuple[str, ...], types: tuple[str, ...], shown: int
) -> None:
    group.stable()
    response = group.ask(ListGroupsRequest(states_filter=states, types_filter=types))
    assert [one.group_id for one in response.groups] == [GROUP] * shown


def test_a_thousand_joins_and_leaves_leave_nothing_behind(group: Conversation) -> None:
    for _ in range(1_000):
        assert leave(group, group.new_member_id()) == 0
    assert timers_per_shard(group) == {1}, "the timers of expiry alone"


def test_a_deleted_group_leaves_no_timer_behind(group: Conversation) -> None:
    group.new_member_id()
    assert group.ask(DeleteGroupsRequest(groups_names=[GROUP])).results[0].error_code == 0
    assert timers_per_shard(group) == {1}, "the timers of expiry alone"


def test_an_assignment_that_fits_into_no_record_is_refused_and_the_group_rebalances(group: Conversation) -> None:
    member_id = group.new_member_id()
    group.join(member_id)
    group.pass_time(DELAY_MS)
    refused = group.sync(member_id, 1, {member_id: bytes(MAX_GROUP_BYTES)})
    assert refused.response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert state_of(group) == "PreparingRebalance"


def test_metadata_beyond_the_limit_of_a_group_are_refused(group: Conversation) -> None:
    group.stable(metadata=bytes(1_000))
    large = bytes(MAX_MEMBERS_BYTES - 999)
    assert group.join(metadata=large).response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.join(metadata=large[1:]).response.error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_member_ids_that_are_never_used_are_limited(group: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_PENDING_MEMBERS", 3)
    codes = [group.join().response.error_code for _ in range(4)]
    assert codes == [ErrorCode.MEMBER_ID_REQUIRED] * 3 + [ErrorCode.GROUP_MAX_SIZE_REACHED]
    group.pass_time(SESSION_MS)
    assert group.new_member_id()
