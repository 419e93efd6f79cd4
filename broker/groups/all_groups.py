"""The groups of one shard, of both protocols: classic groups (KIP-62 and its successors) and consumer groups (KIP-848).

A group id names one group of one kind. Classic requests about a consumer group, and the other way round, are decided
here; what concerns one kind only is decided by `Groups` and by `ConsumerGroups`.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from klamm.broker.coordinator.outbox import Outbox, Waiter, Written
from klamm.broker.groups.all_offsets import AllOffsets
from klamm.broker.groups.classic_group import ClassicGroup, GroupState
from klamm.broker.groups.classic_protocol import TimerKey
from klamm.broker.groups.classic_requests import Join
from klamm.broker.groups.consumer import classic_members
from klamm.broker.groups.consumer.conversion import ClassicMemberView, ClassicView
from klamm.broker.groups.consumer.describe import describe
from klamm.broker.groups.consumer.heartbeat import handle_heartbeat, refused
from klamm.broker.groups.consumer.hosted import Client, Cluster, ConsumerGroups, subscription_size
from klamm.broker.groups.consumer.outcome import Downgrade, Outcome
from klamm.broker.groups.consumer.records import Record, no_group
from klamm.broker.groups.groups import Groups
from klamm.broker.groups.limits import MAX_GROUP_BYTES, MAX_GROUPS, MAX_SUBSCRIPTION_BYTES
from klamm.broker.groups.offsets import write_tombstone
from klamm.broker.groups.settings import GroupSettings
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from klamm.protocol.messages.groups.delete_groups import DeletableGroupResult
from klamm.protocol.messages.groups.describe_groups import DescribedGroup
from klamm.protocol.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from klamm.protocol.messages.groups.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from klamm.protocol.messages.groups.leave_group import LeaveGroupRequest
from klamm.protocol.messages.groups.list_groups import ListedGroup, ListGroupsResponse
from klamm.protocol.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from klamm.protocol.records.coordinator.consumer_groups import ClassicProtocol as OfferedProtocol
from klamm.protocol.records.coordinator.groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

CONSUMER_TYPE: Final = "consumer"
DOWNGRADED: Final = "downgraded"
"""The kind of the timer that does what follows when a consumer group has become a classic one."""
_WITHOUT_MEMBER_ID: Final = frozenset({ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_MAX_SIZE_REACHED})
"""Errors of JoinGroup that show the empty member id to a new member."""


class AllGroups(Groups):
    """The groups and offsets of one shard (a `CoordinatorState`)."""

    def __init__(self, settings: GroupSettings, new_id: Callable[[], str], cluster: Cluster) -> None:
        super().__init__(settings, new_id)
        self.consumer = ConsumerGroups(cluster, self.timers)
        self.offset_protocol = AllOffsets(self.groups, self.offsets, self.classic, settings, self.consumer)
        self._becoming_classic: dict[str, tuple[ClassicGroup, bool]] = {}
        """Groups whose records make them classic, and whether they rebalance at once."""

    # -- members of consumer groups --------------------------------------------------------------------------------

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, waiter: Waiter, now_ms: int
    ) -> Outbox:
        """ConsumerGroupHeartbeat."""
        group_id, out = request.group_id, Outbox()
        classic = self.groups.get(group_id)
        found = self.consumer.find(group_id) or (_view(classic) if classic is not None else None)
        code = self._refuse_size(request, is_new_group=found is None)
        if code:
            out.reply(waiter, refused(ApiError(code)))
            return out
        outcome = handle_heartbeat(found, request, self.consumer.context(group_id, now_ms, client))
        if isinstance(outcome, ApiError):
            out.reply(waiter, refused(outcome))
            return out
        out = self._settle(group_id, outcome, now_ms, waiter, client)
        if classic is not None and outcome.records:
            self._answer_waiting(classic, out)
        return out

    def consumer_describe(self, group_id: str, waiter: Waiter) -> Outbox:
        """ConsumerGroupDescribe for one group: the response is a `DescribedGroup` of that API."""
        out, cluster = Outbox(), self.consumer.cluster
        classic = self.groups.get(group_id)
        found = self.consumer.groups.get(group_id) or (_view(classic) if classic is not None else None)
        out.reply(waiter, describe(found, group_id, cluster.topics(), cluster.settings_of(group_id)))
        return out

    def _refuse_size(self, request: ConsumerGroupHeartbeatRequest, *, is_new_group: bool) -> ErrorCode:
        """Refuses what would exceed the limits of memory (`limits`)."""
        if is_new_group and request.member_epoch == 0 and len(self.groups) + len(self.consumer.groups) >= MAX_GROUPS:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return ErrorCode.NONE
        size = subscription_size(request.subscribed_topic_names, request.subscribed_topic_regex)
        if size > MAX_GROUP_BYTES:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        exceeds = self.consumer.subscription_bytes + size > MAX_SUBSCRIPTION_BYTES
        return ErrorCode.GROUP_MAX_SIZE_REACHED if exceeds else ErrorCode.NONE

    def _settle(
        self, group_id: str, outcome: Outcome, now_ms: int, waiter: Waiter | None = None, client: Client | None = None
    ) -> Outbox:
        may_describe = client.may_describe if client is not None else None
        out = self.consumer.settle(group_id, outcome, now_ms, waiter, may_describe)
        if outcome.downgrade is not None:
            self._become_classic(group_id, outcome, outcome.downgrade, now_ms)
        return out

    def _become_classic(self, group_id: str, outcome: Outcome, downgrade: Downgrade, now_ms: int) -> None:
        record = outcome.records[-1]
        assert isinstance(record.key, GroupMetadataKey)
        assert isinstance(record.value, GroupMetadataValue)
        group = ClassicGroup.from_record(record.key, record.value)
        for member_id, offered in downgrade.protocols.items():
            member = group.members[member_id]
            protocols = {one.name: bytes(one.metadata) for one in offered}
            group.update(member, protocols, member.rebalance_timeout_ms, member.session_timeout_ms, None)
        self._becoming_classic[group_id] = group, downgrade.rebalance
        self.timers.set((DOWNGRADED, group_id, ""), now_ms)

    @staticmethod
    def _answer_waiting(classic: ClassicGroup, out: Outbox) -> None:
        """The group is no classic one any more: its members have to join again."""
        again = ErrorCode.REBALANCE_IN_PROGRESS
        for member in classic.in_order():
            out.reply(
                classic.take_awaiting_join(member), JoinGroupResponse(member_id=member.member_id, error_code=again)
            )
            waiting, member.awaiting_sync = member.awaiting_sync, None
            out.reply(waiting, SyncGroupResponse(error_code=again))

    # -- classic requests ------------------------------------------------------------------------------------------

    def join(self, group_id: str, asked: Join, now_ms: int) -> Outbox:
        """JoinGroup."""
        group = self.consumer.find(group_id)
        if group is None:
            return super().join(group_id, asked, now_ms)
        if not group.members:
            removed = Outbox()
            _write(no_group(group), removed)
            out = super().join(group_id, asked, now_ms)
            out.records[:0] = removed.records
            return out
        size = subscription_size((), None) + sum(map(len, asked.protocols.values()))
        if self.consumer.subscription_bytes + size > MAX_SUBSCRIPTION_BYTES:
            out = Outbox()
            out.reply(asked.waiter, JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))
            return out
        client = Client(asked.client_id, asked.client_host, 4 if asked.requires_known_member_id else 0, lambda _: False)
        outcome = classic_members.join(
            group, _request_of(group_id, asked), self.consumer.context(group_id, now_ms, client)
        )
        if isinstance(outcome, ApiError):
            out = Outbox()
            hidden = outcome.code is ErrorCode.UNKNOWN_SERVER_ERROR or (
                not asked.member_id and outcome.code in _WITHOUT_MEMBER_ID
            )
            member_id = "" if hidden else asked.member_id
            out.reply(asked.waiter, JoinGroupResponse(member_id=member_id, error_code=outcome.code))
            return out
        return self._settle(group_id, outcome, now_ms, asked.waiter, client)

    def sync(self, request: SyncGroupRequest, waiter: Waiter, now_ms: int) -> Outbox:
        """SyncGroup."""
        group_id = request.group_id
        group = self.consumer.find(group_id)
        if group is None:
            return super().sync(request, waiter, now_ms)
        outcome = classic_members.sync(group, request, self.consumer.context(group_id, now_ms))
        if isinstance(outcome, ApiError):
            outcome = Outcome(SyncGroupResponse(error_code=outcome.code))
        return self._settle(group_id, outcome, now_ms, waiter)

    def heartbeat(self, request: HeartbeatRequest, waiter: Waiter, now_ms: int) -> Outbox:
        """Heartbeat."""
        group = self.consumer.find(request.group_id)
        if group is None:
            return super().heartbeat(request, waiter, now_ms)
        outcome = classic_members.heartbeat(group, request)
        if isinstance(outcome, ApiError):
            outcome = Outcome(HeartbeatResponse(error_code=outcome.code))
        return self._settle(request.group_id, outcome, now_ms, waiter)

    def leave(self, request: LeaveGroupRequest, waiter: Waiter, now_ms: int) -> Outbox:
        """LeaveGroup, with its members as a list in every version."""
        group_id = request.group_id
        group = self.consumer.find(group_id)
        if group is None:
            return super().leave(request, waiter, now_ms)
        outcome = classic_members.leave(group, request.members, self.consumer.context(group_id, now_ms))
        return self._settle(group_id, outcome, now_ms, waiter)

    # -- administration --------------------------------------------------------------------------------------------

    def describe(self, group_id: str, waiter: Waiter) -> Outbox:
        """DescribeGroups for one group: the response is a `DescribedGroup`."""
        if group_id not in self.consumer.groups:
            return super().describe(group_id, waiter)
        out = Outbox()
        described = DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} is not a classic group.",
            group_state=GroupState.DEAD.value,
        )
        out.reply(waiter, described)
        return out

    def list_groups(self, states: Collection[str], types: Collection[str], waiter: Waiter) -> Outbox:
        """ListGroups for this shard: the response is a `ListGroupsResponse`. Empty filters let everything pass."""
        out = super().list_groups(states, types, waiter)
        (reply,) = out.replies
        assert isinstance(reply.response, ListGroupsResponse)
        states, types = {state.lower() for state in states}, {kind.lower() for kind in types}
        listed = [
            ListedGroup(
                group_id=group.group_id, protocol_type=CONSUMER_TYPE, group_state=group.state, group_type=CONSUMER_TYPE
            )
            for group in self.consumer.groups.values()
            if (not states or group.state.lower() in states) and (not types or CONSUMER_TYPE in types)
        ]
        reply.response.groups = [*reply.response.groups, *listed]
        return out

    def delete(self, group_id: str, waiter: Waiter) -> Outbox:
        """DeleteGroups for one group: the response is a `DeletableGroupResult`."""
        group = self.consumer.groups.get(group_id)
        if group is None:
            return super().delete(group_id, waiter)
        out, code = Outbox(), ErrorCode.NON_EMPTY_GROUP if group.members else ErrorCode.NONE
        if not code:
            self.offsets.write_tombstones_of_group(group_id, out)
            _write(no_group(group), out)
        out.reply(waiter, DeletableGroupResult(group_id=group_id, error_code=code))
        return out

    # -- replay ----------------------------------------------------------------------------------------------------

    def replay(self, key: Message, value: Message | None, written: Written) -> None:
        """Apply one record of the partition."""
        if isinstance(key, OffsetCommitKey) and key.group in self.consumer.groups:
            assert value is None or isinstance(value, OffsetCommitValue)
            self.offsets.replay(key, value, written)
        elif isinstance(key, GroupMetadataKey) and value is not None and key.group in self._becoming_classic:
            self.groups[key.group], _ = self._becoming_classic[key.group]
        elif self.consumer.replay(key, value, written):
            group_id = key.group_id  # type: ignore[attr-defined]  # keys of consumer groups have it
            if group_id in self.consumer.groups:
                # A classic group of which there were offsets only.
                self.groups.pop(group_id, None)
        else:
            super().replay(key, value, written)

    def loaded(self, now_ms: int) -> Outbox:
        """Begin the sessions of all members."""
        self.consumer.start_timers(now_ms)
        return super().loaded(now_ms)

    # -- time ------------------------------------------------------------------------------------------------------

    def _fire(self, key: TimerKey, now_ms: int) -> Outbox:
        kind, group_id, _ = key
        if kind == DOWNGRADED:
            return self._after_downgrade(group_id, now_ms)
        outcome = self.consumer.fire(key, now_ms)
        return super()._fire(key, now_ms) if outcome is None else self._settle(group_id, outcome, now_ms)

    def _after_downgrade(self, group_id: str, now_ms: int) -> Outbox:
        _, rebalance = self._becoming_classic.pop(group_id, (None, False))
        group = self.groups.get(group_id)
        return Outbox() if group is None else self.classic.take_over(group, now_ms, rebalance=rebalance)

    def _expire_offsets(self, now_ms: int) -> Outbox:
        """Remove expired offsets, then groups that are empty and have no offsets left."""
        out = super()._expire_offsets(now_ms)
        for group_id, group in self.consumer.groups.items():
            is_subscribed, all_expired = self.consumer.is_subscribed(group), True
            for topic, partitions in self.offsets.of_group(group_id).items():
                for partition, committed in partitions.items():
                    since_ms = committed.commit_timestamp_ms
                    expired = committed.is_expired(since_ms, now_ms, self.settings.offsets_retention_ms)
                    if expired and not is_subscribed(topic) and not self.offsets.is_pending(group_id, topic, partition):
                        write_tombstone(out, group_id, topic, partition)
                    else:
                        all_expired = False
            if all_expired and not group.members and not self.offsets.has_pending(group_id):
                _write(no_group(group), out)
        return out


def _write(records: Iterable[Record], out: Outbox) -> None:
    for record in records:
        out.write(record.key, record.value)


def _view(group: ClassicGroup) -> ClassicView:
    return ClassicView(
        group_id=group.group_id,
        generation=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        members=[
            ClassicMemberView(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                protocols=[
                    OfferedProtocol(name=name, metadata=metadata) for name, metadata in member.protocols.items()
                ],
                assignment=member.assignment,
            )
            for member in group.in_order()
        ],
    )


def _request_of(group_id: str, asked: Join) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=asked.session_timeout_ms,
        rebalance_timeout_ms=asked.rebalance_timeout_ms,
        member_id=asked.member_id,
        group_instance_id=asked.instance_id,
        protocol_type=asked.protocol_type,
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in asked.protocols.items()
        ],
    )
