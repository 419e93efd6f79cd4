"""A shard with share groups without a log: records are replayed at once, the share coordinator answers when the test
says so, and timers run on a clock by hand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from klamm.broker.coordinator.outbox import Outbox, Written
from klamm.broker.groups.consumer.hosted import Cluster as ConsumerCluster
from klamm.broker.groups.consumer.outcome import GroupSettings as ConsumerSettings
from klamm.broker.groups.share.group import ShareGroup
from klamm.broker.groups.share.heartbeat import check_request, refused
from klamm.broker.groups.share.hosted import ShareCluster
from klamm.broker.groups.share.outcome import Initialization, ShareGroupSettings
from klamm.broker.groups.share.shard import GroupsWithShare
from klamm.broker.topic_changes import TopicChanges
from klamm.protocol.fields import Message
from klamm.protocol.messages.shares.share_group_heartbeat import ShareGroupHeartbeatRequest
from klamm.protocol.uuid import Uuid
from tests.broker.groups.consumer_host import TopicTable
from tests.broker.groups.test_all_groups import CLASSIC, Answered

GROUP = "g"


class ShareShard:
    """`log` has the records of the last operation."""

    def __init__(self, **settings: int) -> None:
        self.settings = replace(ShareGroupSettings(assignment_interval_ms=0), **settings)
        self.topics = TopicTable()
        self.changes = TopicChanges()
        self.now_ms = 1_000
        self.all: list[tuple[Message, Message | None, int]] = []
        self.log: list[tuple[Message, Message | None]] = []
        self.state = self._new_state()

    def _new_state(self) -> GroupsWithShare:
        ids = iter(range(1_000_000))
        consumer = ConsumerCluster(
            lambda: self.topics, lambda _: ConsumerSettings(), self.changes, lambda: f"made-{next(ids)}"
        )
        shares = ShareCluster(lambda: self.topics, lambda _: self.settings, self.changes)
        return GroupsWithShare(CLASSIC, lambda: f"id-{next(ids)}", consumer, shares)

    @property
    def group(self) -> ShareGroup:
        return self.state.share.groups[GROUP]

    @property
    def records(self) -> list[str]:
        """The kinds of the records of the last operation; `-` before those that remove something."""
        return [
            ("" if value is not None else "-") + type(key).__name__.removeprefix("ShareGroup").removesuffix("Key")
            for key, value in self.log
        ]

    def value(self, kind: str) -> Any:
        """The last record of a kind in the last operation."""
        return [value for key, value in self.log if type(key).__name__ == f"ShareGroup{kind}Key"][-1]

    def create(self, name: str, partitions: int) -> Uuid:
        self.changes.count += 1
        return self.topics.create(name, partitions).topic_id

    def grow(self, name: str, partitions: int) -> None:
        self.changes.count += 1
        self.topics.grow(name, partitions)

    def remove(self, name: str) -> None:
        self.changes.count += 1
        self.topics.delete(name)
        self.settle(self.state.topics_removed([name]))

    def run(self, operation: Callable[[Answered], Outbox]) -> Any:
        waiter = Answered()
        self.settle(operation(waiter))
        return waiter.response

    def settle(self, outbox: Outbox) -> None:
        self.log = [(record.key, record.value) for record in outbox.records]
        for key, value in self.log:
            self.all.append((key, value, self.now_ms))
            self.state.replay(key, value, Written(len(self.all), self.now_ms, live=True))
        for written in outbox.on_written:
            written()
        for reply in outbox.replies:
            if reply.response is None:
                reply.waiter.refuse(reply.code)
            else:
                reply.waiter.resolve(reply.response)

    def pass_time(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        while (outbox := self.state.tick(self.now_ms)) is not None:
            self.settle(outbox)

    def beat(self, member_id: str, epoch: int, topics: Sequence[str] | None = None, **fields: Any) -> Any:
        request = ShareGroupHeartbeatRequest(
            **{
                "group_id": GROUP,
                "member_id": member_id,
                "member_epoch": epoch,
                "subscribed_topic_names": topics,
                **fields,
            }
        )
        refusal = check_request(request)
        if refusal is not None:
            return refused(refusal)
        return self.run(lambda waiter: self.state.share_heartbeat(request, "c", "/127.0.0.1", waiter, self.now_ms))

    def asked(self) -> Initialization:
        """What the share coordinator is asked."""
        return self.state.share.to_initialize.popleft()

    def coordinator_has(self, *, is_done: bool = True) -> None:
        """The share coordinator answers what it was asked."""
        wanted = self.asked()
        places: Mapping[Uuid, tuple[int, ...]] = {one: tuple(found) for one, found in wanted.start_offsets.items()}
        if is_done:
            self.settle(self.state.share.initialized(wanted.group_id, places, self.now_ms))
        else:
            self.settle(self.state.share.not_initialized(wanted.group_id, places))

    def join(self, member_id: str, *topics: str) -> Any:
        """The heartbeat by which a member gets its partitions."""
        joined = self.beat(member_id, 0, topics)
        while self.state.share.to_initialize:
            self.coordinator_has()
        return self.beat(member_id, joined.member_epoch)

    def describe(self) -> Any:
        return self.run(lambda waiter: self.state.share_describe(GROUP, waiter))

    def reload(self) -> None:
        """The partition moves: another coordinator loads the records."""
        self.state = self._new_state()
        for offset, (key, value, timestamp_ms) in enumerate(self.all):
            self.state.replay(key, value, Written(offset, timestamp_ms))
        self.settle(self.state.loaded(self.now_ms))


def given(answer: Any) -> list[tuple[str, list[int]]] | None:
    """The partitions of an assignment by the last byte of the topic's id; None: there is no assignment."""
    if answer.assignment is None:
        return None
    return [(bytes(topic.topic_id)[-1:].hex(), list(topic.partitions)) for topic in answer.assignment.topic_partitions]
