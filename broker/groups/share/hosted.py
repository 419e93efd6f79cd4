"""The share groups of one shard: outcomes become outboxes, sessions end, initializations wait to be carried out."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from klamm.broker.coordinator.outbox import Outbox, Waiter, Written
from klamm.broker.coordinator.timers import Timers
from klamm.broker.groups.classic_protocol import TimerKey
from klamm.broker.groups.consumer.hosted import subscription_size
from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.consumer.topics import Topics
from klamm.broker.groups.share import records
from klamm.broker.groups.share.group import ShareGroup, StateTopics
from klamm.broker.groups.share.heartbeat import without_member
from klamm.broker.groups.share.outcome import Initialization, ShareContext, ShareGroupSettings, ShareOutcome
from klamm.broker.groups.share.replay import replay
from klamm.broker.groups.share.state_partitions import with_initialized, without, without_deleted_topics
from klamm.broker.topic_changes import TopicChanges
from klamm.protocol.fields import Message
from klamm.protocol.records.coordinator.share_groups import ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue
from klamm.protocol.uuid import Uuid

SESSION: Final = "share-session"
"""The kind of the timer that removes a member whose heartbeats stay away."""


@dataclass(frozen=True, slots=True)
class ShareCluster:
    """What the share groups of a shard see of the cluster."""

    topics: Callable[[], Topics]
    settings_of: Callable[[str], ShareGroupSettings]
    """By group id."""
    changes: TopicChanges


class ShareGroups:
    """The share groups by id. Timers are those of the shard; keys of other kinds are others'."""

    def __init__(self, cluster: ShareCluster, timers: Timers[TimerKey]) -> None:
        self.groups: dict[str, ShareGroup] = {}
        self.cluster = cluster
        self.to_initialize: deque[Initialization] = deque()
        """What the share coordinator is to be asked; `klamm.broker.share_state.initializer` takes it from here."""
        self.subscription_bytes = 0
        """The size of the subscriptions of all members (`limits.MAX_SUBSCRIPTION_BYTES`)."""
        self._timers = timers
        self._sizes: dict[tuple[str, str], int] = {}
        self._compared: dict[str, int] = {}
        """By group: the count of topic changes at which its topics' metadata were last compared."""

    def context(self, group_id: str, now_ms: int, client_id: str = "", client_host: str = "") -> ShareContext:
        return ShareContext(now_ms, self.cluster.topics(), self.cluster.settings_of(group_id), client_id, client_host)

    def find(self, group_id: str) -> ShareGroup | None:
        """The group, which knows by then if topics have changed."""
        group = self.groups.get(group_id)
        if group is not None and self._compared.get(group_id) != self.cluster.changes.count:
            group.metadata_refreshed_at = None
        return group

    def settle(self, group_id: str, outcome: ShareOutcome, now_ms: int, waiter: Waiter | None = None) -> Outbox:
        """Start and stop sessions; records and response go to the outbox."""
        out = Outbox()
        write(outcome.records, out)
        if outcome.response is not None:
            out.reply(waiter, outcome.response)
        if outcome.session_of is not None:
            timeout_ms = self.cluster.settings_of(group_id).session_timeout_ms
            self._timers.set((SESSION, group_id, outcome.session_of), now_ms + timeout_ms)
        if outcome.without_session is not None:
            self._timers.cancel((SESSION, group_id, outcome.without_session))
        if outcome.refreshed_at is not None:
            self._compared[group_id] = self.cluster.changes.count
            group = self.groups.get(group_id)
            if group is not None:
                group.metadata_refreshed_at = outcome.refreshed_at
        if outcome.initialization is not None:
            self.initialize_when_written(outcome.initialization, out)
        return out

    def initialize_when_written(self, initialization: Initialization, out: Outbox) -> None:
        out.on_written.append(lambda: self.to_initialize.append(initialization))

    def fire(self, key: TimerKey, now_ms: int) -> Outbox | None:
        """What a timer does; None: it is not of a share group."""
        kind, group_id, member_id = key
        if kind != SESSION:
            return None
        group = self.find(group_id)
        if group is None or member_id not in group.members:
            return Outbox()
        return self.settle(group_id, without_member(group, member_id, self.context(group_id, now_ms)), now_ms)

    def initialized(self, group_id: str, done: Mapping[Uuid, Iterable[int]], now_ms: int) -> Outbox:
        """The share coordinator has the state of these partitions."""
        group, out = self.groups.get(group_id), Outbox()
        if group is not None and done:
            becomes = with_initialized(group.state_topics, done, self.cluster.topics(), now_ms)
            write([records.state_topics(group_id, becomes)], out)
        return out

    def not_initialized(self, group_id: str, failed: Mapping[Uuid, Iterable[int]]) -> Outbox:
        """The share coordinator did not take the state of these partitions: a later heartbeat asks again."""
        group, out = self.groups.get(group_id), Outbox()
        known = group.state_topics if group is not None else None
        if known is not None and known.initializing and failed:
            becomes = StateTopics(without(known.initializing, failed), known.initialized, known.deleting)
            write([records.state_topics(group_id, becomes)], out)
        return out

    def deleted(self, group_id: str, topic_ids: Iterable[Uuid]) -> Outbox:
        """The share coordinator has deleted the state of these topics."""
        group, out = self.groups.get(group_id), Outbox()
        known = group.state_topics if group is not None else None
        if known is not None:
            gone = frozenset(topic_ids)
            deleting = {topic_id: name for topic_id, name in known.deleting.items() if topic_id not in gone}
            becomes = StateTopics(known.initializing, known.initialized, deleting)
            write([records.state_topics(group_id, becomes)], out)
        return out

    def topics_removed(self, out: Outbox) -> None:
        """Forget the state of topics that were deleted."""
        topics = self.cluster.topics()
        for group_id, group in self.groups.items():
            left = without_deleted_topics(group.state_topics, topics) if group.state_topics is not None else None
            if left is not None:
                write([records.state_topics(group_id, left)], out)

    def replay(self, key: Message, value: Message | None, written: Written) -> bool:
        """Apply a record; False: it is none of a share group."""
        before = len(self.groups)
        if isinstance(key, ShareGroupMemberMetadataKey):
            assert value is None or isinstance(value, ShareGroupMemberMetadataValue)
            self._measure((key.group_id, key.member_id), value)
        if not replay(self.groups, key, value, written.timestamp_ms):
            return False
        if len(self.groups) < before:
            self._compared.pop(key.group_id, None)  # type: ignore[attr-defined]  # keys of share groups have it
        elif len(self.groups) > before and written.live:
            # The request that made the group has compared the topics' metadata.
            group = next(reversed(self.groups.values()))
            if self._compared.get(group.group_id) == self.cluster.changes.count:
                group.metadata_refreshed_at = group.group_epoch
        return True

    def _measure(self, member: tuple[str, str], value: ShareGroupMemberMetadataValue | None) -> None:
        self.subscription_bytes -= self._sizes.pop(member, 0)
        if value is not None:
            self._sizes[member] = subscription_size(value.subscribed_topic_names, None)
            self.subscription_bytes += self._sizes[member]

    def start_timers(self, now_ms: int) -> None:
        """After the shard was loaded: all sessions start anew."""
        for group_id, group in self.groups.items():
            timeout_ms = self.cluster.settings_of(group_id).session_timeout_ms
            for member_id in group.members:
                self._timers.set((SESSION, group_id, member_id), now_ms + timeout_ms)


def write(written: Iterable[Record], out: Outbox) -> None:
    for record in written:
        out.write(record.key, record.value)
