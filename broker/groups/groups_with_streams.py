"""The groups of one shard, of all protocols: classic, consumer and streams groups (KIP-1071).

A group id names one group of one kind. Requests of the other kinds about a streams group, and the other way round, are
decided here.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from klamm.broker.coordinator.outbox import Outbox, Waiter, Written
from klamm.broker.groups.classic_group import GroupState
from klamm.broker.groups.classic_protocol import TimerKey
from klamm.broker.groups.classic_requests import Join
from klamm.broker.groups.consumer import heartbeat as consumer_heartbeat
from klamm.broker.groups.consumer.hosted import Client
from klamm.broker.groups.consumer.hosted import Cluster as ConsumerCluster
from klamm.broker.groups.limits import MAX_GROUP_BYTES, MAX_GROUPS, MAX_STREAMS_BYTES
from klamm.broker.groups.offsets import write_tombstone
from klamm.broker.groups.settings import GroupSettings
from klamm.broker.groups.share.group import ShareGroup
from klamm.broker.groups.share.hosted import ShareCluster, write
from klamm.broker.groups.share.shard import GroupsWithShare
from klamm.broker.groups.streams.checks import JOINING_EPOCH
from klamm.broker.groups.streams.describe import describe
from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.groups.streams.heartbeat import OtherKind, handle_heartbeat, refused
from klamm.broker.groups.streams.hosted import Cluster, StreamsGroups
from klamm.broker.groups.streams.in_cluster import TopicsWithout
from klamm.broker.groups.streams.internal_topics import InternalTopic
from klamm.broker.groups.streams.outcome import Outcome
from klamm.broker.groups.streams.records import no_group
from klamm.broker.groups.streams_offsets import StreamsOffsets
from klamm.controller.configs import shortened
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.groups.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from klamm.protocol.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from klamm.protocol.messages.groups.delete_groups import DeletableGroupResult
from klamm.protocol.messages.groups.describe_groups import DescribedGroup
from klamm.protocol.messages.groups.join_group import JoinGroupResponse
from klamm.protocol.messages.groups.list_groups import ListedGroup, ListGroupsResponse
from klamm.protocol.messages.streams.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from klamm.protocol.records.coordinator.groups import OffsetCommitKey, OffsetCommitValue

STREAMS_TYPE: Final = "streams"
_FILTERED_STATES: Final = {"NotReady": "not_ready"}
"""States that ListGroups knows by another name than that which it shows, as in Kafka."""


@dataclass(frozen=True, slots=True)
class Creation:
    """What becomes of the internal topics that a heartbeat's answer calls missing."""

    hidden: Collection[str] = ()
    """The request creates these: it is decided as if they were not there yet."""
    remark: str = ""
    """Why they are not created, for the answer."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat, who sends it, and what it creates."""

    request: StreamsGroupHeartbeatRequest
    client: Client
    creation: Creation = field(default_factory=Creation)


class GroupsWithStreams(GroupsWithShare):
    """The groups and offsets of one shard (a `CoordinatorState`)."""

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        consumer_cluster: ConsumerCluster,
        share_cluster: ShareCluster,
        cluster: Cluster,
    ) -> None:
        super().__init__(settings, new_id, consumer_cluster, share_cluster)
        self.streams = StreamsGroups(cluster, self.timers)
        self.offset_protocol = StreamsOffsets(
            self.groups, self.offsets, self.classic, settings, self.consumer, self.share, self.streams
        )

    # -- streams groups --------------------------------------------------------------------------------------------

    def missing_topics(self, beat: Beat, now_ms: int) -> Mapping[str, InternalTopic]:
        """The internal topics that this heartbeat would have created. Changes nothing."""
        if beat.request.member_epoch < JOINING_EPOCH or self._knows_its_topics(beat.request.group_id):
            return {}
        outcome = self._decide(beat, now_ms)
        return {} if isinstance(outcome, ApiError) else outcome.missing_topics

    def _knows_its_topics(self, group_id: str) -> bool:
        """The topics of the group were all there when they were last looked at, and none has changed since."""
        group = self.streams.groups.get(group_id)
        if group is None or group.soft.configured is None or not group.soft.configured.is_ready:
            return False
        return group.soft.compared == (self.streams.cluster.changes.count, group.metadata_hash)

    def streams_heartbeat(self, beat: Beat, waiter: Waiter, now_ms: int) -> Outbox:
        """StreamsGroupHeartbeat."""
        outcome = self._decide(beat, now_ms)
        if isinstance(outcome, ApiError):
            out = Outbox()
            out.reply(waiter, refused(outcome))
            return out
        return self.streams.settle(beat.request.group_id, outcome, now_ms, waiter)

    def _decide(self, beat: Beat, now_ms: int) -> Outcome | ApiError:
        request, streams = beat.request, self.streams
        found = self._find(request.group_id)
        code = self._refuse_room(request, is_new_group=found is None)
        if code:
            return ApiError(code)
        topics = TopicsWithout(streams.cluster.topics(), beat.creation.hidden) if beat.creation.hidden else None
        context = streams.context(
            request.group_id, now_ms, beat.client, topics=topics, creation_remark=beat.creation.remark
        )
        return handle_heartbeat(found, request, context)

    def _find(self, group_id: str) -> StreamsGroup | OtherKind | None:
        found = self.streams.groups.get(group_id)
        if found is not None:
            return found
        classic = self.groups.get(group_id)
        if classic is not None:
            return OtherKind(is_empty_classic=classic.state is GroupState.EMPTY)
        return OtherKind(is_empty_classic=False) if self._is_taken(group_id) else None

    def _is_taken(self, group_id: str) -> bool:
        """A group that is neither classic nor a streams group has the id."""
        return group_id in self.consumer.groups or group_id in self.share.groups

    def _find_share(self, group_id: str) -> ShareGroup | ApiError | None:
        return _not_a("share", group_id) if group_id in self.streams.groups else super()._find_share(group_id)

    def _group_count(self) -> int:
        return super()._group_count() + len(self.streams.groups)

    def _refuse_room(self, request: StreamsGroupHeartbeatRequest, *, is_new_group: bool) -> ErrorCode:
        """Refuses what would exceed the limits of memory (`limits`)."""
        if request.member_epoch != JOINING_EPOCH:
            return ErrorCode.NONE
        if is_new_group and self._group_count() >= MAX_GROUPS:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        size = request_size(request)
        if size > MAX_GROUP_BYTES:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        exceeds = self.streams.bytes_kept + size > MAX_STREAMS_BYTES
        return ErrorCode.GROUP_MAX_SIZE_REACHED if exceeds else ErrorCode.NONE

    def streams_describe(self, group_id: str, waiter: Waiter) -> Outbox:
        """StreamsGroupDescribe for one group: the response is a `DescribedGroup` of that API."""
        out, found = Outbox(), self._find(group_id)
        group = found if isinstance(found, StreamsGroup) else None
        out.reply(waiter, describe(group, found is not None, group_id))
        return out

    # -- requests of other kinds -----------------------------------------------------------------------------------

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, waiter: Waiter, now_ms: int
    ) -> Outbox:
        """ConsumerGroupHeartbeat."""
        if request.group_id not in self.streams.groups:
            return super().consumer_heartbeat(request, client, waiter, now_ms)
        out = Outbox()
        out.reply(waiter, consumer_heartbeat.refused(_not_a("consumer", request.group_id)))
        return out

    def consumer_describe(self, group_id: str, waiter: Waiter) -> Outbox:
        """ConsumerGroupDescribe for one group."""
        if group_id not in self.streams.groups:
            return super().consumer_describe(group_id, waiter)
        out, error = Outbox(), _not_a("consumer", group_id)
        out.reply(waiter, DescribedConsumerGroup(group_id=group_id, error_code=error.code, error_message=error.message))
        return out

    def join(self, group_id: str, asked: Join, now_ms: int) -> Outbox:
        """JoinGroup: an empty streams group becomes a classic one."""
        group = self.streams.groups.get(group_id)
        if group is None:
            return super().join(group_id, asked, now_ms)
        if group.members:
            out = Outbox()
            out.reply(asked.waiter, JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return out
        removed = Outbox()
        write(no_group(group), removed)
        self.streams.forget_delay(group_id)
        out = super().join(group_id, asked, now_ms)
        out.records[:0] = removed.records
        return out

    def describe(self, group_id: str, waiter: Waiter) -> Outbox:
        """DescribeGroups for one group: the response is a `DescribedGroup`."""
        if group_id not in self.streams.groups:
            return super().describe(group_id, waiter)
        out, error = Outbox(), _not_a("classic", group_id)
        out.reply(
            waiter,
            DescribedGroup(
                group_id=group_id,
                error_code=error.code,
                error_message=error.message,
                group_state=GroupState.DEAD.value,
            ),
        )
        return out

    def list_groups(self, states: Collection[str], types: Collection[str], waiter: Waiter) -> Outbox:
        """ListGroups for this shard: the response is a `ListGroupsResponse`. Empty filters let everything pass."""
        out = super().list_groups(states, types, waiter)
        (reply,) = out.replies
        assert isinstance(reply.response, ListGroupsResponse)
        states, types = {state.lower() for state in states}, {kind.lower() for kind in types}
        if not types or STREAMS_TYPE in types:
            listed = [
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=STREAMS_TYPE,
                    group_state=group.state,
                    group_type=STREAMS_TYPE,
                )
                for group in self.streams.groups.values()
                if not states or _FILTERED_STATES.get(group.state, group.state.lower()) in states
            ]
            reply.response.groups = [*reply.response.groups, *listed]
        return out

    def delete(self, group_id: str, waiter: Waiter) -> Outbox:
        """DeleteGroups for one group: the response is a `DeletableGroupResult`."""
        group = self.streams.groups.get(group_id)
        if group is None:
            return super().delete(group_id, waiter)
        out, code = Outbox(), ErrorCode.NON_EMPTY_GROUP if group.members else ErrorCode.NONE
        if not code:
            self.offsets.write_tombstones_of_group(group_id, out)
            write(no_group(group), out)
            self.streams.forget_delay(group_id)
        out.reply(waiter, DeletableGroupResult(group_id=group_id, error_code=code))
        return out

    # -- replay ----------------------------------------------------------------------------------------------------

    def replay(self, key: Message, value: Message | None, written: Written) -> None:
        """Apply one record of the partition."""
        if isinstance(key, OffsetCommitKey) and key.group in self.streams.groups:
            assert value is None or isinstance(value, OffsetCommitValue)
            self.offsets.replay(key, value, written)
        elif self.streams.replay(key, value):
            group_id = key.group_id  # type: ignore[attr-defined]  # keys of streams groups have it
            if value is not None:
                # A classic group of which there were offsets only.
                self.groups.pop(group_id, None)
        else:
            super().replay(key, value, written)

    def loaded(self, now_ms: int) -> Outbox:
        """Begin the sessions of all members."""
        self.streams.start_timers(now_ms)
        return super().loaded(now_ms)

    # -- time ------------------------------------------------------------------------------------------------------

    def _fire(self, key: TimerKey, now_ms: int) -> Outbox:
        outcome = self.streams.fire(key, now_ms)
        return super()._fire(key, now_ms) if outcome is None else self.streams.settle(key[1], outcome, now_ms)

    def _expire_offsets(self, now_ms: int) -> Outbox:
        """Remove expired offsets, then groups that are empty and have no offsets left."""
        out = super()._expire_offsets(now_ms)
        for group_id, group in self.streams.groups.items():
            all_expired = True
            for topic, partitions in self.offsets.of_group(group_id).items():
                for partition, committed in partitions.items():
                    since_ms = committed.commit_timestamp_ms
                    expired = committed.is_expired(since_ms, now_ms, self.settings.offsets_retention_ms)
                    is_used = group.is_subscribed(topic) or self.offsets.is_pending(group_id, topic, partition)
                    if expired and not is_used:
                        write_tombstone(out, group_id, topic, partition)
                    else:
                        all_expired = False
            if all_expired and not group.members and not self.offsets.has_pending(group_id):
                write(no_group(group), out)
        return out


def request_size(request: StreamsGroupHeartbeatRequest) -> int:
    """About how many bytes the records of a heartbeat take that joins."""
    texts = [request.member_id, request.process_id or "", request.rack_id or ""]
    texts += [part for tag in request.client_tags or () for part in (tag.key, tag.value)]
    count = 1
    for each in request.topology.subtopologies if request.topology is not None else ():
        texts += [each.subtopology_id, *each.source_topics, *each.repartition_sink_topics]
        for topic in (*each.state_changelog_topics, *each.repartition_source_topics):
            texts.append(topic.name)
            texts += [part for config in topic.topic_configs for part in (config.key, config.value)]
        count += sum(
            2 + len(group.source_topics) + len(group.repartition_source_topics) for group in each.copartition_groups
        )
    return sum(map(len, texts)) + 8 * (count + len(texts))


def _not_a(kind: str, group_id: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, shortened(f"Group {group_id} is not a {kind} group."))
