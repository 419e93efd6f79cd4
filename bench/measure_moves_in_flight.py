"""What 1,000 moves under way cost: processor time of the server, and how long a client waits that asks now and then.

Each partition has records, and each follower fetches so few of them in a second that no move is complete before it is
all over. With moves and without take turns, on one server: moves begin, and are cancelled. Only Klamm is measured.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import cycle

from confluent_kafka import Producer

from bench.measure_create import NS_PER_MS
from bench.processes import Klamm
from bench.raw_client import (
    RawClient,
    Refused,
    api_versions_frame,
    create_topics_frame,
    refuse_errors,
    topic_metadata_frame,
)
from bench.reassign_frames import assigned_topic_frame, count_listed, list_frame, reassign_frame, refuse_unaltered
from bench.rows import Row, median, percentile
from bench.workbench import Workbench

MOVES = 1_000
RECORDS = 500
"""In each partition."""
RATE = 5
"""Records that a follower fetches per second: a reassignment takes 100 s."""
ROUNDS = 3
WATCHED_SECONDS, QUICK_WATCHED_SECONDS = 5.0, 0.5
"""Once without a client, and once with one."""
PAUSE_SECONDS = 0.01
"""Seconds between two requests of the client."""
BROKERS = 3
FLUSH_SECONDS = 60.0
MARK_PERCENT = 5.0
PERCENT = 100
MARK_RATIO = 1.25
"""What counts as served as before: that much is between two runs of the same, too."""
TOPIC, ASKED_TOPIC = "moving", "asked"
WITHOUT = "Klamm without moves"


@dataclass(slots=True)
class Seen:
    """What was seen of the server, with moves or without."""

    cpu_percent: list[float] = field(default_factory=list)
    """Of one core, while nobody asked; one for each round."""
    waits_ms: list[float] = field(default_factory=list)


def measure_moves_in_flight(bench: Workbench) -> list[Row]:
    """Each round on a fresh server."""
    seconds = QUICK_WATCHED_SECONDS if bench.quick else WATCHED_SECONDS
    moving, still = Seen(), Seen()
    for number in range(bench.samples(ROUNDS, 1)):
        watch_moves(bench, moving, still, moves=MOVES, seconds=seconds, moving_first=bool(number % 2))
    return rows_of(moving, still, MOVES)


def watch_moves(
    bench: Workbench, moving: Seen, still: Seen, *, moves: int, seconds: float, moving_first: bool = False
) -> None:
    """One round. Raises Refused if a move was over before it had been watched."""
    with ExitStack() as stack:
        server = stack.enter_context(bench.klamm("--replication-rate", str(RATE), brokers=BROKERS))
        client = stack.enter_context(RawClient(server.addresses[0]))
        # One replica each: no follower is behind before anything moves.
        homes = [(index % BROKERS + 1,) for index in range(moves)]
        refuse_errors(client.exchange(assigned_topic_frame(TOPIC, homes)).payload)
        refuse_errors(client.exchange(create_topics_frame(ASKED_TOPIC, 1, 1)).payload)
        _write(server, moves)
        begin = reassign_frame([TOPIC], [(home % BROKERS + 1,) for (home,) in homes])
        cancel = reassign_frame([TOPIC], [None] * moves)
        for seen in (moving, still) if moving_first else (still, moving):
            if seen is moving:
                refuse_unaltered(client.exchange(begin).payload, moves)
            _watch(server, client, seen, seconds)
            if seen is moving:
                if (listed := count_listed(client.exchange(list_frame(None)).payload)) != moves:
                    raise Refused(f"{listed:,} of {moves:,} moves are under way")
                refuse_unaltered(client.exchange(cancel).payload, moves)


def _write(server: Klamm, partitions: int) -> None:
    """Records into each partition of the topic that moves."""
    servers = ",".join(f"{host}:{port}" for host, port in server.addresses)
    failed: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "acks": "1",
            "queue.buffering.max.messages": partitions * RECORDS,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failed.append(error),
        }
    )
    for index in range(partitions):
        for _ in range(RECORDS):
            producer.produce(TOPIC, b"ten bytes!", partition=index)
    if remaining := producer.flush(FLUSH_SECONDS):
        raise Refused(f"{remaining:,} records were not taken in {FLUSH_SECONDS:g} s")
    if failed:
        raise Refused(f"{len(failed):,} records were refused: {failed[0]}")


def _watch(server: Klamm, client: RawClient, seen: Seen, seconds: float) -> None:
    started, spent = time.perf_counter(), server.cpu_seconds
    time.sleep(seconds)
    seen.cpu_percent.append(PERCENT * (server.cpu_seconds - spent) / (time.perf_counter() - started))
    frames = cycle([topic_metadata_frame(ASKED_TOPIC), api_versions_frame()])
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        time.sleep(PAUSE_SECONDS)
        seen.waits_ms.append(client.exchange(next(frames)).last_byte_ns / NS_PER_MS)


def rows_of(moving: Seen, still: Seen, moves: int) -> list[Row]:
    """With moves beside without."""
    what = f"{moves:,} moves in progress"
    cpu, cpu_still = median(moving.cpu_percent), median(still.cpu_percent)
    rows = [
        Row(
            group="reassign",
            what=f"{what}: processor time without requests",
            unit="% of a core",
            klamm=cpu,
            peer=WITHOUT,
            theirs=cpu_still,
            samples=len(moving.cpu_percent),
            mark=f"<= {MARK_PERCENT:g} %",
            reached=cpu <= MARK_PERCENT,
            details={"klamm_max": max(moving.cpu_percent), "peer_max": max(still.cpu_percent)},
        )
    ]
    for name, percent, ratio in (("p50", 50, MARK_RATIO), ("p99", 99, None)):
        wait, wait_still = percentile(moving.waits_ms, percent), percentile(still.waits_ms, percent)
        rows.append(
            Row(
                group="reassign",
                what=f"{what}: a client with few requests, {name}",
                unit="ms",
                klamm=wait,
                peer=WITHOUT,
                theirs=wait_still,
                samples=len(moving.waits_ms),
                peer_samples=len(still.waits_ms),
                mark=None if ratio is None else f"<= {ratio:g} × without",
                reached=None if ratio is None else wait <= ratio * wait_still,
                details=_longest(moving.waits_ms, still.waits_ms),
            )
        )
    return rows


def _longest(waits: Sequence[float], still: Sequence[float]) -> dict[str, float]:
    return {"klamm_max": max(waits), "peer_max": max(still)}
