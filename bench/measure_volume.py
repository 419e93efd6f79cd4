"""One gigabyte in records of 1 kB through twelve partitions, written and read with confluent-kafka, also in
transactions of 10,000 records.

As `measure_records`, but one broker and one replica, so that all servers do the same work. Klamm has its default
budgets: most of the volume goes to the file for records.
"""

from collections.abc import Sequence
from contextlib import ExitStack

from bench.measure_records import Carrier
from bench.processes import ServerProcess
from bench.record_client import TRANSACTIONAL
from bench.rows import Row, median
from bench.workbench import Workbench

RECORDS = 1_000_000
RECORD_BYTES = 1_000
PARTITIONS = 12
ROUNDS = 3
WAYS = {"all": "acks=all, idempotent", TRANSACTIONAL: "transactions of 10,000"}
MARK = 2.0
MB = 1e6


def measure_volume(bench: Workbench) -> list[Row]:
    """Klamm, kfake and, if asked for, Apache Kafka, each started for a way of writing and stopped after it."""
    records, names = bench.samples(RECORDS), ["Klamm", "kfake"]
    if bench.kafka_class_path:
        names.append("Kafka")
    rows = []
    for way, title in WAYS.items():
        carried = {name: _carry(bench, name, way, records) for name in names}
        ours = carried.pop("Klamm")
        rows += [row for peer in carried.values() for row in _rows_of(ours, peer, way, title, records)]
    return rows


def _carry(bench: Workbench, name: str, way: str, records: int) -> Carrier:
    with ExitStack() as stack:
        server = stack.enter_context(_server(bench, name, stack))
        carrier = Carrier(name, server, PARTITIONS, RECORD_BYTES, replication_factor=1)
        for _ in range(ROUNDS):
            carrier.carry(way, records)
        return carrier


def _server(bench: Workbench, name: str, stack: ExitStack) -> ServerProcess:
    if name == "Klamm":
        return bench.klamm(brokers=1)
    if name == "kfake":
        return bench.kfake(brokers=1)
    return bench.kafka(stack.enter_context(bench.folder()))


def _rows_of(ours: Carrier, theirs: Carrier, way: str, title: str, records: int) -> Sequence[Row]:
    figures = [(f"produced, {title}", ours.produced[way], theirs.produced[way])]
    figures.append((f"consumed, {title}", ours.consumed, theirs.consumed))
    is_marked = theirs.name == "kfake"
    return [
        Row(
            group="volume",
            what=f"{records * RECORD_BYTES / MB:,.0f} MB of 1 kB records, 12 partitions, confluent-kafka: {what}",
            unit="MB/s",
            klamm=median(klamm) * RECORD_BYTES / MB,
            peer=theirs.name,
            theirs=median(peer) * RECORD_BYTES / MB,
            higher_is_better=True,
            samples=len(klamm),
            mark=f">= {MARK:g} × kfake" if is_marked else None,
            reached=median(klamm) >= MARK * median(peer) if is_marked else None,
        )
        for what, klamm, peer in figures
    ]
