"""What JoinGroup, SyncGroup, Heartbeat, LeaveGroup and timers do to classic groups.

Each operation changes the group and gives an outbox. Order of the checks: Kafka's GroupMetadataManager (classicGroup…).
KIP-345 static members, KIP-394 member ids given before the join, KIP-814 static leaders that skip the assignment.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from klamm.broker.coordinator.outbox import Outbox, Waiter
from klamm.broker.coordinator.timers import Timers
from klamm.broker.groups.classic_group import ClassicGroup, GroupState, Member
from klamm.broker.groups.classic_requests import Join, joined, refuse_sync, synced
from klamm.broker.groups.limits import MAX_GROUP_BYTES
from klamm.broker.groups.settings import GroupSettings
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from klamm.protocol.messages.groups.join_group import JoinGroupResponse
from klamm.protocol.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from klamm.protocol.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""A new member that waits for its first join to complete expires after this time."""
HEARTBEAT, JOIN, SYNC = "heartbeat", "join", "sync"
TimerKey: TypeAlias = tuple[str, str, str]
"""A kind of timer, a group id, and a member id (empty for timers of the group)."""


class ClassicProtocol:
    """The operations on the classic groups of one shard. `timers` is shared with the other kinds of groups."""

    def __init__(self, settings: GroupSettings, timers: Timers[TimerKey], new_id: Callable[[], str]) -> None:
        """`new_id` gives the random part of member ids."""
        self._settings = settings
        self._timers = timers
        self._new_id = new_id

    # -- JoinGroup -------------------------------------------------------------------------------------------------

    def join(self, group: ClassicGroup, asked: Join, *, is_new_group: bool, now_ms: int) -> Outbox:
        """A member joins. `is_new_group`: the request has made the group."""
        out = Outbox()
        if not self._accepts(group, asked.member_id):
            self._remove(group, asked.member_id)
            out.reply(asked.waiter, JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif asked.member_id:
            self._join_existing(group, asked, out, now_ms)
        else:
            self._join_new(group, asked, out, now_ms)
        if is_new_group and not out.records:
            out.write(*ClassicGroup(group.group_id, state_since_ms=now_ms).to_record({}))
        return out

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        member, most = group.members.get(member_id), self._settings.max_size
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                return (member is not None and member.awaiting_join is not None) or group.awaiting_join_count < most
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return member is not None or len(group.members) < most
        return True

    def _join_new(self, group: ClassicGroup, asked: Join, out: Outbox, now_ms: int) -> None:
        if not group.supports(asked.protocol_type, asked.protocols):
            out.reply(asked.waiter, JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        prefix = asked.client_id if asked.instance_id is None else asked.instance_id
        member_id = f"{prefix}-{self._new_id()}"
        if asked.instance_id is not None:
            if asked.instance_id in group.static_members:
                self._replace_static(group, asked, asked.instance_id, member_id, out, now_ms)
            else:
                self._add(group, asked, member_id, out, now_ms)
        elif asked.requires_known_member_id:
            group.pending_members.add(member_id)
            self._set_heartbeat(group, member_id, now_ms + asked.session_timeout_ms)
            out.reply(asked.waiter, JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED))
        else:
            self._add(group, asked, member_id, out, now_ms)

    def _join_existing(self, group: ClassicGroup, asked: Join, out: Outbox, now_ms: int) -> None:
        member_id = asked.member_id
        if not group.supports(asked.protocol_type, asked.protocols):
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        elif member_id in group.pending_members and asked.instance_id is None:
            self._add(group, asked, member_id, out, now_ms)
            return
        else:
            code = group.validate_member(member_id, asked.instance_id)
        if code:
            out.reply(asked.waiter, JoinGroupResponse(member_id=member_id, error_code=code))
            return
        member, state = group.members[member_id], group.state
        keeps_generation = state is GroupState.COMPLETING_REBALANCE or (
            state is GroupState.STABLE and group.leader_id != member_id
        )
        if keeps_generation and member.matches(asked.protocols):
            out.reply(asked.waiter, joined(group, member))
        else:
            self._update(group, member, asked)
            self._rebalance_or_complete(group, out, now_ms)

    def _add(self, group: ClassicGroup, asked: Join, member_id: str, out: Outbox, now_ms: int) -> None:
        member = Member(
            member_id,
            asked.instance_id,
            asked.client_id,
            asked.client_host,
            asked.rebalance_timeout_ms,
            asked.session_timeout_ms,
            asked.protocol_type,
            asked.protocols,
            is_new=True,
        )
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True
        group.add(member, asked.waiter)
        self._set_heartbeat(group, member_id, now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance_or_complete(group, out, now_ms)

    def _update(self, group: ClassicGroup, member: Member, asked: Join) -> None:
        if member.awaiting_join is not None and member.awaiting_join is not asked.waiter:
            # The client has given up its former request. Kafka leaves that unanswered; here it is answered.
            member.awaiting_join.refuse(ErrorCode.REBALANCE_IN_PROGRESS)
        group.update(member, asked.protocols, asked.rebalance_timeout_ms, asked.session_timeout_ms, asked.waiter)

    def _replace_static(
        self, group: ClassicGroup, asked: Join, instance_id: str, member_id: str, out: Outbox, now_ms: int
    ) -> None:
        former_leader, old = group.leader_id, group.members[group.static_members[instance_id]]
        fenced = ErrorCode.FENCED_INSTANCE_ID
        out.reply(group.take_awaiting_join(old), JoinGroupResponse(member_id=old.member_id, error_code=fenced))
        self._answer_sync(old, SyncGroupResponse(error_code=fenced), out)
        self._timers.cancel((HEARTBEAT, group.group_id, old.member_id))
        member = group.replace_static(instance_id, member_id)
        self._set_heartbeat(group, member_id, now_ms + member.session_timeout_ms)
        self._update(group, member, asked)
        match group.state:
            case GroupState.STABLE if group.protocol_name == group.select_protocol():
                group.take_awaiting_join(member)
                out.write(*group.to_record({one.member_id: one.assignment for one in group.members.values()}))
                response = joined(group, member)
                if asked.can_skip_assignment:
                    response.skip_assignment = group.leader_id == member_id
                else:
                    # With the former leader's id a restarted leader does not assign.
                    response.leader, response.members = former_leader or "", ()
                out.reply(asked.waiter, response)
            case GroupState.STABLE:
                self._rebalance_or_complete(group, out, now_ms)
            case GroupState.COMPLETING_REBALANCE:
                self._prepare_rebalance(group, out, now_ms)
            case _:
                self._complete_if_all_joined(group, out, now_ms)

    # -- rebalances ------------------------------------------------------------------------------------------------

    def _rebalance_or_complete(self, group: ClassicGroup, out: Outbox, now_ms: int) -> None:
        if group.can_rebalance:
            self._prepare_rebalance(group, out, now_ms)
        else:
            self._complete_if_all_joined(group, out, now_ms)

    def _complete_if_all_joined(self, group: ClassicGroup, out: Outbox, now_ms: int) -> None:
        if group.state is not GroupState.PREPARING_REBALANCE or group.previous_state is GroupState.EMPTY:
            return  # the initial rebalance delay decides when the first join of a group is complete
        if group.has_all_members_joined:
            self._complete_join(group, out, now_ms)

    def _prepare_rebalance(self, group: ClassicGroup, out: Outbox, now_ms: int) -> None:
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.in_order():
                member.assignment = b""
                self._answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), out)
                self._renew(group, member, now_ms)
        group.pending_sync.clear()
        self._timers.cancel((SYNC, group.group_id, ""))
        is_initial = group.state is GroupState.EMPTY
        group.transition_to(GroupState.PREPARING_REBALANCE, now_ms)
        if is_initial:
            delay_ms = self._settings.initial_rebalance_delay_ms
            group.initial_delay_ms = delay_ms
            group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._timers.set((JOIN, group.group_id, ""), now_ms + delay_ms)
            if not delay_ms:
                self._initial_delay_over(group, out, now_ms)
        elif group.has_all_members_joined:
            self._complete_join(group, out, now_ms)
        else:
            self._timers.set((JOIN, group.group_id, ""), now_ms + group.rebalance_timeout_ms)

    def _initial_delay_over(self, group: ClassicGroup, out: Outbox, now_ms: int) -> None:
        remaining_ms = group.initial_remaining_ms
        if not group.new_member_added or not remaining_ms:
            self._complete_join(group, out, now_ms)
            return
        group.new_member_added = False
        delay_ms = min(self._settings.initial_rebalance_delay_ms, remaining_ms)
        group.initial_remaining_ms = max(remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay_ms
        self._timers.set((JOIN, group.group_id, ""), now_ms + delay_ms)

    def _complete_join(self, group: ClassicGroup, out: Outbox, now_ms: int) -> None:
        """End PreparingRebalance: dynamic members that have not joined are removed."""
        self._timers.cancel((JOIN, group.group_id, ""))
        for member in list(group.in_order()):
            if member.awaiting_join is None and member.instance_id is None:
                self._remove(group, member.member_id)
        if group.members and not group.elect_joined_leader():
            self._timers.set((JOIN, group.group_id, ""), now_ms + group.rebalance_timeout_ms)
            return
        group.begin_next_generation(now_ms)
        if group.state is GroupState.EMPTY:
            out.write(*group.to_record({}))
            return
        for member in group.in_order():
            out.reply(group.take_awaiting_join(member), joined(group, member))
            self._renew(group, member, now_ms)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        self._timers.set((SYNC, group.group_id, ""), now_ms + group.rebalance_timeout_ms)

    # -- SyncGroup -------------------------------------------------------------------------------------------------

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, waiter: Waiter, now_ms: int) -> Outbox:
        """A member asks for its assignment; the leader sends all of them."""
        out = Outbox()
        code = refuse_sync(group, request)
        if not code and group.state is GroupState.PREPARING_REBALANCE:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        if code:
            out.reply(waiter, SyncGroupResponse(error_code=code))
            return out
        member = group.members[request.member_id]
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._timers.cancel((SYNC, group.group_id, ""))
        if group.state is GroupState.STABLE:
            out.reply(waiter, synced(group, member))
            return out
        if member.awaiting_sync is not None:
            member.awaiting_sync.refuse(ErrorCode.REBALANCE_IN_PROGRESS)
        member.awaiting_sync = waiter
        if group.leader_id == member.member_id:
            self._assign(group, {one.member_id: bytes(one.assignment) for one in request.assignments}, out, now_ms)
        return out

    def _assign(self, group: ClassicGroup, assignment: Mapping[str, bytes], out: Outbox, now_ms: int) -> None:
        """Write the leader's assignment and answer the members that wait for it."""
        if self._is_too_large(group, assignment):
            for one in group.in_order():
                self._answer_sync(one, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR), out)
            self._prepare_rebalance(group, out, now_ms)
            return
        out.write(*group.to_record(assignment))
        for one in group.in_order():
            one.assignment = assignment.get(one.member_id, b"")
            if one.awaiting_sync is not None:
                self._answer_sync(one, synced(group, one), out)
                self._renew(group, one, now_ms)
        group.transition_to(GroupState.STABLE, now_ms)

    @staticmethod
    def _is_too_large(group: ClassicGroup, assignment: Mapping[str, bytes]) -> bool:
        """Whether the group's record would exceed max.message.bytes."""
        metadata = sum(len(member.metadata(group.protocol_name)) for member in group.members.values())
        return metadata + sum(map(len, assignment.values())) > MAX_GROUP_BYTES

    @staticmethod
    def _answer_sync(member: Member, response: SyncGroupResponse, out: Outbox) -> None:
        out.reply(member.awaiting_sync, response)
        member.awaiting_sync = None

    # -- Heartbeat and LeaveGroup ----------------------------------------------------------------------------------

    def heartbeat(self, group: ClassicGroup, request: HeartbeatRequest, waiter: Waiter, now_ms: int) -> Outbox:
        """A member is alive."""
        out = Outbox()
        code = group.validate_member(request.member_id, request.group_instance_id)
        if not code and request.generation_id != group.generation_id:
            code = ErrorCode.ILLEGAL_GENERATION
        if not code:
            self._renew(group, group.members[request.member_id], now_ms)
            if group.state is GroupState.PREPARING_REBALANCE:
                code = ErrorCode.REBALANCE_IN_PROGRESS
        out.reply(waiter, HeartbeatResponse(error_code=code))
        return out

    def leave(self, group: ClassicGroup, request: LeaveGroupRequest, waiter: Waiter, now_ms: int) -> Outbox:
        """Members leave, by id or by instance id."""
        out = Outbox()
        answers = []
        for one in request.members:
            member_id = one.member_id
            if not member_id:
                found = group.static_members.get(one.group_instance_id) if one.group_instance_id is not None else None
                code = ErrorCode.NONE if found else ErrorCode.UNKNOWN_MEMBER_ID
                member_id = found or ""
            elif member_id in group.pending_members:
                code = ErrorCode.NONE
            else:
                code = group.validate_member(member_id, one.group_instance_id)
            if not code:
                self._drop(group, member_id, out)
            answers.append(
                MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code)
            )
        if any(not answer.error_code for answer in answers):
            if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
                self._prepare_rebalance(group, out, now_ms)
            else:
                self._complete_if_all_joined(group, out, now_ms)
        out.reply(waiter, LeaveGroupResponse(members=answers))
        return out

    # -- timers ----------------------------------------------------------------------------------------------------

    def fire(self, group: ClassicGroup, kind: str, member_id: str, now_ms: int) -> Outbox:
        """Do what is due when a timer of the group has come."""
        out = Outbox()
        if kind == HEARTBEAT:
            self._expire_member(group, member_id, out, now_ms)
        elif kind == SYNC:
            self._expire_sync(group, out, now_ms)
        elif group.state is GroupState.PREPARING_REBALANCE:
            if group.previous_state is GroupState.EMPTY:
                self._initial_delay_over(group, out, now_ms)
            else:
                self._complete_join(group, out, now_ms)
        return out

    def _expire_member(self, group: ClassicGroup, member_id: str, out: Outbox, now_ms: int) -> None:
        if member_id in group.pending_members:
            self._remove(group, member_id)
            if group.state is GroupState.PREPARING_REBALANCE and group.has_all_members_joined:
                self._complete_join(group, out, now_ms)
            return
        member = group.members.get(member_id)
        if member is None:
            return
        if not member.is_new and (member.awaiting_join is not None or member.awaiting_sync is not None):
            return  # a member that waits for a rebalance need not send heartbeats
        self._drop(group, member_id, out)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._prepare_rebalance(group, out, now_ms)
        elif group.state is GroupState.PREPARING_REBALANCE and group.has_all_members_joined:
            self._complete_join(group, out, now_ms)

    def _expire_sync(self, group: ClassicGroup, out: Outbox, now_ms: int) -> None:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE) and group.pending_sync:
            for member_id in sorted(group.pending_sync):
                self._remove(group, member_id)
            self._prepare_rebalance(group, out, now_ms)

    def restart_sessions(self, group: ClassicGroup, now_ms: int) -> Outbox:
        """Begin the session of each member anew, after the group was loaded."""
        out = Outbox()
        for member in group.in_order():
            self._renew(group, member, now_ms)
        if len(group.members) > self._settings.max_size:
            self._prepare_rebalance(group, out, now_ms)
        return out

    def take_over(self, group: ClassicGroup, now_ms: int, *, rebalance: bool) -> Outbox:
        """Begin with a group that was a consumer group (KIP-848), by a rebalance if its assignment is not final."""
        out = self.restart_sessions(group, now_ms)
        if rebalance and group.can_rebalance:
            self._prepare_rebalance(group, out, now_ms)
        return out

    def touch(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """Extend the session of a member, if the group has it."""
        if member_id in group.members:
            self._renew(group, group.members[member_id], now_ms)

    def waiters_of(self, group: ClassicGroup) -> Sequence[Waiter]:
        """The requests that wait for other members."""
        both = ((member.awaiting_join, member.awaiting_sync) for member in group.in_order())
        return [waiter for pair in both for waiter in pair if waiter is not None]

    def _drop(self, group: ClassicGroup, member_id: str, out: Outbox) -> None:
        """Remove a member, and answer what it waits for."""
        member = group.members.get(member_id)
        if member is not None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            out.reply(group.take_awaiting_join(member), JoinGroupResponse(error_code=unknown))
            self._answer_sync(member, SyncGroupResponse(error_code=unknown), out)
        self._remove(group, member_id)

    def _remove(self, group: ClassicGroup, member_id: str) -> None:
        group.remove(member_id)
        self._timers.cancel((HEARTBEAT, group.group_id, member_id))

    def _renew(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        self._set_heartbeat(group, member.member_id, now_ms + member.session_timeout_ms)

    def _set_heartbeat(self, group: ClassicGroup, member_id: str, due_ms: int) -> None:
        self._timers.set((HEARTBEAT, group.group_id, member_id), due_ms)
