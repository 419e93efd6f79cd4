"""Connections: ten thousand one after the other, and a thousand at once; and what of them is left in the server.

Each asks for ApiVersions and for Metadata of one topic, every hundredth makes a topic, too. One process of blocking
sockets asks, so that the client's cost is the same for all servers. Afterwards the server's descriptors, threads and
memory are read: descriptors must be what they were, or nothing was measured.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.processes import ServerProcess
from bench.raw_client import (
    RawClient,
    Refused,
    api_versions_frame,
    create_topics_frame,
    find_controller,
    refuse_errors,
    topic_metadata_frame,
)
from bench.rows import Row, percentile
from bench.workbench import Workbench

IN_TURN = 10_000
FEWEST_IN_TURN = 1_000
AT_ONCE = 1_000
FEWEST_AT_ONCE = 200
BLOCK = 500
"""The number of connections in turn before the next server's turn."""
CREATES_EVERY = 100
TOPIC = "orders"
SETTLE_SECONDS = 30.0
LOOK_SECONDS = 0.05
NS_PER_MS = 1e6
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Left:
    """What a server has when no client is connected."""

    resident_bytes: int
    descriptors: int
    threads: int


class Visits:
    """The results of the connections to one server, and their times in ms."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.address = find_controller(server.addresses[0])  # kfake creates topics only there
        self.in_turn_ms: list[float] = []
        self._topics = 0
        with RawClient(self.address) as client:
            refuse_errors(client.exchange(create_topics_frame(TOPIC, 3, 1)).payload)
        self.visit_in_turn(CREATES_EVERY)  # What the first ones cause stays.
        self.in_turn_ms.clear()
        self.before = settle(server, None)

    def visit_in_turn(self, count: int) -> None:
        """Connect, send the requests, disconnect; this many times."""
        for number in range(count):
            began = time.perf_counter_ns()
            with RawClient(self.address) as client:
                self._ask(client, creates=number % CREATES_EVERY == 0)
            self.in_turn_ms.append((time.perf_counter_ns() - began) / NS_PER_MS)

    def visit_at_once(self, count: int) -> float:
        """Open all connections before the first one sends a request. Returns the seconds until each has its answers."""
        began = time.perf_counter()
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(RawClient(self.address)) for _ in range(count)]
            for number, client in enumerate(clients):
                self._ask(client, creates=number % CREATES_EVERY == 0)
            return time.perf_counter() - began

    def _ask(self, client: RawClient, *, creates: bool) -> None:
        client.exchange(api_versions_frame())
        client.exchange(topic_metadata_frame(TOPIC))
        if creates:
            self._topics += 1
            refuse_errors(client.exchange(create_topics_frame(f"visit-{self._topics}", 1, 1)).payload)


def settle(server: ServerProcess, descriptors: int | None) -> Left:
    """The resources when at most this many descriptors are open. Raises Refused if they stay open."""
    give_up_at = time.monotonic() + SETTLE_SECONDS
    before = -1
    while True:
        open_now = len(list(Path(f"/proc/{server.process_id}/fd").iterdir()))
        if descriptors is None and open_now == before:
            break
        if descriptors is not None and open_now <= descriptors:
            break
        if time.monotonic() > give_up_at:
            raise Refused(f"{server.name} has {open_now} descriptors, and had {descriptors} before the connections")
        before = open_now
        time.sleep(LOOK_SECONDS)
    threads = len(list(Path(f"/proc/{server.process_id}/task").iterdir()))
    return Left(server.resident_bytes, open_now, threads)


def measure_connections(bench: Workbench) -> list[Row]:
    """Klamm and kfake in turn, both in memory."""
    in_turn = bench.samples(IN_TURN, FEWEST_IN_TURN)
    at_once = bench.samples(AT_ONCE, FEWEST_AT_ONCE)
    with bench.klamm() as klamm, bench.kfake() as kfake:
        visits = [Visits(klamm), Visits(kfake)]
        for _ in range(in_turn // BLOCK):
            for each in visits:
                each.visit_in_turn(BLOCK)
        seconds = [each.visit_at_once(at_once) for each in visits]
        left = [settle(each.server, each.before.descriptors) for each in visits]
    return list(_rows(visits, seconds, left, at_once))


def _rows(visits: list[Visits], seconds: list[float], left: list[Left], at_once: int) -> Iterator[Row]:
    ours, theirs = visits
    for percent in (50, 99):
        yield Row(
            group="connections",
            what=f"one connection of {len(ours.in_turn_ms):,} in turn, ApiVersions and Metadata asked: p{percent}",
            unit="ms",
            klamm=percentile(ours.in_turn_ms, percent),
            peer="kfake",
            theirs=percentile(theirs.in_turn_ms, percent),
            samples=len(ours.in_turn_ms),
        )
    yield Row(
        group="connections",
        what=f"{at_once:,} at once, until each is open and has its answers",
        unit="s",
        klamm=seconds[0],
        peer="kfake",
        theirs=seconds[1],
    )
    grown = [now.resident_bytes - each.before.resident_bytes for each, now in zip(visits, left, strict=True)]
    yield Row(
        group="connections",
        what="growth of memory",
        unit="MiB",
        klamm=max(0, grown[0]) / MIB,
        peer="kfake",
        theirs=max(0, grown[1]) / MIB,
        details={
            "klamm_descriptors_before": ours.before.descriptors,
            "klamm_descriptors_after": left[0].descriptors,
            "klamm_threads_before": ours.before.threads,
            "klamm_threads_after": left[0].threads,
            "kfake_descriptors_before": theirs.before.descriptors,
            "kfake_descriptors_after": left[1].descriptors,
        },
    )
