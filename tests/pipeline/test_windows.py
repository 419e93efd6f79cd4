"""Windows: row by row in all cases; tables and processors give the same windows for random clusters."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.tws_tester import TwsTester

from klamm.pipeline import schemas, silver
from klamm.pipeline.gold import windows
from klamm.pipeline.logs.metadata_pieces import cut_log
from klamm.pipeline.logs.metadata_rows import read_pieces
from klamm.pipeline.windows.fold import READ_TYPES, ClosedWindow, WindowFold
from klamm.pipeline.windows.processor import ClusterWindows, closed_windows
from tests.pipeline.histories import SEEDS, WHOLE_SEEDS, History

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
Plain = dict[str, Any]


def _log(*records: Plain) -> list[Plain]:
    """Records of one topic with partition 0, each in a batch of its own, one second apart."""
    return [
        {
            "record_offset": offset,
            "batch_offset": offset,
            "snapshot_position": None,
            "problem": None,
            "timestamp": BEGIN + timedelta(seconds=offset),
            "partition": None,
            "body": None,
            **record,
        }
        for offset, record in enumerate(({"type": "TopicRecord", "body": '{"topicId":"T","name":"t"}'}, *records))
    ]


def _partition(kind: str, **fields: Any) -> Plain:
    lists: Plain = dict.fromkeys(("replicas", "isr", "adding_replicas", "removing_replicas"))
    return {"type": kind, "partition": {"topic_id": "T", "partition_index": 0, **lists, **fields}}


def _made(**fields: Any) -> Plain:
    sound = {"replicas": [1, 2, 3], "isr": [1, 2, 3], "adding_replicas": [], "removing_replicas": []}
    return _partition("PartitionRecord", **{**sound, **fields})


def _changed(**fields: Any) -> Plain:
    return _partition("PartitionChangeRecord", **fields)


def _broker(**fields: int) -> Plain:
    reported = ",".join(f'"{name}":{value}' for name, value in {"brokerId": 3, "brokerEpoch": 1, **fields}.items())
    return {"type": "BrokerRegistrationChangeRecord", "body": f"{{{reported}}}"}


def _fencing(kind: str) -> Plain:
    return {"type": kind, "body": '{"id":3,"epoch":1}'}


REMOVED = {"type": "RemoveTopicRecord", "body": '{"topicId":"T"}'}
MOVE = {"replicas": [1, 2, 3, 4], "adding_replicas": [4], "removing_replicas": [3]}
ENDED: Plain = {"adding_replicas": [], "removing_replicas": []}
CASES: dict[str, tuple[list[Plain], list[tuple[Any, ...]]]] = {
    "none": ([_made(), _changed(isr=[1, 2, 3])], []),
    "a replica falls behind, and catches up": (
        [_made(), _changed(isr=[1, 2]), _changed(isr=[1, 2, 3])],
        [("isr", 2, 3, 3, 2, [3])],
    ),
    "two fall behind, one after the other": (
        [_made(), _changed(isr=[1, 2]), _changed(isr=[1]), _changed(isr=[1, 2, 3])],
        [("isr", 2, 4, 3, 1, [2, 3])],
    ),
    "a broker is fenced": (
        [_made(), _broker(fenced=1), _changed(isr=[1, 2]), _broker(fenced=-1), _changed(isr=[1, 2, 3])],
        [("fenced", 3, 5, 3, 2, [3])],
    ),
    "a broker is fenced as before Kafka 3.3": (
        [_made(), _fencing("FenceBrokerRecord"), _changed(isr=[1, 2]), _fencing("UnfenceBrokerRecord"),
         _changed(isr=[1]), _changed(isr=[1, 2, 3])],
        [("fenced", 3, 5, 3, 2, [3]), ("isr", 5, 6, 3, 1, [2, 3])],
    ),
    "a broker shuts down": (
        [_made(), _broker(inControlledShutdown=1), _changed(isr=[1, 2]), _changed(isr=[1, 2, 3])],
        [("fenced", 3, 4, 3, 2, [3])],
    ),
    "fenced behind what follows from it, in one batch": (
        [_made(), _changed(isr=[1, 2]), {**_broker(fenced=1), "batch_offset": 2}, _changed(isr=[1, 2, 3])],
        [("fenced", 2, 4, 3, 2, [3])],
    ),
    "back, but not caught up with all": (
        [_made(), _broker(fenced=1), _changed(isr=[1, 2]), _broker(fenced=-1), _changed(isr=[1]),
         _changed(isr=[1, 2, 3])],
        [("fenced", 3, 5, 3, 2, [3]), ("isr", 5, 6, 3, 1, [2, 3])],
    ),
    "a placeholder, from creation to fill": (
        [_made(replicas=[1, 2, -1], isr=[1, 2]), _changed(replicas=[1, 2, 3]), _changed(isr=[1, 2, 3])],
        [("placeholder", 1, 2, 3, 2, [-1]), ("isr", 2, 3, 3, 2, [3])],
    ),
    "deleted while it lacks": ([_made(), _changed(isr=[1]), REMOVED], [("isr", 2, 3, 3, 1, [2, 3])]),
    "still open": ([_made(), _changed(isr=[1])], []),
    "a move that is done, no replica lacking": (
        [_made(), _changed(**MOVE), _changed(isr=[1, 2, 3, 4], replicas=[1, 2, 4], **ENDED)],
        [("done", 2, 3, [1, 2, 3], [1, 2, 4], 1)],
    ),
    "in steps": (
        [_made(), _changed(**MOVE), _changed(isr=[1, 2, 3, 4]), _changed(replicas=[1, 2, 4], isr=[1, 2, 4], **ENDED)],
        [("done", 2, 4, [1, 2, 3], [1, 2, 4], 2)],
    ),
    "cancelled": (
        [_made(), _changed(**MOVE), _changed(replicas=[1, 2, 3], **ENDED)],
        [("cancelled", 2, 3, [1, 2, 3], [1, 2, 4], 1)],
    ),
    "superseded": (
        [
            _made(),
            _changed(**MOVE),
            _changed(replicas=[1, 2, 3, 5], adding_replicas=[5], removing_replicas=[3]),
            _changed(replicas=[1, 2, 5], isr=[1, 2, 5], **ENDED),
        ],
        [("superseded", 2, 3, [1, 2, 3], [1, 2, 4], 1), ("done", 3, 4, [1, 2, 3], [1, 2, 5], 1)],
    ),
    "nothing to copy: over at once": (
        [_made(), _changed(replicas=[1, 2], isr=[1, 2]), _changed(replicas=[2, 1])],
        [("done", 2, 2, [1, 2, 3], [1, 2], 1), ("done", 3, 3, [1, 2], [2, 1], 1)],
    ),
    "its topic deleted": ([_made(), _changed(**MOVE), REMOVED], [("deleted", 2, 3, [1, 2, 3], [1, 2, 4], 1)]),
    "in a transaction that is aborted": (
        [_made(), {"type": "BeginTransactionRecord"}, _changed(isr=[1]), {"type": "AbortTransactionRecord"},
         _changed(isr=[1, 2]), _changed(isr=[1, 2, 3])],
        [("isr", 5, 6, 3, 2, [3])],
    ),
    "in a transaction that ends": (
        [_made(), {"type": "BeginTransactionRecord"}, _changed(isr=[1]), {"type": "EndTransactionRecord"},
         _changed(isr=[1, 2, 3])],
        [("isr", 3, 5, 3, 1, [2, 3])],
    ),
}  # fmt: skip


def _facts(window: ClosedWindow) -> tuple[Any, ...]:
    assert (window.closed - window.opened).seconds == window.closed_offset - window.opened_offset
    borders = (window.opened_offset, window.closed_offset)
    if window.kind == "reassignment":
        return (window.outcome, *borders, window.from_replicas, window.to_replicas, window.steps)
    return (window.cause, *borders, window.wanted, window.min_isr, window.brokers)


@pytest.mark.parametrize("name", CASES)
def test_what_opens_and_closes_a_window(name: str) -> None:
    records, expected = CASES[name]
    closed = list(WindowFold({}, lambda _: None).add(_log(*records)))
    assert [_facts(window) for window in closed] == expected


@pytest.mark.parametrize("name", CASES)
def test_the_table_has_the_same_windows(tables: list[Plain], name: str) -> None:
    assert sorted(_comparable(row) for row in tables if row["cluster_id"] == name) == sorted(
        _comparable({**window._asdict(), "cluster_id": name})
        for window in WindowFold({}, lambda _: None).add(_log(*CASES[name][0]))
    )


def _comparable(row: Plain) -> str:
    """A closed window as text; its kind decides which columns it has."""
    kept = (
        *("kind", "topic_id", "partition_index", "topic", "opened_offset", "closed_offset", "cause", "wanted"),
        *("min_isr", "brokers", "outcome", "from_replicas", "to_replicas", "steps"),
    )
    return repr([row["cluster_id"], *(row.get(name) for name in kept)])


@pytest.fixture(scope="module")
def tables(spark: SparkSession, histories: list[History]) -> list[Plain]:
    """The closed windows of gold, of all cases and histories."""
    cases = [{"cluster_id": name, **row} for name, (records, _) in CASES.items() for row in _log(*records)]
    by_hand = spark.createDataFrame(
        [tuple(_filled(row).get(name) for name in schemas.METADATA_RECORD.names) for row in cases],
        schemas.METADATA_RECORD,
    )
    paths = "\n".join(str(history.data_dir) for history in histories)
    bronze = spark.read.format("kraft-log").option("logs", paths).load().unionByName(by_hand).localCheckpoint()
    records = silver.sound_records(bronze)
    topics = silver.topics(records).localCheckpoint()
    versions = silver.partition_versions(records, topics).localCheckpoint()
    found = (
        ("under_replication", windows.under_replication(versions, silver.broker_versions(records))),
        ("reassignment", windows.reassignments(versions)),
    )
    closing = {
        "under_replication": ("opened_offset", "closed_offset"),
        "reassignment": ("started_offset", "ended_offset"),
    }
    rows = [{"kind": kind, **row.asDict()} for kind, table in found for row in table.collect()]
    for row in rows:
        row["opened_offset"], row["closed_offset"] = (row[name] for name in closing[row["kind"]])
    return [row for row in rows if row["closed_offset"] is not None]


def _filled(row: Plain) -> Plain:
    partition = row["partition"]
    if partition is None:
        return row
    names = schemas.PARTITION_FIELDS.names
    is_new = row["type"] == "PartitionRecord"
    epochs = dict.fromkeys(("leader", "leader_epoch", "partition_epoch"), 0) if is_new else {}
    return {**row, "partition": tuple({**partition, **epochs}.get(name) for name in names)}


def _batches(history: History) -> list[list[Plain]]:
    """The rows of a log that the processor reads, batch by batch."""
    rows = [
        row
        for piece in cut_log(history.log, None, 1 << 62)
        for batch in read_pieces([piece])
        for row in batch.to_pylist()
        if row["type"] in READ_TYPES
    ]
    batches: dict[tuple[bool, int], list[Plain]] = {}
    for row in rows:
        batches.setdefault((row["snapshot_position"] is None, row["batch_offset"]), []).append(row)
    return list(batches.values())


def _micro_batches(batches: Sequence[list[Plain]], chance: Random) -> Iterator[list[Plain]]:
    at = 0
    while at < len(batches):
        count = chance.choice((1, 1, 2, 5, 40))
        rows = [row for batch in batches[at : at + count] for row in batch]
        chance.shuffle(rows)
        yield rows
        at += count


@pytest.mark.parametrize("index", range(len(SEEDS + WHOLE_SEEDS)))
def test_the_processor_closes_the_windows_of_the_table_in_any_micro_batches(
    tables: list[Plain], histories: list[History], index: int
) -> None:
    history = histories[index]
    expected = sorted(_comparable(row) for row in tables if row["cluster_id"] == history.cluster_id)
    for seed in range(3):
        tester = TwsTester(ClusterWindows())
        closed = [
            row.asDict()
            for rows in _micro_batches(_batches(history), Random(seed))
            for row in tester.test(history.cluster_id, [Row(**row) for row in rows])
        ]
        assert sorted(map(_comparable, closed)) == expected


def test_the_histories_have_windows_of_every_sort(tables: list[Plain], histories: list[History]) -> None:
    own = {history.cluster_id for history in histories}
    found = {
        row["cause"] if row["kind"] == "under_replication" else row["outcome"]
        for row in tables
        if row["cluster_id"] in own
    }
    assert found >= {"isr", "fenced", "placeholder", "done", "cancelled", "superseded", "deleted"}


def test_a_stream_closes_the_windows_of_the_table(
    spark: SparkSession, tables: list[Plain], histories: list[History], tmp_path: Path
) -> None:
    paths = "\n".join(str(history.data_dir) for history in histories)
    stream = spark.readStream.format("kraft-log").option("logs", paths).option("maxBytesPerTrigger", "20000").load()
    query = (
        closed_windows(stream)
        .writeStream.format("memory")
        .queryName("closed")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    own = {history.cluster_id for history in histories}
    closed = [_comparable(row.asDict()) for row in spark.table("closed").collect()]
    assert len(query.recentProgress) > 1
    assert sorted(closed) == sorted(_comparable(row) for row in tables if row["cluster_id"] in own)
