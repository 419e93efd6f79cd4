"""One request that comes to very much, or a snapshot, and who has to wait for it.

Over real sockets: one process serves, one client asks for the long thing, and another for ApiVersions and for Metadata
of one topic all the time, until the first has its answer. Nothing is beside it: kfake and Kafka take no such requests.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle

import klamm
from bench.raw_client import (
    CREATE_TOPICS_VERSION,
    SERVER_TIMEOUT_MS,
    RawClient,
    Refused,
    api_versions_frame,
    create_topics_frame,
    refuse_errors,
    request_frame,
    topic_metadata_frame,
)
from bench.reassign_frames import reassign_frame, refuse_unaltered
from bench.rows import Row, median, percentile
from bench.workbench import Workbench
from klamm.protocol.messages.topics import create_topics

MARK_WAIT_MS = 50.0
MS_PER_SECOND = 1000.0
NS_PER_SECOND = 1e9
REPLICATION_FACTOR = 3
BROKERS = 4
ROUNDS = 3
FEWEST_ROUNDS = 1
BEFORE_SECONDS = 0.5
ASKED_TOPIC = "asked"
MOVED_TOPIC = "moved"
Address = tuple[str, int]
Ready = Callable[[klamm.ServerProcess, RawClient], Callable[[], None]]
"""Prepares a server, and returns the action to be timed."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One round: its duration, and the waits of other clients during and before it, in seconds."""

    seconds: float
    waits: Sequence[float]
    waits_before: Sequence[float]


@dataclass(frozen=True, slots=True)
class LongRequest:
    """One long request, and the cluster before it."""

    what: str
    ready: Ready
    needs_disk: bool = False


def created_topics(topics: int) -> LongRequest:
    """One request that creates many topics of one partition."""

    def ready(_server: klamm.ServerProcess, client: RawClient) -> Callable[[], None]:
        new = [
            create_topics.CreatableTopic(
                name=f"orders-{number:06d}", num_partitions=1, replication_factor=REPLICATION_FACTOR
            )
            for number in range(topics)
        ]
        request = create_topics.CreateTopicsRequest(topics=new, timeout_ms=SERVER_TIMEOUT_MS)
        frame = request_frame(create_topics.API, CREATE_TOPICS_VERSION, request)
        return lambda: refuse_errors(client.exchange(frame).payload)

    return LongRequest(f"one CreateTopics of {topics:,} topics", ready)


def cancelled_moves(partitions: int) -> LongRequest:
    """One request that cancels many reassignments, which wait for a broker that is down."""

    def ready(server: klamm.ServerProcess, client: RawClient) -> Callable[[], None]:
        server.stop_broker(BROKERS)
        refuse_errors(client.exchange(create_topics_frame(MOVED_TOPIC, partitions, REPLICATION_FACTOR)).payload)
        targets = [(*range(1, REPLICATION_FACTOR), BROKERS)] * partitions
        refuse_unaltered(client.exchange(reassign_frame([MOVED_TOPIC], targets)).payload, partitions)
        frame = reassign_frame([MOVED_TOPIC], [None] * partitions)
        return lambda: refuse_unaltered(client.exchange(frame).payload, partitions)

    return LongRequest(f"cancelling {partitions:,} reassignments in one request", ready)


def snapshot_of(topics: int, partitions: int) -> LongRequest:
    """A requested snapshot of many topics with many partitions each."""

    def ready(server: klamm.ServerProcess, client: RawClient) -> Callable[[], None]:
        for number in range(topics):
            name = f"orders-{number:06d}"
            refuse_errors(client.exchange(create_topics_frame(name, partitions, REPLICATION_FACTOR)).payload)
        return lambda: _refuse_empty(server.snapshot().records, topics * partitions)

    return LongRequest(f"a snapshot of {topics:,} topics of {partitions:,} partitions", ready, needs_disk=True)


REQUESTS = (created_topics(10_000), cancelled_moves(10_000), snapshot_of(10, 100_000), snapshot_of(5_000, 1))


def measure_long_requests(bench: Workbench) -> list[Row]:
    """Each in memory, where it can be, and with a data directory, on a fresh cluster each time."""
    rows: list[Row] = []
    for request in REQUESTS:
        for durable in (False, True):
            if durable or not request.needs_disk:
                rounds = range(bench.samples(ROUNDS, FEWEST_ROUNDS))
                rows += rows_of(request, [do_request(bench, request, durable=durable) for _ in rounds], durable=durable)
    return rows


def do_request(bench: Workbench, request: LongRequest, *, durable: bool) -> Seen:
    """One round on a cluster of its own."""
    with ExitStack() as stack:
        options = ["--brokers", str(BROKERS), "--snapshot-records", "0"]
        if durable:
            options += ["--data-dir", str(stack.enter_context(bench.folder()))]
        server = stack.enter_context(klamm.ServerProcess(*options, control=True))
        host, _, port = server.bootstrap_servers.split(",")[0].rpartition(":")
        client = stack.enter_context(RawClient((host, int(port))))
        refuse_errors(client.exchange(create_topics_frame(ASKED_TOPIC, 1, 1)).payload)
        return ask_during((host, int(port)), request.ready(server, client))


def ask_during(address: Address, act: Callable[[], None]) -> Seen:
    """Send requests back to back before, and while `act` runs in a thread."""
    waits_before: list[float] = []
    waits: list[float] = []
    frames = cycle([topic_metadata_frame(ASKED_TOPIC), api_versions_frame()])
    with RawClient(address) as client, ThreadPoolExecutor(1) as threads:
        begins_at = time.monotonic() + BEFORE_SECONDS
        while time.monotonic() < begins_at:
            waits_before.append(client.exchange(next(frames)).last_byte_ns / NS_PER_SECOND)
        acting: Future[None] = threads.submit(act)
        began = time.monotonic()
        while not waits or not acting.done():
            waits.append(client.exchange(next(frames)).last_byte_ns / NS_PER_SECOND)
        seconds = time.monotonic() - began
        acting.result()
    return Seen(seconds, waits, waits_before)


def _refuse_empty(found: int, wanted: int) -> None:
    if found < wanted:
        raise Refused(f"the snapshot has {found:,} records, and there are {wanted:,} partitions")


def rows_of(request: LongRequest, seen: Sequence[Seen], *, durable: bool) -> list[Row]:
    """The waits of other clients at p99, the median of all rounds."""
    where = "data directory" if durable else "in memory"
    p99 = median([percentile(one.waits, 99) for one in seen]) * MS_PER_SECOND
    return [
        Row(
            group="long work",
            what=f"{request.what}, {where}: p99 of the waits of other requests",
            unit="ms",
            klamm=p99,
            samples=sum(len(one.waits) for one in seen),
            mark=f"<= {MARK_WAIT_MS:g} ms",
            reached=p99 <= MARK_WAIT_MS,
            details={
                "longest": max(max(one.waits) for one in seen) * MS_PER_SECOND,
                "p99_before": median([percentile(one.waits_before, 99) for one in seen]) * MS_PER_SECOND,
                "seconds": median([one.seconds for one in seen]),
            },
        )
    ]
