"""The groups of one shard with share groups among them: a group id is of one kind of group.

A share group is never converted: requests of the other protocols are refused, and share members are refused by groups
of the other kinds, empty ones included.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from klamm.broker.coordinator.outbox import Outbox, Waiter, Written
from klamm.broker.groups.all_groups import AllGroups
from klamm.broker.groups.classic_group import GroupState
from klamm.broker.groups.classic_protocol import TimerKey
from klamm.broker.groups.classic_requests import Join
from klamm.broker.groups.consumer.heartbeat import refused as refused_consumer
from klamm.broker.groups.consumer.hosted import Client, Cluster, subscription_size
from klamm.broker.groups.limits import MAX_GROUP_BYTES, MAX_GROUPS, MAX_SUBSCRIPTION_BYTES
from klamm.broker.groups.settings import GroupSettings
from klamm.broker.groups.share import records
from klamm.broker.groups.share.describe import describe
from klamm.broker.groups.share.group import ShareGroup
from klamm.broker.groups.share.heartbeat import handle_heartbeat, refused
from klamm.broker.groups.share.hosted import ShareCluster, ShareGroups, write
from klamm.broker.groups.share.offsets import StateDeletion, alter_offsets, delete_offsets, state_to_delete
from klamm.broker.groups.share.share_offsets import OffsetsWithShareGroups
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.groups.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from klamm.protocol.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from klamm.protocol.messages.groups.delete_groups import DeletableGroupResult
from klamm.protocol.messages.groups.describe_groups import DescribedGroup
from klamm.protocol.messages.groups.join_group import JoinGroupResponse
from klamm.protocol.messages.groups.list_groups import ListedGroup, ListGroupsResponse
from klamm.protocol.messages.shares.alter_share_group_offsets import AlterShareGroupOffsetsRequestTopic
from klamm.protocol.messages.shares.share_group_describe import DescribedGroup as DescribedShareGroup
from klamm.protocol.messages.shares.share_group_heartbeat import ShareGroupHeartbeatRequest

SHARE_TYPE = "share"


class GroupsWithShare(AllGroups):
    """The groups and offsets of one shard (a `CoordinatorState`), share groups included."""

    def __init__(
        self, settings: GroupSettings, new_id: Callable[[], str], cluster: Cluster, share_cluster: ShareCluster
    ) -> None:
        super().__init__(settings, new_id, cluster)
        self.share = ShareGroups(share_cluster, self.timers)
        self.offset_protocol = OffsetsWithShareGroups(
            self.groups, self.offsets, self.classic, settings, self.consumer, self.share
        )

    # -- share groups ----------------------------------------------------------------------------------------------

    def _find_share(self, group_id: str) -> ShareGroup | ApiError | None:
        """The share group; None: no group has this id."""
        if group_id in self.groups or group_id in self.consumer.groups:
            return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        return self.share.find(group_id)

    def share_heartbeat(
        self, request: ShareGroupHeartbeatRequest, client_id: str, client_host: str, waiter: Waiter, now_ms: int
    ) -> Outbox:
        """ShareGroupHeartbeat."""
        out, group_id = Outbox(), request.group_id
        found = self._find_share(group_id)
        if isinstance(found, ApiError):
            out.reply(waiter, refused(found))
            return out
        code = self._refuse_share_size(request, is_new_group=found is None)
        if code:
            out.reply(waiter, refused(ApiError(code)))
            return out
        outcome = handle_heartbeat(found, request, self.share.context(group_id, now_ms, client_id, client_host))
        if isinstance(outcome, ApiError):
            out.reply(waiter, refused(outcome))
            return out
        return self.share.settle(group_id, outcome, now_ms, waiter)

    def _refuse_share_size(self, request: ShareGroupHeartbeatRequest, *, is_new_group: bool) -> ErrorCode:
        """Refuses what would exceed the limits of memory (`limits`)."""
        if is_new_group and request.member_epoch == 0 and self._group_count() >= MAX_GROUPS:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if request.subscribed_topic_names is None:
            return ErrorCode.NONE
        size = subscription_size(request.subscribed_topic_names, None)
        if size > MAX_GROUP_BYTES:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        exceeds = self.share.subscription_bytes + size > MAX_SUBSCRIPTION_BYTES
        return ErrorCode.GROUP_MAX_SIZE_REACHED if exceeds else ErrorCode.NONE

    def _group_count(self) -> int:
        return len(self.groups) + len(self.consumer.groups) + len(self.share.groups)

    def share_describe(self, group_id: str, waiter: Waiter) -> Outbox:
        """ShareGroupDescribe for one group: the response is a `DescribedGroup` of that API."""
        out, found = Outbox(), self._find_share(group_id)
        if found is None:
            found = ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if isinstance(found, ApiError):
            out.reply(
                waiter, DescribedShareGroup(group_id=group_id, error_code=found.code, error_message=found.message)
            )
        else:
            out.reply(waiter, describe(found, self.share.cluster.topics()))
        return out

    def initialized_partitions(self, group_id: str, waiter: Waiter) -> Outbox:
        """The partitions with state, as a `dict` by topic id."""
        out, group = Outbox(), self.share.groups.get(group_id)
        known = group.state_topics if group is not None else None
        topics = known.initialized if known is not None else {}
        out.reply(waiter, {topic_id: tuple(sorted(found.partitions)) for topic_id, found in topics.items()})
        return out

    def alter_share_offsets(
        self, group_id: str, topics: Sequence[AlterShareGroupOffsetsRequestTopic], waiter: Waiter, now_ms: int
    ) -> Outbox:
        """The first half of AlterShareGroupOffsets: the response is an `Alteration` or an `ApiError`."""
        out, found = Outbox(), self._find_share(group_id)
        refusal = found if isinstance(found, ApiError) else self._no_room(found)
        if refusal is not None or isinstance(found, ApiError):
            out.reply(waiter, refusal)
            return out
        altered = alter_offsets(found, group_id, topics, self.share.context(group_id, now_ms))
        if not isinstance(altered, ApiError):
            write(altered.records, out)
        out.reply(waiter, altered)
        return out

    def _no_room(self, found: ShareGroup | None) -> ApiError | None:
        if found is None and self._group_count() >= MAX_GROUPS:
            return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return None

    def delete_share_offsets(self, group_id: str, topic_names: Iterable[str], waiter: Waiter, now_ms: int) -> Outbox:
        """The first half of DeleteShareGroupOffsets: the response is a `StateDeletion` or an `ApiError`."""
        out, found = Outbox(), self._find_share(group_id)
        if isinstance(found, ApiError):
            out.reply(waiter, found)
            return out
        deletion = delete_offsets(found, group_id, topic_names, self.share.context(group_id, now_ms))
        if isinstance(deletion, StateDeletion):
            write(deletion.records, out)
        out.reply(waiter, deletion)
        return out

    # -- requests of other protocols -------------------------------------------------------------------------------

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, waiter: Waiter, now_ms: int
    ) -> Outbox:
        """ConsumerGroupHeartbeat."""
        if request.group_id not in self.share.groups:
            return super().consumer_heartbeat(request, client, waiter, now_ms)
        out = Outbox()
        out.reply(waiter, refused_consumer(_not_of_kind(request.group_id, "consumer")))
        return out

    def consumer_describe(self, group_id: str, waiter: Waiter) -> Outbox:
        """ConsumerGroupDescribe for one group."""
        if group_id not in self.share.groups:
            return super().consumer_describe(group_id, waiter)
        out, refusal = Outbox(), _not_of_kind(group_id, "consumer")
        out.reply(
            waiter,
            DescribedConsumerGroup(group_id=group_id, error_code=refusal.code, error_message=refusal.message),
        )
        return out

    def join(self, group_id: str, asked: Join, now_ms: int) -> Outbox:
        """JoinGroup."""
        if group_id not in self.share.groups:
            return super().join(group_id, asked, now_ms)
        out = Outbox()
        out.reply(asked.waiter, JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return out

    def describe(self, group_id: str, waiter: Waiter) -> Outbox:
        """DescribeGroups for one group."""
        if group_id not in self.share.groups:
            return super().describe(group_id, waiter)
        out, refusal = Outbox(), _not_of_kind(group_id, "classic")
        described = DescribedGroup(
            group_id=group_id,
            error_code=refusal.code,
            error_message=refusal.message,
            group_state=GroupState.DEAD.value,
        )
        out.reply(waiter, described)
        return out

    # -- administration --------------------------------------------------------------------------------------------

    def list_groups(self, states: Collection[str], types: Collection[str], waiter: Waiter) -> Outbox:
        """ListGroups for this shard."""
        out = super().list_groups(states, types, waiter)
        (reply,) = out.replies
        assert isinstance(reply.response, ListGroupsResponse)
        states, types = {state.lower() for state in states}, {kind.lower() for kind in types}
        listed = [
            ListedGroup(
                group_id=group.group_id, protocol_type=SHARE_TYPE, group_state=group.state, group_type=SHARE_TYPE
            )
            for group in self.share.groups.values()
            if (not states or group.state.lower() in states) and (not types or SHARE_TYPE in types)
        ]
        reply.response.groups = [*reply.response.groups, *listed]
        return out

    def begin_delete(self, group_id: str, waiter: Waiter, now_ms: int) -> Outbox:
        """The first half of DeleteGroups for one group. The response is a `DeletableGroupResult`, or, for a share
        group, the `StateDeletion` that comes before `delete`."""
        group = self.share.groups.get(group_id)
        if group is None or group.members:
            return self.delete(group_id, waiter)
        out = Outbox()
        deletion = state_to_delete(group, self.share.context(group_id, now_ms))
        write(deletion.records, out)
        out.reply(waiter, deletion)
        return out

    def delete(self, group_id: str, waiter: Waiter) -> Outbox:
        """DeleteGroups for one group: the response is a `DeletableGroupResult`."""
        group = self.share.groups.get(group_id)
        if group is None:
            return super().delete(group_id, waiter)
        out, code = Outbox(), ErrorCode.NON_EMPTY_GROUP if group.members else ErrorCode.NONE
        if not code:
            write(records.no_group(group), out)
        out.reply(waiter, DeletableGroupResult(group_id=group_id, error_code=code))
        return out

    # -- replay and time -------------------------------------------------------------------------------------------

    def replay(self, key: Message, value: Message | None, written: Written) -> None:
        """Apply one record of the partition."""
        if not self.share.replay(key, value, written):
            super().replay(key, value, written)

    def loaded(self, now_ms: int) -> Outbox:
        """Begin the sessions of all members, and forget what was deleted while no coordinator was loaded."""
        self.share.start_timers(now_ms)
        out = super().loaded(now_ms)
        self.share.topics_removed(out)
        return out

    def topics_removed(self, names: Iterable[str]) -> Outbox:
        """Remove what is kept about deleted topics."""
        out = super().topics_removed(names)
        self.share.topics_removed(out)
        return out

    def _fire(self, key: TimerKey, now_ms: int) -> Outbox:
        out = self.share.fire(key, now_ms)
        return super()._fire(key, now_ms) if out is None else out


def _not_of_kind(group_id: str, kind: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind} group.")
