"""A good client among a hundred hostile ones: how long it waits, with them and without, and that every answer is right.

The hostile ones (`bench.hostile_clients`) are a process of their own: silent, slow, never reading, garbage, giants,
half frames, reconnect storms, and greedy ones that ask thousands of things at once. The good one keeps one connection
and asks one thing at a time, as fast as answers come. Every answer is decoded when the clock has stopped.
"""

import json
import math
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.hostile_clients import KINDS
from bench.processes import ROOT, Klamm
from bench.raw_client import (
    METADATA_VERSION,
    Exchange,
    RawClient,
    Refused,
    api_versions_frame,
    create_topics_frame,
    delete_topics_frame,
    many_topics_frame,
    refuse_errors,
    refuse_failed_deletion,
    topic_metadata_frame,
)
from bench.rows import Row, percentile
from bench.workbench import Workbench
from klamm.protocol.codec.requests import decode_response
from klamm.protocol.messages.topics import metadata

HOSTILE_CLIENTS = 100
TOPICS = 300
PARTITIONS = 10
REPLICATION_FACTOR = 3
TOPIC = "orders-7"
ROUNDS = 500
FEWEST_ROUNDS = 50
MARK_MS = 50.0
STOP_SECONDS = 60.0
NS_PER_MS = 1e6
GROUP = "hostile clients"


def measure_hostile(bench: Workbench) -> list[Row]:
    """All kinds at once, then each kind alone, twelve or thirteen of it; in memory."""
    each = math.ceil(HOSTILE_CLIENTS / len(KINDS))
    rounds = bench.samples(ROUNDS, FEWEST_ROUNDS)
    rows = []
    with bench.klamm() as server:
        with RawClient(server.addresses[0]) as client:
            names = [f"orders-{number}" for number in range(TOPICS)]
            refuse_errors(client.exchange(many_topics_frame(names, PARTITIONS, REPLICATION_FACTOR)).payload)
        for what, kinds in (("of all kinds at once", list(KINDS)), *((name, [name]) for name in KINDS)):
            without = ask_rightly(server, rounds)
            with hostile_clients(server, kinds, each):
                among = ask_rightly(server, rounds)
            rows.append(_row(f"{each * len(kinds)} hostile clients, {what}", among, without))
    return rows


def _row(what: str, among: list[float], without: list[float]) -> Row:
    p99 = percentile(among, 99)
    return Row(
        group=GROUP,
        what=f"{what}: waiting time of a well-behaved client, p99",
        unit="ms",
        klamm=p99,
        peer="without hostile clients",
        theirs=percentile(without, 99),
        samples=len(among),
        mark=f"<= {MARK_MS:g} ms",
        reached=p99 <= MARK_MS,
        details={"p50": percentile(among, 50), "max": max(among), "p50_without": percentile(without, 50)},
    )


def ask_rightly(server: Klamm, rounds: int) -> list[float]:
    """The time of each answer, in ms; each is checked. Raises Refused if one is wrong."""
    waits: list[float] = []

    def ask(client: RawClient, frame: bytes) -> bytes:
        exchange: Exchange = client.exchange(frame)
        waits.append(exchange.last_byte_ns / NS_PER_MS)
        return exchange.payload

    with RawClient(server.addresses[0]) as client:
        for number in range(rounds):
            name = f"good-{number}"
            ask(client, api_versions_frame())
            made = ask(client, create_topics_frame(name, 2, REPLICATION_FACTOR))
            seen = [ask(client, topic_metadata_frame(topic)) for topic in (TOPIC, name)]
            gone = ask(client, delete_topics_frame(name))
            refuse_errors(made)
            refuse_failed_deletion(gone)
            for topic, partitions, answer in zip((TOPIC, name), (PARTITIONS, 2), seen, strict=True):
                _refuse_other_metadata(answer, topic, partitions)
    return waits


def _refuse_other_metadata(answer: bytes, name: str, partitions: int) -> None:
    _, response = decode_response(metadata.API, METADATA_VERSION, answer)
    (topic,) = response.topics
    if (topic.error_code, topic.name, len(topic.partitions)) != (0, name, partitions):
        raise Refused(f"Metadata of {name}: error {topic.error_code}, {len(topic.partitions)} partitions")


@contextmanager
def hostile_clients(server: Klamm, kinds: list[str], each: int) -> Iterator[None]:
    """This many clients of each kind, all connected, during the block. Raises Refused if they failed themselves."""
    host, port = server.addresses[0]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "bench.hostile_clients", f"{host}:{port}", "--each", str(each), "--only",
         ",".join(kinds)],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(Path(ROOT))},
        text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise Refused(f"the hostile clients ended with exit code {process.wait(STOP_SECONDS)}")
        yield
        process.send_signal(signal.SIGTERM)
        output = json.loads(process.communicate(timeout=STOP_SECONDS)[0])
        if idle := [kind for kind in kinds if not output[kind]["connected"]]:
            raise Refused(f"no hostile client connected: {idle}")
    finally:
        process.kill()
        process.communicate()
