"""A cluster without sockets: the real controller on a log in memory, a clock that the test sets, brokers as requests.
Every request and response is encoded and decoded, so that fields that a version lacks are lost here as on the wire.
Brokers are registered and kept alive by the requests that real ones send."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from klamm.broker.assembly import assemble
from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.dispatch import APIS as ALL_APIS
from klamm.controller.core import Answer, Call, Controller
from klamm.controller.data_limits import DEFAULT_DATA_LIMITS, DataLimits
from klamm.controller.log import MemoryLog
from klamm.controller.log.quorum import STATIC_QUORUM, QuorumPlan
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey, Partition
from klamm.controller.metadata.replay import replay
from klamm.controller.releases import NO_EMULATION, Emulation
from klamm.controller.server_answer import Forwarded, LogAnswer
from klamm.controller.settings import Profile, Settings
from klamm.controller.transitions.features import SUPPORTED_FEATURES
from klamm.protocol.api import Api, Listener
from klamm.protocol.codec.requests import decode_response, encode_request, encode_response, read_request
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from klamm.protocol.messages.brokers.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)
from klamm.protocol.messages.brokers.broker_registration import Listener as BrokerListener
from klamm.protocol.messages.brokers.envelope import EnvelopeResponse
from klamm.protocol.messages.topics.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from klamm.protocol.record_batch import decode_batch, decode_batch_header, decode_batches
from klamm.protocol.uuid import Uuid
from tests.controller.image_facts import image_facts

START_MS = 1_700_000_000_000
SESSION_MS = 9_000
HEARTBEAT_MS = 2_000
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
APIS: Mapping[type[Message], Api[Any, Any]] = {api.request: api for api in ALL_APIS}
ENOUGH_TIME_MS = 30_000
LENGTH_END = 12
"""A batch begins with its base offset and the length of what follows."""


class Clock:
    """Milliseconds since 1970; the test advances it."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, milliseconds: int) -> None:
        self.now_ms += milliseconds


def incarnation(broker_id: int, number: int = 1) -> Uuid:
    """The id of the n-th incarnation of a broker."""
    return Uuid((broker_id << 16 | number).to_bytes(16, "little", signed=True))


def directory(broker_id: int, number: int = 0) -> Uuid:
    """The id of the n-th log directory of a broker."""
    return Uuid(b"\7" + (broker_id << 16 | number).to_bytes(15, "big", signed=True))


def new_memory_log(quorum: QuorumPlan = STATIC_QUORUM) -> MemoryLog:
    return MemoryLog(CLUSTER_ID, directory(3000), START_MS, quorum=quorum)


class DrivenCluster:
    """A controller and the brokers that are registered with it; ids count from 1."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        racks: Sequence[str | None] = ("a", "b", "c"),
        profile: Profile = "kip",
        seed: int = 7,
        configs: Mapping[str, str] | None = None,
        broker_configs: Mapping[int, Mapping[str, str]] | None = None,
        log: MemoryLog | None = None,
        data_limits: DataLimits = DEFAULT_DATA_LIMITS,
        emulation: Emulation = NO_EMULATION,
        metadata_version: int | None = None,
        real: Collection[int] = (),
        real_topics: str = "*",
    ) -> None:
        """`real`: the brokers of other processes."""
        self._real = real
        self.clock = Clock()
        self.settings = Settings(
            profile=profile,
            seed=seed,
            static_configs=configs or {},
            broker_static_configs=broker_configs or {},
            data_limits=data_limits,
            emulation=emulation,
            metadata_version=metadata_version,
            real_topics=real_topics,
        )
        self.log = new_memory_log(QuorumPlan(self.settings.is_quorum_dynamic)) if log is None else log
        self.racks = racks
        self.lives: dict[int, int] = {}
        self.controller: Controller
        self.brokers: SimulatedBrokers
        self.start()
        for broker_id in range(1, brokers + 1):
            self.join(broker_id)

    def start(self, log_end_offsets: Mapping[LogKey, int] = MappingProxyType({})) -> None:
        """Start a controller on the log, with the brokers of its process that have registered before."""
        known = self.brokers.by_id if hasattr(self, "brokers") else ()
        self.controller, self.brokers = assemble(Controller, self.settings, self.log, self.clock, log_end_offsets)
        for broker_id in known:
            self.brokers.add(broker_id).is_up = True

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    @property
    def data(self) -> DataPlane:
        return self.brokers.data

    def set_down(self, broker_ids: Collection[int]) -> None:
        """Set which brokers are down, whether the controller has fenced them or not."""
        for broker_id, broker in self.brokers.by_id.items():
            broker.is_up = broker_id not in broker_ids
        self.brokers.note_who_is_down()

    def note_registration(self, request: Message) -> None:
        """A broker that registers is one of this process, unless it is real."""
        if not isinstance(request, BrokerRegistrationRequest) or request.broker_id in self._real:
            return
        if request.broker_id not in self.brokers.by_id:
            self.brokers.add(request.broker_id).is_up = True

    def submit(self, request: Message, *, version: int | None = None, broker_id: int | None = 1) -> Answer:
        """The controller's answer, not decoded."""
        self.note_registration(request)
        return self.controller.submit(self.call(request, version=version, broker_id=broker_id))

    def call(self, request: Message, *, version: int | None = None, broker_id: int | None = 1) -> Call:
        """A request in the form in which the controller gets it."""
        api = APIS[type(request)]
        version = api.latest_stable if version is None else version
        listener: Listener = "controller" if broker_id is None or "broker" not in api.listeners else "broker"
        _, _, read = read_request(encode_request(api, version, 1, "test", request))
        return Call(api, version, read, listener, broker_id if listener == "broker" else None, "test")

    def ask(self, request: Message, *, version: int | None = None, broker_id: int | None = 1) -> Any:
        """The response, decoded. `broker_id` is the broker that gets the request; None means the controller's
        listener."""
        api = APIS[type(request)]
        version = api.latest_stable if version is None else version
        response = self.submit(request, version=version, broker_id=broker_id).response
        if isinstance(response, LogAnswer):
            response = response.read(self.log.reader()).response
        elif isinstance(response, Forwarded):
            response = EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)  # what is embedded is for the server
        assert isinstance(response, Message), "an answer that waits is asked for with data_requests.Asked"
        return decode_response(api, version, bytes(encode_response(api, version, 1, response)))[1]

    # Brokers

    def registration(self, broker_id: int, **fields: Any) -> BrokerRegistrationRequest:
        """The request with which a broker registers its present incarnation; `fields` replace the defaults."""
        values: dict[str, Any] = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": incarnation(broker_id, self.lives.setdefault(broker_id, 1)),
            "listeners": [BrokerListener(name="PLAINTEXT", host="127.0.0.1", port=9000 + max(0, broker_id))],
            "features": [
                Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            ],
            "rack": self.racks[(broker_id - 1) % len(self.racks)] if self.racks else None,
            "log_dirs": [directory(broker_id)],
            **fields,
        }
        return BrokerRegistrationRequest(**values)

    def register(self, broker_id: int, *, version: int | None = None, **fields: Any) -> BrokerRegistrationResponse:
        response: BrokerRegistrationResponse = self.ask(self.registration(broker_id, **fields), version=version)
        return response

    def heartbeat(self, broker_id: int, *, version: int | None = None, **fields: Any) -> BrokerHeartbeatResponse:
        """A heartbeat with the registered epoch, of a broker that has read all records, unless `fields` differ."""
        known = self.image.brokers.get(broker_id)
        values: dict[str, Any] = {
            "broker_id": broker_id,
            "broker_epoch": known.broker_epoch if known else -1,
            "current_metadata_offset": self.log.end_offset - 1,
            **fields,
        }
        response: BrokerHeartbeatResponse = self.ask(BrokerHeartbeatRequest(**values), version=version)
        return response

    def join(self, broker_id: int, **fields: Any) -> None:
        """Register the broker, unfence it, and add it to every ISR that it can join."""
        assert self.register(broker_id, **fields).error_code == 0
        assert not self.heartbeat(broker_id).is_fenced
        self.tick()

    def come_back(self, broker_id: int, *, clean: bool = True) -> None:
        """Register a new incarnation of a broker that had stopped."""
        self.lives[broker_id] += 1
        previous = self.image.brokers[broker_id].broker_epoch if clean else -1
        self.join(broker_id, previous_broker_epoch=previous)

    def pass_time(self, milliseconds: int, *, silent: Sequence[int] = ()) -> None:
        """Let time pass; unfenced brokers send their heartbeats, except those in `silent`."""
        until = self.clock.now_ms + milliseconds
        while self.clock.now_ms < until:
            self.clock.advance(min(HEARTBEAT_MS, until - self.clock.now_ms))
            for broker in list(self.image.brokers.values()):
                if not broker.fenced and broker.broker_id not in silent:
                    self.heartbeat(broker.broker_id)
            self.tick()

    def lose(self, *broker_ids: int) -> None:
        """Let brokers send no heartbeats until their sessions have ended."""
        self.pass_time(SESSION_MS, silent=broker_ids)
        assert all(self.image.brokers[broker_id].fenced for broker_id in broker_ids)

    def shut_down(self, broker_id: int) -> None:
        """A complete controlled shutdown of a simulated broker, which can be started again at once."""
        while not self.heartbeat(broker_id, want_shut_down=True).should_shut_down:
            pass
        self.controller.end_session(broker_id)

    # Topics

    def create(self, name: str, partitions: int = 1, replication_factor: int = 1, **fields: Any) -> Any:
        """The result of creating one topic."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor, **fields)
        response: CreateTopicsResponse = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=ENOUGH_TIME_MS))
        return response.topics[0]

    def create_at(self, name: str, *replicas: Sequence[int], **fields: Any) -> Any:
        """The result of creating one topic with these replicas, a list per partition."""
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(row))
            for index, row in enumerate(replicas)
        ]
        return self.create(name, -1, -1, assignments=assignments, **fields)

    def partitions(self, topic_name: str) -> list[Partition]:
        topic = self.image.topics_by_name[topic_name]
        return [self.image.partitions.read(topic.row, index) for index in range(self.image.partition_count(topic))]

    # The log

    def records(self, first_offset: int = 0) -> list[Message]:
        """The metadata records from an offset on, read from the bytes of the log."""
        data, position = self.log.log_bytes(), 0
        found: list[Message] = []
        while position < len(data):
            header = decode_batch_header(data, position)
            if header.last_offset >= first_offset:
                batch = decode_batch(data, position)
                records = () if batch.is_control else batch.records
                found += [one for offset, one in enumerate(records, batch.base_offset) if offset >= first_offset]
            position += LENGTH_END + int.from_bytes(data[position + LENGTH_END - 4 : position + LENGTH_END], "big")
        return found

    @contextmanager
    def writing(self) -> Iterator[list[Message]]:
        """Collects the records that are written in the block."""
        first_offset = self.log.end_offset
        written: list[Message] = []
        yield written
        written += self.records(first_offset)

    def tick(self) -> None:
        """Run the controller's periodic work at the present time of the clock."""
        self.controller.tick()

    def restart(self) -> None:
        """Start another controller on the same log."""
        self.start()

    def replayed_facts(self) -> dict[str, Any]:
        """The facts of an image that is replayed from the bytes of the log."""
        image = MetadataImage()
        for batch in decode_batches(self.log.log_bytes()):
            if not batch.is_control:
                replay(image, batch.records, batch.base_offset)
        return image_facts(image)
