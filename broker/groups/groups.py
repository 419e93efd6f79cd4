"""The state machine of one partition of `__consumer_offsets`: its groups and their offsets.

Each operation takes the time and gives an outbox. Order of the checks: Kafka's GroupMetadataManager. What
requests do to offsets is in `offset_protocol.py`.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from klamm.broker.coordinator.outbox import Outbox, Waiter, Written
from klamm.broker.coordinator.timers import Timers
from klamm.broker.groups.classic_group import CONSUMER_PROTOCOL_TYPE, NO_TIMESTAMP, ClassicGroup, GroupState
from klamm.broker.groups.classic_protocol import ClassicProtocol, TimerKey
from klamm.broker.groups.classic_requests import Join
from klamm.broker.groups.limits import (
    MAX_GROUPS,
    MAX_JOINED_BYTES,
    MAX_MEMBERS_BYTES,
    MAX_PENDING_MEMBERS,
    MEMBER_BYTES,
)
from klamm.broker.groups.offset_protocol import OffsetProtocol
from klamm.broker.groups.offsets import CommittedOffset, Offsets, write_tombstone
from klamm.broker.groups.settings import GroupSettings
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.groups.delete_groups import DeletableGroupResult
from klamm.protocol.messages.groups.describe_groups import DescribedGroup, DescribedGroupMember
from klamm.protocol.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from klamm.protocol.messages.groups.join_group import JoinGroupResponse
from klamm.protocol.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from klamm.protocol.messages.groups.list_groups import ListedGroup, ListGroupsResponse
from klamm.protocol.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from klamm.protocol.records.coordinator.groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

CLASSIC_TYPE: Final = "classic"
COUNT_EVERY_MS: Final = 1_000
"""At the limit of all groups their members are counted again, which takes about 1 ms for 1,000 members, so rarely."""
EXPIRY: Final = "expiry"
"""The kind of the timer that removes expired offsets. Its key has no group."""


class Groups:
    """The groups and offsets of one shard (a `CoordinatorState`)."""

    def __init__(self, settings: GroupSettings, new_id: Callable[[], str]) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()
        self.timers: Timers[TimerKey] = Timers()
        self.settings = settings
        self.classic = ClassicProtocol(settings, self.timers, new_id)
        self.offset_protocol: OffsetProtocol = OffsetProtocol(self.groups, self.offsets, self.classic, settings)

        self._joined_bytes = 0
        """At least the size of all members of classic groups; `_has_room` counts them again when it is at the limit."""
        self._count_again_ms = 0

    # -- members ---------------------------------------------------------------------------------------------------

    def join(self, group_id: str, asked: Join, now_ms: int) -> Outbox:
        """JoinGroup."""
        group = self.groups.get(group_id)
        is_new_group = group is None
        if not self._has_room(group, asked, now_ms):
            refused = JoinGroupResponse(member_id=asked.member_id, error_code=ErrorCode.GROUP_MAX_SIZE_REACHED)
            return _answered(asked.waiter, refused)
        if group is None:
            code = ErrorCode.UNKNOWN_MEMBER_ID if asked.member_id else ErrorCode.NONE
            if not code and len(self.groups) >= MAX_GROUPS:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if code:
                return _answered(asked.waiter, JoinGroupResponse(member_id=asked.member_id, error_code=code))
            group = self.groups[group_id] = ClassicGroup(group_id, state_since_ms=now_ms)
        elif (not asked.member_id and len(group.pending_members) >= MAX_PENDING_MEMBERS) or (
            group.metadata_bytes + sum(map(len, asked.protocols.values())) > MAX_MEMBERS_BYTES
        ):
            return _answered(asked.waiter, JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))
        return self.classic.join(group, asked, is_new_group=is_new_group, now_ms=now_ms)

    def _has_room(self, group: ClassicGroup | None, asked: Join, now_ms: int) -> bool:
        """Whether a member may join by the limit of all groups. Members that have joined may always join again with
        what they have."""
        size = sum(map(len, asked.protocols.values()))
        known = group.members.get(asked.member_id) if group is not None else None
        if known is not None and size <= sum(map(len, known.protocols.values())):
            return True
        size += MEMBER_BYTES + 2 * len(asked.client_id) + len(asked.instance_id or "")
        self._joined_bytes += size
        if self._joined_bytes > MAX_JOINED_BYTES and now_ms >= self._count_again_ms:
            self._count_again_ms = now_ms + COUNT_EVERY_MS
            self._joined_bytes = size + sum(each.size_bytes() for each in self.groups.values())
        if self._joined_bytes <= MAX_JOINED_BYTES:
            return True
        self._joined_bytes -= size
        return False

    def sync(self, request: SyncGroupRequest, waiter: Waiter, now_ms: int) -> Outbox:
        """SyncGroup."""
        group = self.groups.get(request.group_id)
        if group is None or group.state is GroupState.EMPTY:
            return _answered(waiter, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        return self.classic.sync(group, request, waiter, now_ms)

    def heartbeat(self, request: HeartbeatRequest, waiter: Waiter, now_ms: int) -> Outbox:
        """Heartbeat."""
        group = self.groups.get(request.group_id)
        if group is None:
            return _answered(waiter, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        return self.classic.heartbeat(group, request, waiter, now_ms)

    def leave(self, request: LeaveGroupRequest, waiter: Waiter, now_ms: int) -> Outbox:
        """LeaveGroup, with its members as a list in every version."""
        group = self.groups.get(request.group_id)
        if group is not None:
            return self.classic.leave(group, request, waiter, now_ms)
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        members = [
            MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=unknown)
            for one in request.members
        ]
        return _answered(waiter, LeaveGroupResponse(members=members))

    # -- administration --------------------------------------------------------------------------------------------

    def describe(self, group_id: str, waiter: Waiter) -> Outbox:
        """DescribeGroups for one group: the response is a `DescribedGroup`."""
        group = self.groups.get(group_id)
        if group is None:
            described = DescribedGroup(
                group_id=group_id,
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {group_id} not found.",
                group_state=GroupState.DEAD.value,
            )
            return _answered(waiter, described)
        is_stable = group.state is GroupState.STABLE
        members = [
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.in_order()
        ]
        described = DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=(group.protocol_name or "") if is_stable else "",
            members=members,
        )
        return _answered(waiter, described)

    def list_groups(self, states: Collection[str], types: Collection[str], waiter: Waiter) -> Outbox:
        """ListGroups for this shard: the response is a `ListGroupsResponse`. Empty filters let everything pass."""
        states, types = {state.lower() for state in states}, {kind.lower() for kind in types}
        listed = [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=CLASSIC_TYPE,
            )
            for group in self.groups.values()
            if (not states or group.state.value.lower() in states) and (not types or CLASSIC_TYPE in types)
        ]
        return _answered(waiter, ListGroupsResponse(groups=listed))

    def delete(self, group_id: str, waiter: Waiter) -> Outbox:
        """DeleteGroups for one group: the response is a `DeletableGroupResult`."""
        out = Outbox()
        group = self.groups.get(group_id)
        code = ErrorCode.NONE
        if group is None:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        elif group.state is not GroupState.EMPTY:
            code = ErrorCode.NON_EMPTY_GROUP
        else:
            self.offsets.write_tombstones_of_group(group_id, out)
            out.write(GroupMetadataKey(group=group_id), None)
        out.reply(waiter, DeletableGroupResult(group_id=group_id, error_code=code))
        return out

    # -- replay ----------------------------------------------------------------------------------------------------

    def replay(self, key: Message, value: Message | None, written: Written) -> None:
        """Apply one record of the partition."""
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            if value is not None and key.group not in self.groups:
                self.groups[key.group] = ClassicGroup(key.group, state_since_ms=written.timestamp_ms)
            self.offsets.replay(key, value, written)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            if value is None:
                self._forget(key.group)
            elif not written.live:  # a live group is ahead of its record
                self.groups[key.group] = ClassicGroup.from_record(key, value)

    def replay_end_of_transaction(self, producer_id: int, *, committed: bool) -> None:
        """The transaction of a producer has ended: its pending offsets count, or are dropped."""
        self.offsets.end_transaction(producer_id, committed=committed)

    def _forget(self, group_id: str) -> None:
        group = self.groups.pop(group_id, None)
        if group is not None:
            for member_id in (*group.members, *group.pending_members):
                group.remove(member_id)
                self.timers.cancel(("heartbeat", group_id, member_id))

    def loaded(self, now_ms: int) -> Outbox:
        """Begin the sessions of all members."""
        out = Outbox()
        for group in self.groups.values():
            begun = self.classic.restart_sessions(group, now_ms)
            out.records += begun.records
            out.replies += begun.replies
        self.timers.set((EXPIRY, "", ""), now_ms + self.settings.offsets_retention_check_interval_ms)
        return out

    def topics_removed(self, names: Iterable[str]) -> Outbox:
        """Remove the offsets of deleted topics."""
        out = Outbox()
        for group_id, topic, partition in dict.fromkeys(self.offsets.places_of_topics(frozenset(names))):
            write_tombstone(out, group_id, topic, partition)
        return out

    def waiters(self) -> Iterable[Waiter]:
        """The requests that wait for other members."""
        return [waiter for group in self.groups.values() for waiter in self.classic.waiters_of(group)]

    def snapshots(self) -> None:
        """The newest record of each key is all that counts."""

    # -- time ------------------------------------------------------------------------------------------------------

    @property
    def next_due_ms(self) -> int | None:
        """When the next timer is due."""
        return self.timers.next_due_ms

    def tick(self, now_ms: int) -> Outbox | None:
        """Do the work of one timer that is due."""
        key = self.timers.pop_due(now_ms)
        if key is None:
            return None
        return self._fire(key, now_ms)

    def _fire(self, key: TimerKey, now_ms: int) -> Outbox:
        kind, group_id, member_id = key
        if kind == EXPIRY:
            self.timers.set(key, now_ms + self.settings.offsets_retention_check_interval_ms)
            return self._expire_offsets(now_ms)
        group = self.groups.get(group_id)
        return Outbox() if group is None else self.classic.fire(group, kind, member_id, now_ms)

    def _expire_offsets(self, now_ms: int) -> Outbox:
        """Remove expired offsets, then groups that are empty and have no offsets left."""
        out = Outbox()
        for group_id, group in list(self.groups.items()):
            all_expired = True
            for topic, partitions in self.offsets.of_group(group_id).items():
                for partition, committed in partitions.items():
                    if self._is_expired(group, topic, partition, committed, now_ms):
                        write_tombstone(out, group_id, topic, partition)
                    else:
                        all_expired = False
            if all_expired and group.state is GroupState.EMPTY and not self.offsets.has_pending(group_id):
                out.write(GroupMetadataKey(group=group_id), None)
        return out

    def _is_expired(
        self, group: ClassicGroup, topic: str, partition: int, committed: CommittedOffset, now_ms: int
    ) -> bool:
        since_ms = committed.commit_timestamp_ms
        if group.protocol_type is not None and group.state is GroupState.EMPTY:
            since_ms = committed.commit_timestamp_ms if group.state_since_ms == NO_TIMESTAMP else group.state_since_ms
        elif group.protocol_type is not None and not (
            group.protocol_type == CONSUMER_PROTOCOL_TYPE
            and group.subscribed_topics is not None
            and group.state is GroupState.STABLE
        ):
            return False
        if group.protocol_type is not None and group.state is not GroupState.EMPTY and group.is_subscribed_to(topic):
            return False
        if self.offsets.is_pending(group.group_id, topic, partition):
            return False
        return committed.is_expired(since_ms, now_ms, self.settings.offsets_retention_ms)


def _answered(waiter: Waiter, response: object) -> Outbox:
    out = Outbox()
    out.reply(waiter, response)
    return out
