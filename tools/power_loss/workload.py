"""What is done to a data directory before the power goes: a controller whose clients do not wait for their answers.

Several requests are appended before each sync, and more while it runs, as the event loop does it while a thread syncs.
So there are several batches at a time, of some pages, of which none was promised. A workload is many of those, segments
that roll, snapshots, and processes that are killed and started again. All of it follows from one number.

An answer that leaves promises all that is durable at that moment; what every start has to find from there on is noted
beside the point of the disk's history.
"""

import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from klamm.controller.core import Call, Controller
from klamm.controller.dispatch import HANDLERS
from klamm.controller.log import SegmentLog
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.settings import Settings
from klamm.controller.transitions.features import SUPPORTED_FEATURES
from klamm.protocol.api import Api
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers.broker_heartbeat import BrokerHeartbeatRequest
from klamm.protocol.messages.brokers.broker_registration import BrokerRegistrationRequest, Feature, Listener
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.topics.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.uuid import Uuid
from tools.power_loss.disk import Disk

DATA_DIR: Final = "data"
BROKERS: Final = 3
SEGMENT_BYTES: Final = (4_000, 30_000, 1 << 20)
WIDE_PARTITIONS: Final = 150
"""A batch of some three pages."""
MAX_TOPICS: Final = 30
SETTINGS: Final = Settings(seed=1)
_APIS: Final[Mapping[type[Message], Api[Any, Any]]] = {api.request: api for api in HANDLERS}


@dataclass(frozen=True, slots=True)
class Promise:
    """What every start from a point of the disk's history on must find."""

    point: int = 0
    end_offset: int = 0
    """Every record below this offset."""
    leader_epoch: int = 0
    """A used epoch: no other start may use it."""


@dataclass
class Workload:
    """The history of a disk, and the promises in it."""

    disk: Disk
    random: Random
    promises: list[Promise] = field(default_factory=lambda: [Promise()])
    facts: dict[int, bytes] = field(default_factory=dict)
    """The metadata when the log ends at an offset, pickled."""
    _controller: Controller | None = None
    _log: SegmentLog | None = None
    _made: int = 0
    _now_ms: int = 1_700_000_000_000

    @property
    def log(self) -> SegmentLog:
        assert self._log is not None, "a start comes first"
        return self._log

    @property
    def controller(self) -> Controller:
        assert self._controller is not None, "a start comes first"
        return self._controller

    def play(self) -> None:
        """Play everything, including the end of the last process. The disk has to be watched."""
        for _ in range(self.random.randint(1, 3)):
            self._start()
            for _ in range(self.random.randint(1, 6)):
                self._do_a_round()
            self._kill()

    def promised_at(self, point: int) -> Promise:
        """What a start must find if the power fails at this point."""
        return next(one for one in reversed(self.promises) if one.point <= point)

    def _start(self) -> None:
        self._log = open_log(self.disk.folder / DATA_DIR, self.random.choice(SEGMENT_BYTES))
        self._promise()
        self.facts[self.log.end_offset] = pickle.dumps(MetadataImage().facts())  # of a first start; others see more
        self._controller = Controller(SETTINGS, self.log, self._clock_ms, HANDLERS)
        self._note_facts()
        self.controller.subscribe(self._follow)
        for broker_id in range(1, BROKERS + 1):
            self._bring_up(broker_id)

    def _kill(self) -> None:
        """The process dies, and the machine goes on: nothing is synced."""
        self.log.close()
        self._log = self._controller = None

    def _follow(self, _delta: Delta) -> None:
        self._note_facts()

    def _note_facts(self) -> None:
        self.facts[self.log.end_offset] = pickle.dumps(self.controller.image.facts())

    def _clock_ms(self) -> int:
        self._now_ms += 1
        return self._now_ms

    def _do_a_round(self) -> None:
        for _ in range(self.random.choice((1, 2, 5, 8))):
            self._ask()
        if self.random.random() < 0.9:
            with self._meanwhile(self.random.choice((0, 0, 1, 4))):
                self.log.sync()
            self._promise()
        if self.random.random() < 0.15:
            self.log.sync()
            pending = self.controller.begin_snapshot(roll=self.random.random() < 0.7)
            assert pending is not None, "a log in a data directory has snapshots"
            for _ in range(self.random.choice((0, 2))):
                self._ask()
            pending.write()
            self._promise()

    @contextmanager
    def _meanwhile(self, requests: int) -> Iterator[None]:
        """Decide this many requests while the next sync runs."""

        def ask() -> None:
            self.disk.on_sync = _nothing
            for _ in range(requests):
                self._ask()

        self.disk.on_sync = ask
        try:
            yield
        finally:
            self.disk.on_sync = _nothing

    def _promise(self) -> None:
        self.promises.append(Promise(self.disk.now, self.log.durable_offset, self.log.leader_epoch))

    def _ask(self) -> None:
        names = list(self.controller.image.topics_by_name)
        chance = self.random.random()
        if not names or (chance < 0.5 and len(names) < MAX_TOPICS):
            self._submit(self._creation())
        elif chance < 0.65:
            self._submit(DeleteTopicsRequest(topics=[DeleteTopicState(name=self.random.choice(names))]))
        elif chance < 0.8:
            name = self.random.choice(names)
            topic = self.controller.image.topics_by_name[name]
            count = self.controller.image.partition_count(topic) + self.random.randint(1, 3)
            self._submit(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=count)]))
        else:
            value = str(self.random.randrange(10**6))
            config = AlterableConfig(name="retention.ms", config_operation=0, value=value)
            resource = AlterConfigsResource(resource_type=2, resource_name=self.random.choice(names), configs=[config])
            self._submit(IncrementalAlterConfigsRequest(resources=[resource]))

    def _creation(self) -> CreateTopicsRequest:
        topics = []
        for _ in range(self.random.choice((1, 1, 3))):
            self._made += 1
            count = WIDE_PARTITIONS if self.random.random() < 0.1 else self.random.randint(1, 4)
            topics.append(CreatableTopic(name=f"topic-{self._made}", num_partitions=count, replication_factor=2))
        return CreateTopicsRequest(topics=topics)

    def _submit(self, request: Message) -> Any:
        api = _APIS[type(request)]
        if "broker" in api.listeners:
            call = Call(api, api.latest_stable, request, "broker", broker_id=1)
        else:
            call = Call(api, api.latest_stable, request, "controller")
        return self.controller.submit(call).response

    def _bring_up(self, broker_id: int) -> None:
        known = self.controller.image.brokers.get(broker_id)
        if known is None:
            registration = BrokerRegistrationRequest(
                broker_id=broker_id,
                cluster_id=self.log.cluster_id,
                incarnation_id=Uuid(broker_id.to_bytes(16, "big")),
                listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9000 + broker_id)],
                features=[
                    Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                    for name, (lowest, highest) in SUPPORTED_FEATURES.items()
                ],
                log_dirs=[Uuid((1 << 64 | broker_id).to_bytes(16, "big"))],
            )
            self._submit(registration)
            known = self.controller.image.brokers[broker_id]
        heartbeat = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=known.broker_epoch,
            current_metadata_offset=self.log.end_offset - 1,
        )
        self._submit(heartbeat)


def open_log(data_dir: Path, segment_bytes: int, warnings: list[str] | None = None) -> SegmentLog:
    """The log of a data directory, which may be new."""
    said = [] if warnings is None else warnings
    return SegmentLog.open(
        data_dir,
        new_cluster_id="AAAAAAAAAAAAAAAAAAAAAQ",
        new_directory_id=Uuid(bytes(range(1, 17))),
        timestamp_ms=1_700_000_000_000,
        warn=said.append,
        segment_bytes=segment_bytes,
    )


def _nothing() -> None:
    pass
