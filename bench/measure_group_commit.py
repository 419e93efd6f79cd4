"""CreateTopics with a data directory from many connections at once: how many requests per second become durable.

Every answer waits for an fdatasync. Requests that arrive while one runs share the next: that is group commit, and it
shows as a rate that grows with the connections, and with the requests on their way on each (`depth`).
"""

import os
import selectors
import time
from contextlib import ExitStack
from pathlib import Path

from bench.processes import ServerProcess
from bench.raw_client import TIMEOUT_SECONDS, RawClient, Refused, create_topics_frame, find_controller, refuse_errors
from bench.rows import Row, median
from bench.stream_client import StreamClient
from bench.workbench import Workbench

CONNECTIONS = (1, 8, 64)
DEPTHS = (1, 16)
REQUESTS = 1_920
KAFKA_REQUESTS = 192
WARM_UP_REQUESTS = 20
SYNCS = 200
APPENDED_BYTES = 300
MS_PER_SECOND = 1000.0


def measure_group_commit(bench: Workbench) -> list[Row]:
    """Each number of connections and each depth on fresh servers with empty data directories, but for one Kafka."""
    rows = [_sync_row(bench)]
    with ExitStack() as stack:
        kafka = None
        if bench.kafka_class_path:
            kafka = stack.enter_context(bench.kafka(stack.enter_context(bench.folder())))
        for depth in DEPTHS:
            for connections in CONNECTIONS:
                rows += _measure_rate(bench, kafka, connections, depth)
    return rows


def _measure_rate(bench: Workbench, kafka: ServerProcess | None, connections: int, depth: int) -> list[Row]:
    requests = max(bench.samples(REQUESTS), connections * depth)
    with bench.folder() as folder, bench.klamm("--data-dir", str(folder)) as klamm:
        ours = create_rate(klamm, connections, depth, requests)
    with bench.folder() as folder, bench.kfake("-data-dir", str(folder)) as kfake:
        rates = {"kfake": (requests, create_rate(kfake, connections, depth, requests))}
    if kafka and connections * depth <= KAFKA_REQUESTS:
        fewer = max(bench.samples(KAFKA_REQUESTS), connections * depth)
        rates["Kafka"] = (fewer, create_rate(kafka, connections, depth, fewer))
    plural, requests_plural = "s" if connections > 1 else "", "s" if depth > 1 else ""
    return [
        Row(
            group="group commit",
            what=f"{connections} connection{plural}, {depth} request{requests_plural} in progress on each",
            unit="requests/s",
            klamm=ours,
            peer=peer,
            theirs=rate,
            higher_is_better=True,
            samples=requests,
            peer_samples=requested,
        )
        for peer, (requested, rate) in rates.items()
    ]


def create_rate(server: ServerProcess, connections: int, depth: int, requests: int) -> float:
    """Requests per second when each of `connections` clients has `depth` requests in flight; `requests` in all."""
    address = find_controller(server.addresses[0])
    share = requests // connections
    prefix = f"orders-{connections}-{depth}"
    _warm_up(address, prefix)
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        clients = []
        for number in range(connections):
            frames = [create_topics_frame(f"{prefix}-{number:02d}-{index:06d}", 1, 1) for index in range(share)]
            clients.append(stack.enter_context(StreamClient(address, frames, depth)))
            selector.register(clients[-1].socket, selectors.EVENT_READ, clients[-1])
        started = time.perf_counter()
        for client in clients:
            client.start()
        waiting = connections
        while waiting:
            ready = selector.select(TIMEOUT_SECONDS)
            if not ready:
                raise Refused(f"{server.name} gave no answer for {TIMEOUT_SECONDS:g} s")
            for key, _ in ready:
                if key.data.receive():
                    selector.unregister(key.fileobj)
                    waiting -= 1
        seconds = time.perf_counter() - started
        for client in clients:
            for answer in client.answers:
                refuse_errors(answer)
    return connections * share / seconds


def _warm_up(address: tuple[str, int], prefix: str) -> None:
    with RawClient(address) as client:
        for number in range(WARM_UP_REQUESTS):
            refuse_errors(client.exchange(create_topics_frame(f"{prefix}-warm-up-{number}", 1, 1)).payload)


def _sync_row(bench: Workbench) -> Row:
    """The time of one fdatasync of a small append on this disk: the least for a durable request that is alone."""
    with bench.folder() as folder:
        seconds = _sync_seconds(folder / "appended", bench.samples(SYNCS))
    return Row(
        group="group commit",
        what=f"an append of {APPENDED_BYTES} bytes and its fdatasync, this disk, p50",
        unit="ms",
        klamm=median(seconds) * MS_PER_SECOND,
        samples=len(seconds),
    )


def _sync_seconds(path: Path, count: int) -> list[float]:
    seconds = []
    with path.open("wb", buffering=0) as file:
        for _ in range(count):
            started = time.perf_counter()
            file.write(bytes(APPENDED_BYTES))
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - started)
    return seconds
