"""Metadata of all topics of a cluster of 100,000 partitions, in three shapes.

Two clocks: the client's, from its request to the last byte of the answer, for the comparison; and the server's own,
from its request log, which ends when the answer is free to leave.
"""

import json
from contextlib import ExitStack
from pathlib import Path

from bench.measure_create import NS_PER_MS
from bench.raw_client import (
    Exchange,
    RawClient,
    Refused,
    count_partitions,
    create_topics_frame,
    find_controller,
    many_topics_frame,
    metadata_frame,
    refuse_errors,
)
from bench.rows import Row, median
from bench.workbench import Workbench

SHAPES = ((1, 100_000), (100, 1_000), (1_000, 100), (10_000, 10))
TOPICS_PER_REQUEST = 100
REPLICATION_FACTOR = 3
REQUESTS = 15
WARM_UP_REQUESTS = 2
MARK_MS = 50.0
MICROSECONDS_PER_MS = 1000.0
BYTES_PER_MB = 1_000_000


def measure_metadata(bench: Workbench) -> list[Row]:
    """Each shape on fresh servers, the requests in turn."""
    return [row for topics, partitions in SHAPES for row in _measure_shape(bench, topics, partitions)]


def _measure_shape(bench: Workbench, topics: int, partitions: int) -> list[Row]:
    with ExitStack() as stack:
        log = stack.enter_context(bench.folder()) / "requests.jsonl"
        with ExitStack() as running:
            servers = [
                running.enter_context(bench.klamm("--request-log", str(log))),
                running.enter_context(bench.kfake()),
            ]
            clients = [running.enter_context(RawClient(find_controller(server.addresses[0]))) for server in servers]
            for client in clients:
                _fill(client, topics, partitions)
            for client in clients:
                _warm_up(client, topics * partitions)
            rounds = [
                client.exchange(metadata_frame(all_topics=True))
                for _ in range(bench.samples(REQUESTS))
                for client in clients
            ]
            resident = [server.resident_bytes / BYTES_PER_MB for server in servers]
        # Read after the server has ended, when every line is written.
        inside = _milliseconds_inside(log, len(rounds) // 2)
    ours, theirs = rounds[::2], rounds[1::2]
    return _rows(f"{topics:,} × {partitions:,}", ours, theirs, inside, resident)


def _rows(
    shape: str, ours: list[Exchange], theirs: list[Exchange], inside: list[float], resident: list[float]
) -> list[Row]:
    last = median([exchange.last_byte_ns / NS_PER_MS for exchange in ours])
    return [
        Row(
            group="metadata",
            what=f"{shape} partitions, RF {REPLICATION_FACTOR}: request to last byte",
            unit="ms",
            klamm=last,
            peer="kfake",
            theirs=median([exchange.last_byte_ns / NS_PER_MS for exchange in theirs]),
            samples=len(ours),
            mark=f"<= {MARK_MS:g} ms",
            reached=last <= MARK_MS,
            details={
                "klamm_first_byte": median([exchange.first_byte_ns / NS_PER_MS for exchange in ours]),
                "peer_first_byte": median([exchange.first_byte_ns / NS_PER_MS for exchange in theirs]),
                "answer_bytes": len(ours[0].payload),
            },
        ),
        Row(
            group="metadata",
            what=f"{shape} partitions: inside the server",
            unit="ms",
            klamm=median(inside),
            samples=len(inside),
            mark=f"<= {MARK_MS:g} ms",
            reached=median(inside) <= MARK_MS,
            details={"klamm_min": min(inside), "klamm_max": max(inside)},
        ),
        Row(
            group="metadata",
            what=f"{shape} partitions: resident memory afterwards",
            unit="MB",
            klamm=resident[0],
            peer="kfake",
            theirs=resident[1],
        ),
    ]


def _fill(client: RawClient, topics: int, partitions: int) -> None:
    names = [f"orders-{number:06d}" for number in range(topics)]
    if topics == 1:
        refuse_errors(client.exchange(create_topics_frame(names[0], partitions, REPLICATION_FACTOR)).payload)
        return
    for start in range(0, topics, TOPICS_PER_REQUEST):
        frame = many_topics_frame(names[start : start + TOPICS_PER_REQUEST], partitions, REPLICATION_FACTOR)
        refuse_errors(client.exchange(frame).payload)


def _warm_up(client: RawClient, partitions: int) -> None:
    answers = [client.exchange(metadata_frame(all_topics=True)) for _ in range(WARM_UP_REQUESTS)]
    if partitions != count_partitions(answers[-1].payload):
        raise Refused("Metadata does not tell of all partitions")


def _milliseconds_inside(log: Path, requests: int) -> list[float]:
    """The server's own times of the last `requests` Metadata requests."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    metadata = [line["microseconds"] / MICROSECONDS_PER_MS for line in lines if line["api"] == "Metadata"]
    return metadata[-requests:]
