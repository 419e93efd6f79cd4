"""The groups of one shard, of both protocols: classic groups (KIP-62 and its successors) and consumer groups (KIP-848).

A group id names one group of one kind. Classic requests about a consumer group, and the other way round, are decided
here; what concerns one kind only is decided by `Groups` and by `ConsumerGroups`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from klamm.broker.coordinator.outbox import Outbox, Waiter, Written
from klamm.broker.groups.classic_group import ClassicGroup, Member
from klamm.broker.groups.classic_protocol import Join
from klamm.broker.groups.consumer import classic_members, offsets
from klamm.broker.groups.consumer.conversion import ClassicMemberView, ClassicView
from klamm.broker.groups.consumer.describe import describe
from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.consumer.heartbeat import handle_heartbeat, refused
from klamm.broker.groups.consumer.hosted import Client, Cluster, ConsumerGroups
from klamm.broker.groups.consumer.outcome import Downgrade, Outcome
from klamm.broker.groups.consumer.records import no_group
from klamm.broker.groups.groups import Commit, Committed, Committer, Groups
from klamm.broker.groups.limits import MAX_GROUPS
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
from klamm.protocol.records.coordinator.groups import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from klamm.protocol.uuid import Uuid

CONSUMER_TYPE: Final = "consumer"
DOWNGRADED: Final = "downgraded"
"""The kind of the timer that does what follows when a consumer group has become a classic one."""
_WITHOUT_MEMBER_ID: Final = frozenset(
    {ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_MAX_SIZE_REACHED}
)
"""Errors of JoinGroup that show the empty member id to a new member."""


class AllGroups(Groups):
    """The groups and offsets of one shard (a `CoordinatorState`)."""

    def __init__(self, settings: GroupSettings, new_id: Callable[[], str], cluster: Cluster) -> None:
        super().__init__(settings, new_id)
        self.consumer = ConsumerGroups(cluster, self.timers)
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
        if found is None and self._is_full:
            out.refuse(waiter, ErrorCode.COORDINATOR_NOT_AVAILABLE)
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

    @property
    def _is_full(self) -> bool:
        return len(self.groups) + len(self.consumer.groups) >= MAX_GROUPS

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
            protocols = {one.name: one.metadata for one in offered}
            group.update(group.members[member_id], protocols)
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
            # What removes the empty group is written with the records of the join, if any.
            removed = Outbox()
            for record in no_group(group):
                removed.write(record.key, record.value)
            out = super().join(group_id, asked, now_ms)
            out.records[:0] = removed.records
            return out
        client = Client(asked.client_id, asked.client_host, 4 if asked.requires_known_member_id else 0, lambda _: False)
        outcome = classic_members.join(
            group, _request_of(group_id, asked), self.consumer.context(group_id, now_ms, client)
        )
        if isinstance(outcome, ApiError):
            out = Outbox()
            hidden = not asked.member_id and outcome.code in _WITHOUT_MEMBER_ID
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
        """OffsetCommit: the response is a `Committed`."""
        group = self.consumer.groups.get(committer.group_id)
        if group is None:
            return super().commit(
                committer, commits, waiter, now_ms, api_version=api_version, retention_ms=retention_ms
            )
        return self._commit_to_consumer(group, committer, commits, waiter, now_ms, Outbox(), api_version=api_version)

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
        group = self.consumer.groups.get(committer.group_id)
        if group is None:
            return super().commit_in_transaction(
                committer, commits, waiter, now_ms, producer_id=producer_id, producer_epoch=producer_epoch
            )
        out = Outbox(producer_id=producer_id, producer_epoch=producer_epoch)
        return self._commit_to_consumer(group, committer, commits, waiter, now_ms, out, api_version=0)

    def _commit_to_consumer(
        self,
        group: ConsumerGroup,
        committer: Committer,
        commits: Sequence[Commit],
        waiter: Waiter,
        now_ms: int,
        out: Outbox,
        *,
        api_version: int,
    ) -> Outbox:
        transactional = out.producer_id != -1
        asked = offsets.Committer(
            committer.member_id, committer.instance_id, committer.generation_id, api_version, transactional
        )
        checked = offsets.check_commit(group, asked)
        errors: dict[tuple[str, int], ErrorCode] = {}
        if callable(checked):
            topics = self.consumer.cluster.topics()
            for one in commits:
                topic = topics.named(one.topic_name)
                refusal = checked(topic.topic_id if topic is not None else one.topic_id, one.partition)
                if refusal is not None:
                    errors[one.topic_name, one.partition] = _commit_code(refusal, transactional=transactional)
        elif checked is not None:
            out.refuse(waiter, _commit_code(checked, transactional=transactional))
            return out
        rest = [one for one in commits if (one.topic_name, one.partition) not in errors]
        self._write_commits(out, committer.group_id, rest, None, now_ms, -1)
        written: Mapping[tuple[str, int], ErrorCode] = _reply_codes(out, rest)
        out.reply(waiter, Committed({**written, **errors}))
        return out
