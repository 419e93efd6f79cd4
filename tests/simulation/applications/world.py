"""A cluster with applications on it, without sockets: brokers that come and go, a network that loses answers, time.

An application is a generator. It yields what it waits for, an `Ask` or a pause in ms, and is sent the response; None if
the request or its response was lost, or if the broker was down. Everything depends on the seeds alone.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeAlias

from klamm.broker.coordinator.shard import Shard
from klamm.controller.core import Answer, Call
from klamm.controller.data_limits import DataLimits
from klamm.protocol.codec.requests import decode_response, encode_response
from klamm.protocol.fields import Message
from klamm.protocol.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from klamm.protocol.messages.brokers.broker_heartbeat import BrokerHeartbeatRequest
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.groups.find_coordinator import FindCoordinatorRequest
from tests.controller.handlers.cluster import DrivenCluster, incarnation

CONFIGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "2000",
    "group.consumer.session.timeout.ms": "4000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
    "group.streams.min.session.timeout.ms": "2000",
    "group.streams.session.timeout.ms": "4000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.assignment.interval.ms": "200",
    "group.streams.initial.rebalance.delay.ms": "300",
    "group.streams.num.standby.replicas": "1",
    "group.share.min.session.timeout.ms": "2000",
    "group.share.session.timeout.ms": "4000",
    "group.share.min.heartbeat.interval.ms": "400",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "2000",
    "group.share.delivery.count.limit": "5",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
}
SUBSCRIBED, WRITTEN = "subscribed", "written"
"""The topic of the consumers, and the topic that transactions write to."""
SUBSCRIBED_PARTITIONS, WRITTEN_PARTITIONS = 4, 3
SHARE_GROUPS = {"share-1": "read_committed", "share-2": "read_uncommitted"}
"""Share groups with their isolation levels. They take the records that transactions write."""
BEAT_MS = 500
REQUEST_TIMEOUT_MS = 4_000
REFUSED_MS = 100
GROUP_CONFIG = 32
IDLE_STEP_MS, BUSY_STEP_MS = 50, 2
GROUP, TRANSACTION, LEADER = "group", "transaction", "leader"
Place: TypeAlias = tuple[str, Any]
"""Which broker to ask: the coordinator of a group or of a transactional id, or the leader of a partition of a topic."""


@dataclass(slots=True)
class Ask:
    """A request. `arrives` is called at the moment at which the broker gets it, which may be never."""

    at: Place
    request: Message
    version: int | None = None
    arrives: Callable[[], None] = lambda: None
    may_stray: bool = True
    """Whether another broker may be asked by mistake."""
    may_be_late: bool = True
    """Whether it may arrive when its client has given it up."""
    connection: str = ""
    """The application whose connection to the broker it comes on; empty: one that nothing depends on."""


Application: TypeAlias = Generator[Ask | int, Any, Any]


def _group_configs(group_id: str, configs: Mapping[str, str]) -> IncrementalAlterConfigsRequest:
    changes = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in configs.items()]
    resource = AlterConfigsResource(resource_type=GROUP_CONFIG, resource_name=group_id, configs=changes)
    return IncrementalAlterConfigsRequest(resources=[resource])


@dataclass(slots=True)
class _Running:
    """An application: a response or the end of a pause is due at `due_ms`."""

    name: str
    application: Application
    due_ms: int
    call: Call | None = None
    answer: Answer | None = None
    broker_id: int = -1
    arrived: bool = False


@dataclass(slots=True)
class Late:
    """A request that was given up by its client and arrives later than that."""

    at_ms: int
    asks: Ask
    broker_id: int


class World(DrivenCluster):
    """Brokers 1 to 3 and the applications by name."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        rate = rng.choice((1_000_000, 1_000_000, 400, 20))
        super().__init__(profile="kafka", seed=seed, configs=CONFIGS, data_limits=DataLimits(replication_rate=rate))
        self.running: dict[str, _Running] = {}
        self.paused: set[str] = set()
        """Applications that do not run for a while."""
        self.loss = 0.0
        """How likely a request or its response is lost."""
        self.starting: set[int] = set()
        self._network = Random(rng.random())
        self._beats_at_ms = self.clock.now_ms
        self._late: list[Late] = []
        self._connections: dict[tuple[str, int], int] = {}
        """Numbers of open connections by application and broker."""
        self._connection_count = 0
        self.create_at(SUBSCRIBED, *[[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2]])
        self.create_at(WRITTEN, *[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        for group_id, isolation_level in SHARE_GROUPS.items():
            configs = {"share.auto.offset.reset": "earliest", "share.isolation.level": isolation_level}
            self.ask(_group_configs(group_id, configs))
        for key_type in (0, 1):
            self.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["first"]))
        self.run(200)

    # -- applications ----------------------------------------------------------------------------------------------

    def start_application(self, name: str, application: Application) -> None:
        """Run an application from now on. One of this name ends without another word."""
        self.stop_application(name)
        self.running[name] = _Running(name, application, self.clock.now_ms)
        self._go_on(self.running[name], None)

    def stop_application(self, name: str) -> None:
        """The process of an application dies."""
        if name in self.running:
            self.running.pop(name).application.close()
        self.paused.discard(name)
        self._close_connections(lambda place: place[0] == name)

    def _go_on(self, running: _Running, response: Any) -> None:
        running.call = running.answer = None
        try:
            waits_for = running.application.send(response)
        except StopIteration:
            if self.running.get(running.name) is running:
                del self.running[running.name]
            return
        if isinstance(waits_for, int):
            running.due_ms = self.clock.now_ms + waits_for
        else:
            self._send(running, waits_for)

    def _send(self, running: _Running, asks: Ask) -> None:
        broker_id = self.broker_at(asks.at)
        if self._network.random() < self.loss / 4 and asks.may_stray:
            broker_id = self._network.randint(1, 3)
        running.broker_id = broker_id
        if broker_id not in self.by_id or not self.by_id[broker_id].is_up:
            running.due_ms = self.clock.now_ms + REFUSED_MS
            return
        running.due_ms = self.clock.now_ms + REQUEST_TIMEOUT_MS
        fate = self._network.random()
        if fate < self.loss / 2:
            if self._network.random() < 0.5 and asks.may_be_late:
                delay_ms = self._network.choice((500, REQUEST_TIMEOUT_MS + 500, 12_000))
                self._late.append(Late(self.clock.now_ms + delay_ms, asks, broker_id))
            return
        call, answer = self._arrive(asks, broker_id)
        if fate >= self.loss:
            running.call, running.answer = call, answer

    def _arrive(self, asks: Ask, broker_id: int) -> tuple[Call, Answer]:
        call = self.call(asks.request, version=asks.version, broker_id=broker_id)
        if asks.connection:
            call = replace(call, connection_id=self._connection(asks.connection, broker_id))
        asks.arrives()
        return call, self.controller.submit(call)

    def _connection(self, name: str, broker_id: int) -> int:
        if (name, broker_id) not in self._connections:
            self._connection_count += 1
            self._connections[name, broker_id] = self._connection_count
        return self._connections[name, broker_id]

    def _close_connections(self, are_gone: Callable[[tuple[str, int]], bool]) -> None:
        for place in [one for one in self._connections if are_gone(one)]:
            self.brokers.connection_closed(self._connections.pop(place))

    def broker_at(self, at: Place) -> int:
        """The broker of a place; -1: there is none."""
        kind, key = at
        if kind == LEADER:
            topic_name, index = key
            leader: int = self.partitions(topic_name)[index].leader
            return leader
        topic = CONSUMER_OFFSETS if kind == GROUP else TRANSACTION_STATE
        found = self.brokers.coordinators.leader_of(self.image, topic, key)
        return -1 if found is None else found

    # -- time ------------------------------------------------------------------------------------------------------

    def run(self, milliseconds: int) -> None:
        """Time passes; applications, brokers and the controller do their work."""
        until_ms = self.clock.now_ms + milliseconds
        while self.clock.now_ms < until_ms:
            busy = any(one.call is not None for one in self.running.values())
            self.clock.advance(min(BUSY_STEP_MS if busy else IDLE_STEP_MS, until_ms - self.clock.now_ms))
            if self.clock.now_ms >= self._beats_at_ms:
                self._beats_at_ms = self.clock.now_ms + BEAT_MS
                self._beat()
            self.tick()
            self.brokers.tick()
            for late in [one for one in self._late if one.at_ms <= self.clock.now_ms]:
                self._late.remove(late)
                if self.by_id[late.broker_id].is_up:
                    self._arrive(late.asks, late.broker_id)
            for running in list(self.running.values()):
                self._look(running)

    def _look(self, running: _Running) -> None:
        if running.name in self.paused or self.running.get(running.name) is not running:
            return
        if running.call is not None and running.answer is not None:
            if not self.by_id[running.broker_id].is_up:
                running.call = None
                running.due_ms = self.clock.now_ms + REFUSED_MS
                return
            call = running.call
            running.answer = answer = self.controller.try_complete(call, running.answer)
            if isinstance(answer.response, Message):
                raw = bytes(encode_response(call.api, call.api_version, 1, answer.response))
                self._go_on(running, decode_response(call.api, call.api_version, raw)[1])
                return
        if self.clock.now_ms >= running.due_ms:
            self._go_on(running, None)

    # -- brokers ---------------------------------------------------------------------------------------------------

    @property
    def by_id(self) -> Any:
        return self.brokers.by_id

    def crash(self, broker_id: int) -> None:
        """A broker is gone. The controller learns it when its session is over."""
        self.by_id[broker_id].is_up = False
        self.starting.discard(broker_id)
        self.brokers.note_who_is_down()
        self._close_connections(lambda place: place[1] == broker_id)

    def begin(self, broker_id: int) -> None:
        """A broker starts. It registers as soon as the session of its former life is over."""
        if not self.by_id[broker_id].is_up:
            self.starting.add(broker_id)
            self.lives[broker_id] += 1

    def leave(self, broker_id: int) -> None:
        """A controlled shutdown."""
        if self.by_id[broker_id].is_up and broker_id in self.image.brokers:
            for _ in range(20):
                if self.heartbeat(broker_id, want_shut_down=True).should_shut_down:
                    self.controller.end_session(broker_id)
                    break
                self.run(100)
            self.crash(broker_id)

    def _beat(self) -> None:
        for broker_id, broker in self.by_id.items():
            if broker_id in self.starting and self.register(broker_id).error_code == 0:
                self.starting.discard(broker_id)
                broker.is_up = True
                self.brokers.note_who_is_down()
            known = self.image.brokers[broker_id]
            if broker.is_up and known.incarnation_id == incarnation(broker_id, self.lives[broker_id]):
                self.ask(
                    BrokerHeartbeatRequest(
                        broker_id=broker_id,
                        broker_epoch=known.broker_epoch,
                        current_metadata_offset=self.log.end_offset - 1,
                    )
                )

    # -- what coordinators know ------------------------------------------------------------------------------------

    def shards(self, topic_name: str) -> list[Shard]:
        """The loaded shards of an internal topic."""
        topic = self.image.topics_by_name[topic_name]
        found = [
            self.brokers.coordinators.find_at(self.image, topic_name, index, partition.leader, self.clock.now_ms)
            for index, partition in enumerate(self.partitions(topic_name))
        ]
        assert topic is not None
        return [shard for shard in found if isinstance(shard, Shard)]
