"""One topic of 9,000 partitions, made and deleted again; then Metadata of it.

9,000 because Apache Kafka refuses more than 10,000 partitions in one request. Deleting is not timed.
"""

from collections.abc import Sequence
from contextlib import ExitStack

from bench.measure_create import NS_PER_MS
from bench.processes import ServerProcess
from bench.raw_client import (
    RawClient,
    count_partitions,
    create_topics_frame,
    delete_topics_frame,
    find_controller,
    metadata_frame,
    refuse_errors,
    refuse_failed_deletion,
)
from bench.rows import Row, median
from bench.workbench import Workbench

PARTITIONS = 9_000
ROUNDS = 11
METADATA_REQUESTS = 11
MARK = 2.0
TOPIC = "large"


def measure_large_topic(bench: Workbench) -> list[Row]:
    """RF 1 and RF 3 beside kfake in memory; RF 1 beside Apache Kafka, if asked for, with data directories."""
    rows: list[Row] = []
    for replication_factor in (1, 3):
        with ExitStack() as stack:
            peers = [stack.enter_context(bench.klamm()), stack.enter_context(bench.kfake())]
            clients = _clients(stack, peers)
            created: list[list[float]] = [[], []]
            for number in range(bench.samples(ROUNDS)):
                for index in (0, 1) if number % 2 else (1, 0):
                    created[index].append(_create(clients[index], replication_factor))
                    _delete(clients[index])
        what = f"1 topic × {PARTITIONS:,} partitions, RF {replication_factor}, in memory"
        rows.append(_row(what, "kfake", created[0], created[1], MARK, "<= 2 × kfake"))
    if bench.kafka_class_path:
        rows += _beside_kafka(bench)
    return rows


def _beside_kafka(bench: Workbench) -> list[Row]:
    """Once: a node of Apache Kafka that has had several such topics behaves differently."""
    with ExitStack() as stack:
        folders = [stack.enter_context(bench.folder()) for _ in range(2)]
        klamm = stack.enter_context(bench.klamm("--data-dir", str(folders[0])))
        kafka = stack.enter_context(bench.kafka(folders[1]))
        clients = _clients(stack, [klamm, kafka])
        for client in clients:
            refuse_errors(client.exchange(create_topics_frame("warm-up", 1, 1)).payload)
        ours, theirs = ([_create(client, 1)] for client in clients)
        ours_told: list[float] = []
        theirs_told: list[float] = []
        for _ in range(bench.samples(METADATA_REQUESTS)):
            for client, milliseconds in zip(clients, (ours_told, theirs_told), strict=True):
                milliseconds.append(_tell_all(client))
    what = f"1 topic × {PARTITIONS:,} partitions, RF 1, data directory"
    return [
        _row(what, "Kafka", ours, theirs),
        _row(f"Metadata of {PARTITIONS + 1:,} partitions", "Kafka", ours_told, theirs_told),
    ]


def _clients(stack: ExitStack, peers: Sequence[ServerProcess]) -> list[RawClient]:
    clients = [stack.enter_context(RawClient(find_controller(server.addresses[0]))) for server in peers]
    for client in clients:
        client.exchange(metadata_frame(all_topics=True))
    return clients


def _create(client: RawClient, replication_factor: int) -> float:
    exchange = client.exchange(create_topics_frame(TOPIC, PARTITIONS, replication_factor))
    refuse_errors(exchange.payload)
    return exchange.last_byte_ns / NS_PER_MS


def _delete(client: RawClient) -> None:
    refuse_failed_deletion(client.exchange(delete_topics_frame(TOPIC)).payload)


def _tell_all(client: RawClient) -> float:
    exchange = client.exchange(metadata_frame(all_topics=True))
    count_partitions(exchange.payload)
    return exchange.last_byte_ns / NS_PER_MS


def _row(
    what: str,
    peer: str,
    klamm: Sequence[float],
    other: Sequence[float],
    limit: float | None = None,
    mark: str | None = None,
) -> Row:
    ours, theirs = median(klamm), median(other)
    return Row(
        group="large topic",
        what=what,
        unit="ms",
        klamm=ours,
        peer=peer,
        theirs=theirs,
        samples=len(klamm),
        mark=mark,
        reached=None if limit is None else ours <= limit * theirs,
        details={"klamm_min": min(klamm), "klamm_max": max(klamm), "peer_min": min(other), "peer_max": max(other)},
    )
