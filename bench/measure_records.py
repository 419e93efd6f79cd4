"""Records of 100 bytes, written and read with confluent-kafka: what an application does, and not what Klamm is for.

Unlike everywhere else the client is a real library, in a process of its own (`record_client`), and its work is part of
the time: nobody is faster than it. Each time is a topic of its own, three partitions with three replicas each, so that
acks=all waits for two followers: Klamm's are simulated, kfake has none, and Apache Kafka's are there.
"""

import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

from bench.processes import ROOT
from bench.raw_client import RawClient, Refused, create_topics_frame, find_controller, refuse_errors
from bench.rows import Row, median
from bench.workbench import Workbench

RECORD_BYTES = 100
PARTITIONS = 3
RECORDS = 300_000
"""A third of them is what Klamm keeps of a partition, with some room to spare."""
ROUNDS = 5
REPLICATION_FACTOR = 3
ACKS = {"all": "acks=all, idempotent", "1": "acks=1"}
MARK = 3.0
CLIENT_SECONDS = 300.0


class RecordServer(Protocol):
    """Whoever takes records."""

    @property
    def addresses(self) -> list[tuple[str, int]]: ...


@dataclass(slots=True)
class Carrier:
    """One server, and how many records a second it takes and gives."""

    name: str
    server: RecordServer
    partitions: int = PARTITIONS
    record_bytes: int = RECORD_BYTES
    replication_factor: int = REPLICATION_FACTOR
    produced: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    consumed: list[float] = field(default_factory=list)
    topics: int = 0

    def carry(self, acks: str, records: int) -> None:
        """Once, through a new topic. Raises Refused if not every record came through."""
        self.topics += 1
        topic_name = f"records-{self.topics:03d}"
        with RawClient(find_controller(self.server.addresses[0])) as client:
            answer = client.exchange(create_topics_frame(topic_name, self.partitions, self.replication_factor))
            refuse_errors(answer.payload)
        shape = topic_name, str(records), str(self.partitions)
        self.produced[acks].append(records / self.time_client("produce", *shape, str(self.record_bytes), acks))
        self.consumed.append(records / self.time_client("consume", *shape))

    def time_client(self, role: str, *arguments: str) -> float:
        """What a client said that it took; raises Refused with what it said instead."""
        servers = ",".join(f"{host}:{port}" for host, port in self.server.addresses)
        command = [sys.executable, "-P", "-m", "bench.record_client", role, servers, *arguments]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=CLIENT_SECONDS,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)},
        )
        if done.returncode:
            raise Refused(f"{self.name}, {role}: {done.stderr.strip()}")
        return float(done.stdout)


def measure_records(bench: Workbench) -> list[Row]:
    """In memory beside kfake; then beside three brokers of Apache Kafka, if asked for."""
    records, rounds = bench.samples(RECORDS), bench.samples(ROUNDS, 1)
    with ExitStack() as stack:
        kfake = Carrier("kfake", stack.enter_context(bench.kfake()))
        carriers = carry_in_turn([Carrier("Klamm", stack.enter_context(bench.klamm())), kfake], records, rounds)
    rows = rows_of(carriers, records)
    if bench.kafka_class_path:
        with ExitStack() as stack:
            folder = stack.enter_context(bench.folder())
            kafka = Carrier("Kafka", stack.enter_context(bench.kafka_cluster(folder)))
            carriers = carry_in_turn([Carrier("Klamm", stack.enter_context(bench.klamm())), kafka], records, rounds)
        rows += rows_of(carriers, records)
    return rows


def carry_in_turn(carriers: Sequence[Carrier], records: int, rounds: int) -> Sequence[Carrier]:
    """Every way of writing, as often as there are rounds."""
    for number in range(rounds):
        turn = number % len(carriers)
        for acks in ACKS:
            for carrier in (*carriers[turn:], *carriers[:turn]):
                carrier.carry(acks, records)
    return carriers


def rows_of(carriers: Sequence[Carrier], records: int) -> list[Row]:
    """The first beside the second. The mark is about kfake."""
    ours, theirs = carriers
    figures = [(f"produced, {ACKS[acks]}", ours.produced[acks], theirs.produced[acks]) for acks in ACKS]
    figures.append(("consumed, partitions assigned by the client", ours.consumed, theirs.consumed))
    marked = theirs.name == "kfake"
    return [
        Row(
            group="records",
            what=f"{records:,} of {RECORD_BYTES} bytes, confluent-kafka: {what}",
            unit="records/s",
            klamm=median(klamm),
            peer=theirs.name,
            theirs=median(peer),
            higher_is_better=True,
            samples=len(klamm),
            mark=f">= 1/{MARK:g} of kfake" if marked else None,
            reached=median(klamm) * MARK >= median(peer) if marked else None,
            details={"klamm_min": min(klamm), "klamm_max": max(klamm), "peer_min": min(peer), "peer_max": max(peer)},
        )
        for what, klamm, peer in figures
    ]
