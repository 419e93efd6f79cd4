"""The consumer groups of one shard: outcomes become outboxes, timers run, regular expressions are resolved in steps."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from klamm.broker.coordinator.outbox import Outbox, Waiter, Written
from klamm.broker.coordinator.timers import Timers
from klamm.broker.groups.classic_protocol import TimerKey
from klamm.broker.groups.consumer import regexes
from klamm.broker.groups.consumer.group import ConsumerGroup, ResolvedRegex
from klamm.broker.groups.consumer.leaving import expire, timers_when_loaded
from klamm.broker.groups.consumer.outcome import Context, GroupSettings, Outcome, Timer, TimerKind
from klamm.broker.groups.consumer.replay import replay
from klamm.broker.groups.consumer.topics import Topics
from klamm.broker.topic_changes import TopicChanges
from klamm.protocol.fields import Message
from klamm.protocol.records.coordinator.consumer_groups import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)

RESOLUTION: Final = "consumer-regexes"
"""The kind of the timer that does the next step of resolving a group's regular expressions."""
_TIMER_KINDS: Final = {kind: f"consumer-{kind.value}" for kind in TimerKind}
_KINDS_OF_TIMERS: Final = {text: kind for kind, text in _TIMER_KINDS.items()}
RESOLUTION_STEP: Final = 1_000
"""Names that one step matches, about 10 ms of work."""


@dataclass(frozen=True, slots=True)
class Client:
    """What a coordinator knows of the client of a request, beside the request."""

    client_id: str
    client_host: str
    api_version: int
    may_describe: Callable[[str], bool]
    """Whether it may describe the topic of this name."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the groups of a shard see of the cluster."""

    topics: Callable[[], Topics]
    settings_of: Callable[[str], GroupSettings]
    """By group id."""
    changes: TopicChanges
    new_member_id: Callable[[], str]


def subscription_size(topic_names: Iterable[str] | None, regex: str | None) -> int:
    """About how many bytes a subscription takes, with what every member takes."""
    return 500 + sum(50 + len(name) for name in topic_names or ()) + len(regex or "")


class ConsumerGroups:
    """The groups by id. Timers are those of the shard; keys of other kinds are others'."""

    def __init__(self, cluster: Cluster, timers: Timers[TimerKey]) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self.cluster = cluster
        self._timers = timers
        self._running: dict[TimerKey, Timer] = {}
        self._resolutions: dict[str, Iterator[dict[str, ResolvedRegex] | None]] = {}
        self.subscription_bytes = 0
        """The size of the subscriptions of all members (`limits.MAX_SUBSCRIPTION_BYTES`)."""
        self._sizes: dict[tuple[str, str], int] = {}
        self._compared: dict[str, int] = {}
        """By group: the count of topic changes at which its topics' metadata were last compared."""

    def context(self, group_id: str, now_ms: int, client: Client | None = None) -> Context:
        if client is None:
            client = Client("", "", 0, lambda _: False)
        return Context(
            now_ms=now_ms,
            topics=self.cluster.topics(),
            settings=self.cluster.settings_of(group_id),
            new_member_id=self.cluster.new_member_id,
            client_id=client.client_id,
            client_host=client.client_host,
            api_version=client.api_version,
        )

    def find(self, group_id: str) -> ConsumerGroup | None:
        """The group, which knows by then if topics have changed."""
        group = self.groups.get(group_id)
        if group is not None and self._compared.get(group_id) != self.cluster.changes.count:
            group.metadata_refreshed_at = None
        return group

    def settle(
        self,
        group_id: str,
        outcome: Outcome,
        now_ms: int,
        waiter: Waiter | None = None,
        may_describe: Callable[[str], bool] | None = None,
    ) -> Outbox:
        """Start and stop timers, begin to resolve regular expressions; records and response go to the outbox."""
        out = Outbox()
        for record in outcome.records:
            out.write(record.key, record.value)
        if outcome.response is not None:
            out.reply(waiter, outcome.response)
        for timer in outcome.timers:
            self._apply(group_id, timer, now_ms)
        if outcome.refreshed_at is not None:
            self._compared[group_id] = self.cluster.changes.count
            group, epoch = self.groups.get(group_id), outcome.refreshed_at
            if group is not None:
                group.metadata_refreshed_at = epoch
        if outcome.regexes_to_resolve and group_id not in self._resolutions and may_describe is not None:
            self._resolutions[group_id] = regexes.resolve_in_steps(
                outcome.regexes_to_resolve, self.cluster.topics(), now_ms, may_describe, RESOLUTION_STEP
            )
            self._timers.set((RESOLUTION, group_id, ""), now_ms)
        return out

    def _apply(self, group_id: str, timer: Timer, now_ms: int) -> None:
        key = _TIMER_KINDS[timer.kind], group_id, timer.member_id
        if timer.delay_ms is None:
            self._running.pop(key, None)
            self._timers.cancel(key)
        elif not (timer.keeps_running and key in self._running):
            self._running[key] = timer
            self._timers.set(key, now_ms + timer.delay_ms)

    def fire(self, key: TimerKey, now_ms: int) -> Outcome | None:
        """What a timer does; None: it is not of a consumer group. Has to be settled."""
        kind, group_id, _ = key
        if kind == RESOLUTION:
            return self._resolve(group_id, now_ms)
        if kind not in _KINDS_OF_TIMERS:
            return None
        timer = self._running.pop(key, None)
        return Outcome() if timer is None else expire(self.find(group_id), timer, self.context(group_id, now_ms))

    def _resolve(self, group_id: str, now_ms: int) -> Outcome:
        resolution, group = self._resolutions.get(group_id), self.find(group_id)
        found = next(resolution) if resolution is not None and group is not None else {}
        if found is None:
            # Others are served before the next step.
            self._timers.set((RESOLUTION, group_id, ""), now_ms + 1)
            return Outcome()
        self._resolutions.pop(group_id, None)
        return regexes.record_resolved(group, found, self.cluster.topics()) if group is not None else Outcome()

    def replay(self, key: Message, value: Message | None, written: Written) -> bool:
        """Apply a record; False: it is none of a consumer group."""
        before = len(self.groups)
        if isinstance(key, ConsumerGroupMemberMetadataKey):
            assert value is None or isinstance(value, ConsumerGroupMemberMetadataValue)
            self._measure((key.group_id, key.member_id), value)
        if not replay(self.groups, key, value):
            return False
        if len(self.groups) < before:
            group_id = key.group_id  # type: ignore[attr-defined]  # keys of consumer groups have it
            self._compared.pop(group_id, None)
            self._resolutions.pop(group_id, None)
        elif len(self.groups) > before and written.live:
            # The request that made the group has compared the topics' metadata.
            group = next(reversed(self.groups.values()))
            if self._compared.get(group.group_id) == self.cluster.changes.count:
                group.metadata_refreshed_at = group.group_epoch
        return True

    def _measure(self, member: tuple[str, str], value: ConsumerGroupMemberMetadataValue | None) -> None:
        self.subscription_bytes -= self._sizes.pop(member, 0)
        if value is not None:
            size = subscription_size(value.subscribed_topic_names, value.subscribed_topic_regex)
            for protocol in value.classic_member_metadata.supported_protocols if value.classic_member_metadata else ():
                size += len(protocol.metadata)
            self._sizes[member] = size
            self.subscription_bytes += size

    def start_timers(self, now_ms: int) -> None:
        """After the shard was loaded: all sessions start anew."""
        for group_id, group in self.groups.items():
            for timer in timers_when_loaded(group, self.context(group_id, now_ms)):
                self._apply(group_id, timer, now_ms)

    @staticmethod
    def is_subscribed(group: ConsumerGroup) -> Callable[[str], bool]:
        """Whether a member of the group is subscribed to the topic of a name."""
        return lambda name: name in group.topic_name_counts or name in group.resolved_topic_counts
