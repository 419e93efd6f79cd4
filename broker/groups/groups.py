"""The state machine of one partition of `__consumer_offsets`: its groups and their offsets.

Each operation takes the time and gives an outbox. Order of the checks: Kafka's GroupMetadataManager and
OffsetMetadataManager.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from klamm.broker.coordinator.outbox import Outbox, Waiter, Written
from klamm.broker.coordinator.timers import Timers
from klamm.broker.groups.classic_group import CONSUMER_PROTOCOL_TYPE, NO_TIMESTAMP, ClassicGroup, GroupState
from klamm.broker.groups.classic_protocol import ClassicProtocol, Join, TimerKey
from klamm.broker.groups.limits import MAX_GROUPS, MAX_OFFSETS, MAX_PENDING_MEMBERS
from klamm.broker.groups.offsets import NO_EPOCH, NO_OFFSET, CommittedOffset, Offsets, write_offset, write_tombstone
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
from klamm.protocol.uuid import ZERO_UUID, Uuid

CLASSIC_TYPE: Final = "classic"
EXPIRY: Final = "expiry"
"""The kind of the timer that removes expired offsets. Its key has no group."""
FIRST_COMMIT_VERSION_WITH_GROUP_ID_NOT_FOUND: Final = 9
UNKNOWN = CommittedOffset(NO_OFFSET, NO_EPOCH, "", NO_TIMESTAMP, NO_TIMESTAMP, ZERO_UUID, NO_OFFSET)
"""What OffsetFetch shows for a partition without a committed offset."""


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset to commit for one partition."""

    topic_name: str
    topic_id: Uuid
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


@dataclass(frozen=True, slots=True)
class Committer:
    """Who commits. `generation_id` is -1 for a commit outside of a generation."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation_id: int


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads offsets: the member and its epoch, as far as the request says."""

    member_id: str | None
    member_epoch: int


ANYONE: Final = Reader(None, -1)


@dataclass(frozen=True, slots=True)
class Committed:
    """The outcome of a commit: error codes by topic name and partition, in the order of the commits."""

    codes: Mapping[tuple[str, int], ErrorCode]


@dataclass(frozen=True, slots=True)
class FetchedOffsets:
    """The outcome of a fetch: by topic name, pairs of a partition and its offset, in the order of the request. An error
    code stands in place of an offset that is unstable."""

    offsets: Mapping[str, Sequence[tuple[int, CommittedOffset | ErrorCode]]]


class Groups:
    """The groups and offsets of one shard (a `CoordinatorState`)."""

    def __init__(self, settings: GroupSettings, new_id: Callable[[], str]) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()
        self.timers: Timers[TimerKey] = Timers()
        self.settings = settings
        self.classic = ClassicProtocol(settings, self.timers, new_id)

    # -- members ---------------------------------------------------------------------------------------------------

    def join(self, group_id: str, asked: Join, now_ms: int) -> Outbox:
        """JoinGroup."""
        group = self.groups.get(group_id)
        is_new_group = group is None
        if group is None:
            code = ErrorCode.UNKNOWN_MEMBER_ID if asked.member_id else ErrorCode.NONE
            if not code and len(self.groups) >= MAX_GROUPS:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if code:
                return _answered(asked.waiter, JoinGroupResponse(member_id=asked.member_id, error_code=code))
            group = self.groups[group_id] = ClassicGroup(group_id, state_since_ms=now_ms)
        elif not asked.member_id and len(group.pending_members) >= MAX_PENDING_MEMBERS:
            return _answered(asked.waiter, JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))
        return self.classic.join(group, asked, is_new_group=is_new_group, now_ms=now_ms)

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

    # -- offsets ---------------------------------------------------------------------------------------------------

    def commit(
        self,
        committer: Committer,
        commits: Sequence[Commit],
        waiter: Waiter,
        now_ms: int,
        *,
        api_version: int,
        retention_ms: int = -1,
    ) -> Outbox:
        """OffsetCommit: the response is a `Committed`. `retention_ms`: the offsets expire after this time; -1: by the
        group's rule."""
        out = Outbox()
        group = self.groups.get(committer.group_id)
        if group is None and committer.generation_id >= 0:
            is_known = api_version >= FIRST_COMMIT_VERSION_WITH_GROUP_ID_NOT_FOUND
            out.refuse(waiter, ErrorCode.GROUP_ID_NOT_FOUND if is_known else ErrorCode.ILLEGAL_GENERATION)
            return out
        code = _refuse_commit(group, committer) if group else ErrorCode.NONE
        if group is None and len(self.groups) >= MAX_GROUPS:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if code:
            out.refuse(waiter, code)
            return out
        if group and committer.generation_id >= 0:
            self.classic.touch(group, committer.member_id, now_ms)
        expire_ms = NO_TIMESTAMP if retention_ms == -1 else now_ms + retention_ms
        self._write_commits(out, committer.group_id, commits, waiter, now_ms, expire_ms)
        return out

    def commit_in_transaction(
        self,
        committer: Committer,
        commits: Sequence[Commit],
        waiter: Waiter,
        now_ms: int,
        *,
        producer_id: int,
        producer_epoch: int,
    ) -> Outbox:
        """TxnOffsetCommit: like `commit`; the offsets are pending until the producer's transaction ends."""
        out = Outbox(producer_id=producer_id, producer_epoch=producer_epoch)
        group = self.groups.get(committer.group_id)
        code = ErrorCode.NONE
        if group is not None:
            code = _refuse_commit(group, committer, in_transaction=True)
        elif committer.generation_id >= 0:
            code = ErrorCode.ILLEGAL_GENERATION
        if code:
            out.refuse(waiter, code)
            return out
        self._write_commits(out, committer.group_id, commits, waiter, now_ms, NO_TIMESTAMP)
        return out

    def _write_commits(
        self,
        out: Outbox,
        group_id: str,
        commits: Sequence[Commit],
        waiter: Waiter,
        now_ms: int,
        expire_ms: int,
        refused: Mapping[tuple[str, int], ErrorCode] = MappingProxyType({}),
    ) -> None:
        """`refused` has what the group does not accept, by topic name and partition."""
        codes = {}
        for one in commits:
            code = refused.get((one.topic_name, one.partition), ErrorCode.NONE)
            if code:
                pass
            elif utf16_length(one.metadata) > self.settings.offset_metadata_max_bytes:
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            elif self.offsets.count + len(out.records) >= MAX_OFFSETS and not self.offsets.find(
                group_id, one.topic_name, one.partition
            ):
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            else:
                write_offset(
                    out,
                    group_id,
                    one.topic_name,
                    one.partition,
                    one.offset,
                    leader_epoch=one.leader_epoch,
                    metadata=one.metadata,
                    now_ms=now_ms,
                    expire_timestamp_ms=expire_ms,
                    topic_id=one.topic_id,
                )
            codes[one.topic_name, one.partition] = code
        out.reply(waiter, Committed(codes))

    def fetch(
        self,
        group_id: str,
        wanted: Mapping[str, Sequence[int]] | None,
        waiter: Waiter,
        *,
        require_stable: bool,
        reader: Reader = ANYONE,
    ) -> Outbox:
        """OffsetFetch for one group: the response is a `FetchedOffsets`. `wanted` has partitions by topic name; None:
        all that the group has committed. With `require_stable` offsets that an open transaction changes are
        UNSTABLE_OFFSET_COMMIT. `reader` counts in consumer groups only."""
        known = self.offsets.of_group(group_id)
        if wanted is None:
            wanted = {topic: list(partitions) for topic, partitions in known.items()}
        found: dict[str, list[tuple[int, CommittedOffset | ErrorCode]]] = {}
        for topic, partitions in wanted.items():
            of_topic, shown = known.get(topic, {}), found.setdefault(topic, [])
            for partition in partitions:
                if require_stable and self.offsets.is_pending(group_id, topic, partition):
                    shown.append((partition, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                else:
                    shown.append((partition, of_topic.get(partition, UNKNOWN)))
        return _answered(waiter, FetchedOffsets(found))

    def delete_offsets(self, group_id: str, wanted: Mapping[str, Sequence[int]], waiter: Waiter) -> Outbox:
        """OffsetDelete: the response is a `Committed`."""
        out = Outbox()
        group = self.groups.get(group_id)
        if group is None:
            out.refuse(waiter, ErrorCode.GROUP_ID_NOT_FOUND)
            return out
        if group.state is not GroupState.EMPTY and not group.uses_consumer_protocol:
            out.refuse(waiter, ErrorCode.NON_EMPTY_GROUP)
            return out
        return self._delete_unless(group.is_subscribed_to, group_id, wanted, waiter)

    def _delete_unless(
        self, is_subscribed_to: Callable[[str], bool], group_id: str, wanted: Mapping[str, Sequence[int]], waiter: Waiter
    ) -> Outbox:
        """Remove the offsets of the topics that members are not subscribed to."""
        out, codes = Outbox(), {}
        for topic, partitions in wanted.items():
            is_subscribed = is_subscribed_to(topic)
            for partition in partitions:
                codes[topic, partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
                is_known = self.offsets.find(group_id, topic, partition) is not None
                if not is_subscribed and (is_known or self.offsets.is_pending(group_id, topic, partition)):
                    write_tombstone(out, group_id, topic, partition)
        out.reply(waiter, Committed(codes))
        return out

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


def utf16_length(text: str) -> int:
    """The number of UTF-16 units: the length of a Java string."""
    return len(text) + sum(character > "\uffff" for character in text)


def _answered(waiter: Waiter, response: object) -> Outbox:
    out = Outbox()
    out.reply(waiter, response)
    return out


def _refuse_commit(group: ClassicGroup, committer: Committer, *, in_transaction: bool = False) -> ErrorCode:
    """Why a group does not accept a commit; NONE if it does."""
    generation_id = committer.generation_id
    if generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation_id >= 0 or committer.member_id or committer.instance_id is not None:
        code = group.validate_member(committer.member_id, committer.instance_id)
        if code:
            return code
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
    elif not in_transaction and group.state is not GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not in_transaction and group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
