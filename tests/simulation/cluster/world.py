"""One simulated cluster: what is decided once for a seed, and the process of the server that lives now."""

import io
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, cast

import trio
from trio.testing import MockClock

from klamm.broker.assembly import assemble
from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.broker.kept_partitions import KeptPartitions
from klamm.broker.log_end_offsets import LogEndOffsets
from klamm.controller.data_limits import DataLimits
from klamm.controller.log import LogError
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.controller.metadata.replay import ReplayError
from klamm.controller.random_ids import new_uuid
from klamm.controller.settings import PROFILES, Profile, Settings
from klamm.server.addresses import Address
from klamm.server.event_log import EventLog
from klamm.server.limits import ServerLimits
from klamm.server.listeners import default_plan
from klamm.server.parts import ServerParts
from klamm.server.server import Server, open_server
from tests.simulation.cluster.deliveries import LIMIT, LOCK_MS
from tests.simulation.cluster.disk import Disk
from tests.simulation.cluster.surroundings import open_memory_node, random_of
from tests.simulation.cluster.violation import Violation, demand
from tests.simulation.cluster.witness import Place, WatchedController, WatchedLog, WatchedRequestLog, Witness
from tests.simulation.model_configs import (
    MAX_BROKER_PARTITIONS,
    MAX_PARTITIONS,
    MIN_ISR,
    UNDER_REPLICATED,
    ModelConfigs,
)

if TYPE_CHECKING:
    from tests.simulation.cluster.client import SimulatedClient
    from tests.simulation.cluster.outside import OutsideBroker
    from tests.simulation.cluster.share_groups import ShareGroups

START_MS = 1_700_000_000_000
HOST = "127.0.0.1"
CONTROLLER_PORT, FIRST_PORT = 9_000, 9_001
OUTSIDE_IDS = (500, 400)
"""Of brokers that are no part of the server. Far apart: one that is added gets the id after the highest."""
REAL_TOPICS = "*[02468]"
"""While brokers outside are registered, these topics are on them."""
"""And as long as leaps last."""
SHARE_CONFIGS = {
    "group.share.min.session.timeout.ms": "2000",
    "group.share.session.timeout.ms": "5000",
    "group.share.min.heartbeat.interval.ms": "400",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.min.delivery.count.limit": "2",
    "group.share.delivery.count.limit": str(LIMIT),
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "offsets.topic.num.partitions": "2",
}
SHARE_SEEDS = 0.5
"""How many of all seeds have members of share groups."""
RACKS: tuple[tuple[str, ...], ...] = ((), ("a", "b", "c"), ("a", "b"), ("a", "a", "b"))


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A batch that a producer was told is written on all that are in sync."""

    place: Place
    base_offset: int
    value: bytes


@dataclass
class Life:
    """One process of the server."""

    server: Server
    controller: WatchedController
    brokers: SimulatedBrokers
    log: WatchedLog
    events: io.StringIO
    tasks: trio.Nursery
    """What is done to the server at its own pace; it ends with it."""
    stopping: bool = False
    changing: set[int] = field(default_factory=set)
    """Brokers that come or go: whoever connects to them may be closed upon."""
    acknowledged: list[Acknowledged] = field(default_factory=list)
    high_watermarks: dict[Place, int] = field(default_factory=dict)

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def find_records(self, place: Place) -> ReplicatedLog | None:
        return self.brokers.data.find(*place)


class World:
    """See above."""

    def __init__(self, seed: int, root: Path, profile: Profile | None) -> None:
        chance = random_of(seed, "world")
        chosen = chance.choice(PROFILES)
        self.seed = seed
        self.profile: Profile = profile or chosen
        self.brokers = chance.choice((1, 2, 3, 3, 4, 5))
        self.racks = chance.choice(RACKS)
        self.static = {
            "num.partitions": "2",
            "default.replication.factor": str(min(self.brokers, chance.choice((1, 2, 3)))),
            MIN_ISR: str(chance.choice((1, 1, 2))),
            UNDER_REPLICATED: chance.choice(("false", "true")),
            "broker.session.timeout.ms": "9000",
            "broker.heartbeat.interval.ms": "2000",
            "leader.imbalance.check.interval.seconds": chance.choice(("5", "300")),
        }
        for name, values in ((MAX_BROKER_PARTITIONS, ("9", "20")), (MAX_PARTITIONS, ("12", "30"))):
            if chance.random() < 0.3:
                self.static[name] = chance.choice(values)
        of_shares = random_of(seed, "shares")
        self.has_shares = of_shares.random() < SHARE_SEEDS
        self.keeps_internal = self.has_shares and of_shares.random() < 0.8
        """Clients neither change `__consumer_offsets` nor ask for unclean leaders of internal topics: what coordinators
        have written stays."""
        if self.has_shares:
            replicas = str(min(self.brokers, of_shares.choice((1, 2, 3))))
            self.static |= SHARE_CONFIGS
            self.static["offsets.topic.replication.factor"] = replicas
            self.static["share.coordinator.state.topic.replication.factor"] = replicas
        self.shares: ShareGroups | None = None
        """None if this seed has none."""
        self.of_broker = {2: {MAX_BROKER_PARTITIONS: "7"}} if chance.random() < 0.2 else {}
        self.replication_rate = chance.choice((3, 50, 1_000_000))
        if self.has_shares:
            # Members write more to the internal topics than three records per second.
            self.replication_rate = max(50, self.replication_rate)
        self.snapshot_records = chance.choice((0, 5, 30, 20_000))
        self.tick_seconds = chance.choice((0.1, 0.5, 0.5))
        self.segment_bytes = chance.choice((600, 3_000, 1 << 30))
        self.chance = random_of(seed, "steps")
        self.disk = Disk(root, random_of(seed, "disk"))
        self.root = root
        self.witness = Witness(ModelConfigs(self.static, self.of_broker))
        self.clock = MockClock(autojump_threshold=0)
        self.nobody_is_connected = trio.Event()
        self.clients: list[SimulatedClient] = []
        self.outside: dict[int, OutsideBroker] = {}
        self.violations: list[Violation] = self.witness.violations
        self.trace: list[str] = []
        self.life: Life | None = None
        self.clients_ever = self.requests_ever = self.lives = self.batches = 0
        self.nursery: trio.Nursery
        """Of clients: they outlive the server."""

    def now_ms(self) -> int:
        return START_MS + int(self.clock.current_time() * 1000)

    def note(self, what: str) -> None:
        """A line of the trace."""
        self.trace.append(f"{self.clock.current_time():10.3f} {what}")

    @property
    def living(self) -> Life:
        assert self.life is not None, "the server runs"
        return self.life

    def power_is_cut(self) -> None:
        """The process is dead from here on, whatever it still does."""
        self.note("the power is cut")
        self.witness.dead = True
        for client in self.clients:
            client.abandon()

    def settings(self) -> Settings:
        return Settings(
            profile=self.profile,
            seed=self.seed,
            snapshot_records=self.snapshot_records,
            static_configs=self.static,
            broker_static_configs=self.of_broker,
            data_limits=DataLimits(replication_rate=self.replication_rate),
            real_topics=REAL_TOPICS,
        )

    def open_log(self) -> WatchedLog:
        ids = Random(self.seed)
        return cast(
            "WatchedLog",
            WatchedLog.open(
                self.disk.data_dir,
                new_cluster_id=str(new_uuid(ids.randbytes)),
                new_directory_id=new_uuid(ids.randbytes),
                timestamp_ms=self.now_ms(),
                warn=self.note_repair,
                segment_bytes=self.segment_bytes,
            ),
        )

    def note_repair(self, what: str) -> None:
        self.note("repaired: " + what.replace(str(self.root), ""))

    def _compare_log_ends(self, log_end_offsets: Mapping[LogKey, int]) -> None:
        for place, offsets in self.witness.promised.record_offsets.items():
            if place[0] not in self.witness.shadow.topics_by_id:
                continue
            begins = log_end_offsets.get(place, 0)
            for offset, decided_at in offsets.items():
                reason = f"{place}: {offset}, told at {decided_at:.3f}, and it begins at {begins}"
                demand("no_acknowledged_offset_is_given_twice", offset < begins, reason)

    @asynccontextmanager
    async def open_life(self) -> AsyncIterator[Life]:
        """A process of the server, from its start to its stop. As in `klamm.cluster.assembly`, in memory where that is
        the machine's."""
        self.witness.dead = False
        self.lives += 1
        data_dir, stderr = self.disk.data_dir, io.StringIO()
        events = EventLog("json", stderr)
        with ExitStack() as undo:
            log = self.open_log()
            undo.callback(log.close)
            log.watch(self.witness)
            log_end_offsets = LogEndOffsets(data_dir)
            undo.callback(log_end_offsets.close)
            self._compare_log_ends(log_end_offsets.loaded)
            kept = KeptPartitions(data_dir, self.note_repair)
            controller, hosted = assemble(
                WatchedController, self.settings(), log, self.now_ms, log_end_offsets.loaded, kept
            )
            controller.witness = self.witness
            request_log = WatchedRequestLog(self.root / f"requests-{self.lives}", log.cluster_id, events)
            request_log.witness = self.witness
            plan = default_plan(Address(HOST, FIRST_PORT), Address(HOST, CONTROLLER_PORT))
            assert plan.controller is not None
            parts = ServerParts(
                controller=controller,
                brokers=hosted,
                log=log,
                clock_ms=self.now_ms,
                listeners=plan,
                broker_listeners={n: open_memory_node(plan.of_broker(n, ())) for n in range(1, self.brokers + 1)},
                controller_listeners=open_memory_node([plan.controller]),
                racks=self.racks,
                limits=ServerLimits(tick_seconds=self.tick_seconds),
                events=events,
                request_log=request_log,
                log_end_offsets=log_end_offsets,
                kept_partitions=kept,
                fatal_errors=(LogError, ReplayError),
            )
            async with open_server(parts) as server, trio.open_nursery() as tasks:
                self.life = Life(server, controller, hosted, log, stderr, tasks)
                try:
                    yield self.life
                finally:
                    self.life.stopping = True
                    tasks.cancel_scope.cancel()
