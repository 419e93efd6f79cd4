"""The streams groups of one shard: outcomes become outboxes, timers run, soft state is kept beside the records."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from klamm.broker.coordinator.outbox import Outbox, Waiter
from klamm.broker.coordinator.timers import Timers
from klamm.broker.groups.classic_protocol import TimerKey
from klamm.broker.groups.consumer.hosted import Client
from klamm.broker.groups.consumer.topics import Topics
from klamm.broker.groups.limits import MAX_ASSIGNED_TASKS
from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.groups.streams.leaving import expire, timers_when_loaded
from klamm.broker.groups.streams.outcome import Context, Outcome, StreamsSettings, Timer, TimerKind
from klamm.broker.groups.streams.replay import replay
from klamm.broker.topic_changes import TopicChanges
from klamm.controller.answer_room import encoded_at_most
from klamm.protocol.fields import Message
from klamm.protocol.records.coordinator.streams_groups import (
    StreamsGroupMemberMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTopologyKey,
)

_TIMER_KINDS: Final = {kind: f"streams-{kind.value}" for kind in TimerKind}
_KINDS_OF_TIMERS: Final = {text: kind for kind, text in _TIMER_KINDS.items()}
_MEMBER_BYTES: Final = 1_000
"""What a member takes beside its metadata, roughly."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the streams groups of a shard see of the cluster."""

    topics: Callable[[], Topics]
    settings_of: Callable[[str], StreamsSettings]
    """By group id."""
    changes: TopicChanges


class StreamsGroups:
    """The groups by id. Timers are those of the shard; keys of other kinds are others'."""

    def __init__(self, cluster: Cluster, timers: Timers[TimerKey]) -> None:
        self.groups: dict[str, StreamsGroup] = {}
        self.cluster = cluster
        self.bytes_kept = 0
        """The size of topologies and members of all groups (`limits.MAX_STREAMS_BYTES`)."""
        self._target_tasks = 0
        """The tasks in the target assignments of all groups (`limits.MAX_ASSIGNED_TASKS`)."""
        self._timers = timers
        self._running: dict[TimerKey, Timer] = {}
        self._sizes: dict[tuple[str, str | None], int] = {}

    def context(
        self,
        group_id: str,
        now_ms: int,
        client: Client | None = None,
        *,
        topics: Topics | None = None,
        creation_remark: str = "",
    ) -> Context:
        """`topics`: those to see in place of the cluster's, see `groups_with_streams`."""
        group = self.groups.get(group_id)
        others = self._target_tasks - (group.target_tasks if group is not None else 0)
        return Context(
            now_ms=now_ms,
            topics=topics if topics is not None else self.cluster.topics(),
            # Others than the cluster's will be looked at again.
            topic_changes=self.cluster.changes.count if topics is None else -1,
            settings=self.cluster.settings_of(group_id),
            delays_assignment=(_TIMER_KINDS[TimerKind.INITIAL], group_id, "") in self._running,
            may_assign=MAX_ASSIGNED_TASKS - others,
            client_id=client.client_id if client is not None else "",
            client_host=client.client_host if client is not None else "",
            creation_remark=creation_remark,
        )

    def settle(self, group_id: str, outcome: Outcome, now_ms: int, waiter: Waiter | None = None) -> Outbox:
        """Start and stop timers, keep soft state; records and response go to the outbox."""
        out = Outbox()
        for record in outcome.records:
            out.write(record.key, record.value)
        if outcome.response is not None:
            out.reply(waiter, outcome.response)
        for timer in outcome.timers:
            self._apply(group_id, timer, now_ms)
        group = self.groups.get(group_id)
        if group is not None and outcome.soft is not None:
            group.soft = outcome.soft
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
        """What a timer does; None: it is not of a streams group. Has to be settled."""
        kind, group_id, _ = key
        if kind not in _KINDS_OF_TIMERS:
            return None
        timer = self._running.pop(key, None)
        if timer is None:
            return Outcome()
        return expire(self.groups.get(group_id), timer, self.context(group_id, now_ms))

    def forget_delay(self, group_id: str) -> None:
        """The group is removed: its first assignment is not due any more."""
        self._apply(group_id, Timer(TimerKind.INITIAL, "", None), 0)

    def replay(self, key: Message, value: Message | None) -> bool:
        """Apply a record; False: it is none of a streams group."""
        if isinstance(key, StreamsGroupMemberMetadataKey):
            self._measure((key.group_id, key.member_id), value)
        elif isinstance(key, StreamsGroupTopologyKey):
            self._measure((key.group_id, None), value)
        if not isinstance(key, StreamsGroupTargetAssignmentMemberKey):
            return replay(self.groups, key, value)
        before = self._tasks_of(key.group_id)
        replay(self.groups, key, value)
        self._target_tasks += self._tasks_of(key.group_id) - before
        return True

    def _tasks_of(self, group_id: str) -> int:
        group = self.groups.get(group_id)
        return 0 if group is None else group.target_tasks

    def _measure(self, what: tuple[str, str | None], value: Message | None) -> None:
        self.bytes_kept -= self._sizes.pop(what, 0)
        if value is not None:
            size = self._sizes[what] = _MEMBER_BYTES + encoded_at_most(value)
            self.bytes_kept += size

    def start_timers(self, now_ms: int) -> None:
        """After the shard was loaded: all sessions start anew."""
        for group_id, group in self.groups.items():
            for timer in timers_when_loaded(group, self.cluster.settings_of(group_id)):
                self._apply(group_id, timer, now_ms)
