"""Reassignments of many partitions: begun, listed and cancelled in one request each, and completed.

What begins moves a replica of each partition to a broker that is down, so that nothing is complete before it is listed
or cancelled: the same for everybody. What is completed has no records to copy; it is the controller's work, and with
Apache Kafka that of the brokers, who open a log for each partition. One cluster comes after the other: Apache Kafka's
brokers go on working when the controller has answered. Nobody else is beside it: kfake knows no moves.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

import klamm
from bench.measure_create import NS_PER_MS
from bench.measure_moves_in_flight import measure_moves_in_flight
from bench.raw_client import RawClient, Refused, refuse_errors
from bench.reassign_frames import assigned_topic_frame, count_listed, list_frame, reassign_frame, refuse_unaltered
from bench.rows import Row, median
from bench.workbench import Workbench

HOME, AWAY = (1, 2), (1, 3)
"""Where each partition is, and where it moves: the leader stays, and broker 3 takes the place of broker 2."""
AWAY_BROKER = 3
COMPLETED_TOPIC = "completed"
ROUNDS, KAFKA_ROUNDS = 11, 3
"""Apache Kafka's brokers have work for many seconds after each round."""
COMPLETED_ROUNDS = 4
ACCEPTED_MS, LISTED_MS = 200.0, 100.0
MS_PER_SECOND = 1000.0
GIVE_UP_SECONDS = 300.0
LOOK_SECONDS = 0.01
LOOKED_AT = 10
"""So many partitions are asked for until they are done, and only then all: asking is work, too."""


class Stoppable(Protocol):
    """A cluster of three brokers, which can be shut down."""

    def stop_broker(self, broker_id: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Shape:
    """What is moved: so many partitions in each of so many topics. Apache Kafka takes 10,000 changes in a request, and
    the topic itself is one."""

    topics: int
    partitions: int

    @property
    def all_partitions(self) -> int:
        return self.topics * self.partitions

    @property
    def names(self) -> list[str]:
        return [f"moved-{number:03d}" for number in range(self.topics)]


SHAPE = Shape(topics=10, partitions=1_000)


@dataclass(slots=True)
class Mover:
    """One cluster that moves partitions again and again, and how long that takes, in ms."""

    name: str
    cluster: Stoppable
    client: RawClient
    shape: Shape
    accepted: list[float] = field(default_factory=list)
    listed: list[float] = field(default_factory=list)
    cancelled: list[float] = field(default_factory=list)
    completed: list[float] = field(default_factory=list)

    def fill(self) -> None:
        for name in self.shape.names:
            self._create(name)

    def begin_and_cancel(self) -> None:
        """Once, while the broker that the partitions move to is down."""
        self.accepted.append(self._alter(AWAY))
        listing = self.client.exchange(list_frame(None))
        self._refuse_unless_listed(listing.payload, self.shape.all_partitions)
        self.listed.append(listing.last_byte_ns / NS_PER_MS)
        self.cancelled.append(self._alter(None))
        self._refuse_unless_listed(self.client.exchange(list_frame(None)).payload, 0)

    def complete(self) -> None:
        """One more topic there, or back again if that is where it is."""
        if not self.completed:
            self._create(COMPLETED_TOPIC)
        target = HOME if len(self.completed) % 2 else AWAY
        names, partitions = [COMPLETED_TOPIC], self.shape.partitions
        frame = reassign_frame(names, [target] * partitions)
        few, every = list_frame(names, range(0, partitions, max(1, partitions // LOOKED_AT))), list_frame(None)
        started = time.perf_counter()
        refuse_unaltered(self.client.exchange(frame).payload, partitions)
        for listing in (few, every):
            while remaining := count_listed(self.client.exchange(listing).payload):
                if time.perf_counter() > started + GIVE_UP_SECONDS:
                    raise Refused(f"{self.name}: {remaining:,} moves are not complete in {GIVE_UP_SECONDS:g} s")
                time.sleep(LOOK_SECONDS)
        self.completed.append((time.perf_counter() - started) * MS_PER_SECOND)

    def _create(self, topic_name: str) -> None:
        answer = self.client.exchange(assigned_topic_frame(topic_name, [HOME] * self.shape.partitions))
        refuse_errors(answer.payload)

    def _alter(self, target: Sequence[int] | None) -> float:
        answer = self.client.exchange(reassign_frame(self.shape.names, [target] * self.shape.partitions))
        refuse_unaltered(answer.payload, self.shape.all_partitions)
        return answer.last_byte_ns / NS_PER_MS

    def _refuse_unless_listed(self, payload: bytes, wanted: int) -> None:
        if (listed := count_listed(payload)) != wanted:
            raise Refused(f"{self.name} lists {listed:,} moves where {wanted:,} are under way")


def measure_reassign(bench: Workbench) -> list[Row]:
    """In memory alone; with data directories beside Apache Kafka, if asked for. Then moves that go on."""
    rounds, completed = bench.samples(ROUNDS), bench.samples(COMPLETED_ROUNDS, 2)
    with ExitStack() as stack:
        in_memory = move(klamm_mover(stack), rounds, completed)
    with ExitStack() as stack:
        folder = stack.enter_context(bench.folder())
        durable = move(klamm_mover(stack, "--data-dir", str(folder)), rounds, completed)
    theirs = _move_kafka(bench, completed) if bench.kafka_class_path else None
    rows = [*rows_of("in memory", in_memory), *rows_of("data directory", durable, theirs)]
    return rows + measure_moves_in_flight(bench)


def _move_kafka(bench: Workbench, completed_rounds: int) -> Mover:
    with ExitStack() as stack:
        kafka = stack.enter_context(bench.kafka_cluster(stack.enter_context(bench.folder())))
        client = stack.enter_context(RawClient(kafka.addresses[0]))
        return move(Mover("Kafka", kafka, client, SHAPE), KAFKA_ROUNDS, completed_rounds)


def klamm_mover(stack: ExitStack, *options: str, shape: Shape = SHAPE) -> Mover:
    """Klamm with three brokers, until the stack is left."""
    server = stack.enter_context(klamm.ServerProcess("--brokers", "3", *options, control=True))
    host, _, port = server.bootstrap_servers.split(",")[0].rpartition(":")
    return Mover("Klamm", server, stack.enter_context(RawClient((host, int(port)))), shape)


def move(mover: Mover, rounds: int, completed_rounds: int) -> Mover:
    """Everything, as often as that. What is completed comes first: Kafka's brokers go on with the rest for long."""
    for _ in range(completed_rounds):
        mover.complete()
    mover.fill()
    mover.cluster.stop_broker(AWAY_BROKER)
    for _ in range(rounds):
        mover.begin_and_cancel()
    return mover


def rows_of(where: str, ours: Mover, theirs: Mover | None = None) -> list[Row]:
    """Ours alone, or beside the peer's."""
    what, completed = f"{ours.shape.all_partitions:,} partitions", f"{ours.shape.partitions:,} partitions"
    rows = []
    for name, figure, limit in (
        (f"{what} in one request, {where}: accepted", "accepted", ACCEPTED_MS),
        (f"{what}, {where}: all listed", "listed", LISTED_MS),
        (f"{what} in one request, {where}: cancelled", "cancelled", None),
        (f"{completed} without records, {where}: from the request until none is listed", "completed", None),
    ):
        klamm_ms: list[float] = getattr(ours, figure)
        peer_ms: list[float] | None = getattr(theirs, figure) if theirs else None
        details = {"klamm_first": klamm_ms[0], "klamm_min": min(klamm_ms), "klamm_max": max(klamm_ms)}
        if peer_ms:
            details |= {"peer_first": peer_ms[0], "peer_min": min(peer_ms), "peer_max": max(peer_ms)}
        rows.append(
            Row(
                group="reassign",
                what=name,
                unit="ms",
                klamm=median(klamm_ms),
                peer=theirs.name if theirs else None,
                theirs=median(peer_ms) if peer_ms else None,
                samples=len(klamm_ms),
                peer_samples=len(peer_ms) if peer_ms else None,
                mark=None if limit is None else f"<= {limit:g} ms",
                reached=None if limit is None else median(klamm_ms) <= limit,
                details=details,
            )
        )
    return rows
