"""A coordinator of consumer groups without a log: outcomes are replayed at once, timers run on a clock by hand."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from klamm.broker.groups.consumer.classic_members import heartbeat as classic_heartbeat
from klamm.broker.groups.consumer.classic_members import join as classic_join
from klamm.broker.groups.consumer.classic_members import leave as classic_leave
from klamm.broker.groups.consumer.classic_members import sync as classic_sync
from klamm.broker.groups.consumer.conversion import ClassicView
from klamm.broker.groups.consumer.describe import describe
from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.consumer.heartbeat import check_request, handle_heartbeat, refused
from klamm.broker.groups.consumer.leaving import expire
from klamm.broker.groups.consumer.outcome import Context, GroupSettings, Outcome, Timer, TimerKind
from klamm.broker.groups.consumer.records import Record, whole_group
from klamm.broker.groups.consumer.regexes import record_resolved, resolve_in_steps
from klamm.broker.groups.consumer.replay import replay
from klamm.broker.groups.consumer.topics import Topic
from klamm.protocol.errors import ApiError
from klamm.protocol.messages.groups.consumer_group_describe import DescribedGroup
from klamm.protocol.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from klamm.protocol.messages.groups.heartbeat import HeartbeatRequest
from klamm.protocol.messages.groups.join_group import JoinGroupRequest
from klamm.protocol.messages.groups.leave_group import MemberIdentity
from klamm.protocol.messages.groups.sync_group import SyncGroupRequest
from klamm.protocol.uuid import Uuid


@dataclass(slots=True)
class TopicTable:
    """The topics of a cluster, changed by hand."""

    version: int = 0
    version_of_newest_topic: int = 0
    by_name: dict[str, Topic] = field(default_factory=dict)

    def create(self, name: str, partitions: int) -> Topic:
        self.version += 1
        self.version_of_newest_topic = self.version
        topic = Topic(Uuid(self.version.to_bytes(16)), name, partitions)
        self.by_name[name] = topic
        return topic

    def grow(self, name: str, partitions: int) -> None:
        self.version += 1
        self.by_name[name] = replace(self.by_name[name], partitions=partitions)

    def delete(self, name: str) -> None:
        self.version += 1
        del self.by_name[name]

    def named(self, name: str) -> Topic | None:
        return self.by_name.get(name)

    def with_id(self, topic_id: Uuid) -> Topic | None:
        return next((topic for topic in self.by_name.values() if topic.topic_id == topic_id), None)

    def names(self) -> Iterable[str]:
        return self.by_name

    def fingerprint(self, topic: Topic) -> bytes:
        return repr(topic).encode()


class ConsumerHost:
    """Groups by id; `log` has all records that were written, `classic` what classic groups there are."""

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.topics = TopicTable()
        self.groups: dict[str, ConsumerGroup] = {}
        self.classic: dict[str, ClassicView] = {}
        self.log: list[Record] = []
        self.now_ms = 1_000_000
        self._timers: dict[tuple[str, str, TimerKind], tuple[int, Timer]] = {}
        self._ids = 0
        self.downgrades: list[Outcome] = []

    def context(self, version: int = 1) -> Context:
        return Context(
            now_ms=self.now_ms,
            topics=self.topics,
            settings=self.settings,
            new_member_id=self._new_id,
            client_id="rec",
            client_host="/127.0.0.1",
            api_version=version,
        )

    def _new_id(self) -> str:
        self._ids += 1
        return f"made-{self._ids}"

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, version: int = 1) -> ConsumerGroupHeartbeatResponse:
        found = self.groups.get(request.group_id) or self.classic.get(request.group_id)
        refusal = check_request(request, version, self.settings.assignors)
        outcome = refusal or handle_heartbeat(found, request, self.context(version))
        if isinstance(outcome, ApiError):
            return refused(outcome)
        if isinstance(found, ClassicView):
            del self.classic[request.group_id]
        self.settle(request.group_id, outcome)
        assert isinstance(outcome.response, ConsumerGroupHeartbeatResponse)
        return outcome.response

    def classic_request(
        self, group_id: str, request: JoinGroupRequest | SyncGroupRequest | HeartbeatRequest, version: int = 9
    ) -> object:
        """The response, or the ApiError."""
        group, context = self.groups[group_id], self.context(version)
        if isinstance(request, JoinGroupRequest):
            outcome = classic_join(group, request, context)
        elif isinstance(request, SyncGroupRequest):
            outcome = classic_sync(group, request, context)
        else:
            outcome = classic_heartbeat(group, request)
        if isinstance(outcome, ApiError):
            return outcome
        self.settle(group_id, outcome)
        return outcome.response

    def classic_leave(self, group_id: str, identities: Sequence[MemberIdentity]) -> object:
        outcome = classic_leave(self.groups[group_id], identities, self.context())
        self.settle(group_id, outcome)
        return outcome.response

    def describe(self, group_id: str) -> DescribedGroup:
        found = self.groups.get(group_id) or self.classic.get(group_id)
        return describe(found, group_id, self.topics, self.settings)

    def settle(self, group_id: str, outcome: Outcome) -> None:
        for record in outcome.records:
            self.log.append(record)
            replay(self.groups, record.key, record.value)
        group = self.groups.get(group_id)
        if group is not None and outcome.refreshed_at is not None:
            group.metadata_refreshed_at = outcome.refreshed_at
        if outcome.downgrade is not None:
            self.downgrades.append(outcome)
        for timer in outcome.timers:
            key = group_id, timer.member_id, timer.kind
            if timer.delay_ms is None:
                self._timers.pop(key, None)
            elif not (timer.keeps_running and key in self._timers):
                self._timers[key] = self.now_ms + timer.delay_ms, timer
        if outcome.regexes_to_resolve and group is not None:
            steps = resolve_in_steps(outcome.regexes_to_resolve, self.topics, self.now_ms, lambda name: True, 1)
            for found in steps:
                if found is not None:
                    self.settle(group_id, record_resolved(group, found, self.topics))

    def topics_changed(self) -> None:
        for group in self.groups.values():
            group.metadata_refreshed_at = None

    def sleep(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while self._timers:
            key = min(self._timers, key=lambda each: self._timers[each][0])
            due_ms, timer = self._timers[key]
            if due_ms > end_ms:
                break
            del self._timers[key]
            self.now_ms = max(self.now_ms, due_ms)
            self.settle(key[0], expire(self.groups.get(key[0]), timer, self.context()))
        self.now_ms = end_ms


def same(first: ConsumerGroup, second: ConsumerGroup) -> bool:
    """Two groups have the same state: what their records are made of, and what is counted of it."""
    names = [name for name in ConsumerGroup.__slots__ if name != "metadata_refreshed_at"]
    return all(getattr(first, name) == getattr(second, name) for name in names) and whole_group(first) == whole_group(
        second
    )
