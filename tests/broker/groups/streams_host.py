"""A shard with streams groups without a partition: records are replayed at once, timers run on a clock by hand."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from klamm.broker.coordinator.outbox import Outbox, Written
from klamm.broker.groups.consumer.hosted import Client
from klamm.broker.groups.consumer.hosted import Cluster as ConsumerCluster
from klamm.broker.groups.consumer.outcome import GroupSettings as ConsumerSettings
from klamm.broker.groups.groups_with_streams import Beat, Creation, GroupsWithStreams
from klamm.broker.groups.offset_protocol import Commit, Committer
from klamm.broker.groups.share.hosted import ShareCluster
from klamm.broker.groups.share.outcome import ShareGroupSettings
from klamm.broker.groups.streams.checks import check_request
from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.groups.streams.heartbeat import refused
from klamm.broker.groups.streams.hosted import Cluster
from klamm.broker.groups.streams.outcome import StreamsSettings
from klamm.broker.topic_changes import TopicChanges
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.streams.streams_group_describe import DescribedGroup
from klamm.protocol.messages.streams.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from klamm.protocol.uuid import ZERO_UUID
from tests.broker.groups.consumer_host import TopicTable
from tests.broker.groups.test_all_groups import CLASSIC, Answered

GROUP = "g"
SETTINGS = StreamsSettings(session_timeout_ms=3_000, assignment_interval_ms=0, initial_rebalance_delay_ms=0, max_size=9)


def topology(*sources: str, changelogs: tuple[str, ...] = (), epoch: int = 0) -> Topology:
    """One subtopology."""
    infos = [TopicInfo(name=name) for name in changelogs]
    one = Subtopology(subtopology_id="0", source_topics=list(sources), state_changelog_topics=infos)
    return Topology(epoch=epoch, subtopologies=[one])


def listed(tasks: dict[str, set[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=sorted(tasks[name])) for name in sorted(tasks)]


class StreamsShard:
    """`log` has the written records."""

    def __init__(self, settings: StreamsSettings = SETTINGS) -> None:
        self.settings = settings
        self.topics = TopicTable()
        self.changes = TopicChanges()
        self.now_ms = 1_000
        self.log: list[tuple[Message, Message | None]] = []
        self.state = self.new_state()

    def new_state(self) -> GroupsWithStreams:
        ids = iter(range(1_000_000))
        consumer = ConsumerCluster(
            lambda: self.topics, lambda _: ConsumerSettings(), self.changes, lambda: f"made-{next(ids)}"
        )
        return GroupsWithStreams(
            CLASSIC,
            lambda: f"id-{next(ids)}",
            consumer,
            ShareCluster(lambda: self.topics, lambda _: ShareGroupSettings(), self.changes),
            Cluster(lambda: self.topics, lambda _: self.settings, self.changes),
        )

    @property
    def group(self) -> StreamsGroup:
        return self.state.streams.groups[GROUP]

    def create(self, name: str, partitions: int) -> None:
        self.topics.create(name, partitions)
        self.changes.count += 1

    def grow(self, name: str, partitions: int) -> None:
        self.topics.grow(name, partitions)
        self.changes.count += 1

    def remove(self, name: str) -> None:
        self.topics.delete(name)
        self.changes.count += 1

    def run(self, operation: Callable[[Answered], Outbox]) -> Any:
        waiter = Answered()
        self.settle(operation(waiter))
        return waiter.response

    def pass_time(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        while (outbox := self.state.tick(self.now_ms)) is not None:
            self.settle(outbox)

    def settle(self, outbox: Outbox) -> None:
        for record in outbox.records:
            self.log.append((record.key, record.value))
            written = Written(len(self.log), self.now_ms, outbox.producer_id, outbox.producer_epoch, live=True)
            self.state.replay(record.key, record.value, written)
        for reply in outbox.replies:
            if reply.response is None:
                reply.waiter.refuse(reply.code)
            else:
                reply.waiter.resolve(reply.response)

    def reload(self) -> None:
        """The partition moves: another coordinator loads the records."""
        self.state = self.new_state()
        for offset, (key, value) in enumerate(self.log):
            self.state.replay(key, value, Written(offset, 0))
        self.settle(self.state.loaded(self.now_ms))

    def beat(
        self,
        member_id: str,
        epoch: int = 0,
        *,
        active: dict[str, set[int]] | None = None,
        standby: dict[str, set[int]] | None = None,
        remark: str = "",
        **fields: Any,
    ) -> StreamsGroupHeartbeatResponse:
        """A heartbeat; one that joins has `t` as its only source, unless `topology` is given."""
        given: dict[str, Any] = {"group_id": GROUP, "member_id": member_id, "member_epoch": epoch}
        if epoch == 0:
            given |= {"rebalance_timeout_ms": 2_000, "topology": topology("t"), "process_id": f"p-{member_id}"}
            active, standby = {}, {}
        if active is not None:
            given |= {"active_tasks": listed(active), "standby_tasks": listed(standby or {}), "warmup_tasks": []}
        request = StreamsGroupHeartbeatRequest(**{**given, **fields})
        refusal = check_request(request)
        if refusal is not None:
            return refused(refusal)
        beat = Beat(request, Client("c", "/127.0.0.1", 0, lambda _: False), Creation(remark=remark))
        response = self.run(lambda waiter: self.state.streams_heartbeat(beat, waiter, self.now_ms))
        assert isinstance(response, StreamsGroupHeartbeatResponse)
        return response

    def commit(self, member_id: str, epoch: int, *partitions: int, version: int = 9, topic: str = "t") -> Any:
        """The distinct codes of the partitions, or that of the request."""
        committer = Committer(GROUP, member_id, None, epoch)
        commits = [Commit(topic, ZERO_UUID, partition, 5, -1, "") for partition in partitions]
        response = self.run(
            lambda waiter: self.state.offset_protocol.commit(
                committer, commits, waiter, self.now_ms, api_version=version
            )
        )
        return response if isinstance(response, ErrorCode) else set(response.codes.values())

    def describe(self, group_id: str = GROUP) -> DescribedGroup:
        described = self.run(lambda waiter: self.state.streams_describe(group_id, waiter))
        assert isinstance(described, DescribedGroup)
        return described

    def configure(self, **changed: Any) -> None:
        self.settings = replace(self.settings, **changed)
