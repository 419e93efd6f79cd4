"""Windows: row by row in all cases; tables and growing logs give the same windows for random clusters."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from klamm.pipeline import schemas, silver
from klamm.pipeline.gold import windows
from klamm.pipeline.logs.metadata_pieces import LogPart, Mark, cut_log
from klamm.pipeline.windows import growing_logs
from klamm.pipeline.windows.fold import ClosedWindow, WindowFold
from klamm.pipeline.windows.growing_logs import close_windows
from klamm.pipeline.windows.state import ClusterState, Lists, PartitionChange, Record
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


def _records(rows: list[Plain]) -> Iterator[Record]:
    for row in rows:
        change, time = row["partition"], int(row["timestamp"].timestamp() * 1_000_000)
        lists = change and [None if change[name] is None else tuple(change[name]) for name in Lists._fields]
        partition = change and PartitionChange(change["topic_id"], change["partition_index"], lists)
        yield Record(row["record_offset"], row["batch_offset"], False, time, row["type"], partition, row["body"])


def _closed(rows: list[Plain]) -> list[ClosedWindow]:
    return list(WindowFold(ClusterState()).add(_records(rows)))


def _facts(window: ClosedWindow) -> tuple[Any, ...]:
    assert window.opened is not None
    assert window.closed == window.opened + 1_000_000 * (window.closed_offset - window.opened_offset)
    borders = (window.opened_offset, window.closed_offset)
    if window.kind == "reassignment":
        return (window.outcome, *borders, window.from_replicas, window.to_replicas, window.steps)
    return (window.cause, *borders, window.wanted, window.min_isr, window.brokers)


@pytest.mark.parametrize("name", CASES)
def test_what_opens_and_closes_a_window(name: str) -> None:
    records, expected = CASES[name]
    assert [_facts(window) for window in _closed(_log(*records))] == expected


@pytest.mark.parametrize("name", CASES)
def test_the_table_has_the_same_windows(tables: list[Plain], name: str) -> None:
    assert sorted(_comparable(row) for row in tables if row["cluster_id"] == name) == sorted(
        _comparable({**window._asdict(), "cluster_id": name}) for window in _closed(_log(*CASES[name][0]))
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


def _marks(history: History) -> list[Mark]:
    """The positions behind the batches of a log."""
    return [piece.behind for piece in cut_log(history.log, None, 1)]


def _part(history: History, start: Mark | None, end: Mark) -> LogPart:
    pieces = tuple(cut_log(history.log, start, 4_000, end))
    return LogPart(history.cluster_id, history.log.folder, pieces, start, end)


def _follow(history: History, states: Path, chance: Random) -> Iterator[Plain]:
    """The closed windows of a log that is read in micro-batches of random sizes, by processes that begin anew, read
    only some of the micro-batches, or read one again that was not committed."""
    marks, start, at = _marks(history), None, -1
    processes: list[Any] = [type(growing_logs._kept)() for _ in range(2)]
    while at < len(marks) - 1:
        at = min(at + chance.choice((1, 1, 2, 5, 40)), len(marks) - 1)
        part = _part(history, start, marks[at])
        rows: list[Plain] = []
        for _ in range(chance.choice((1, 1, 1, 2))):
            index = chance.randrange(2)
            if chance.random() < 0.1:
                processes[index].clear()
            growing_logs._kept = processes[index]
            rows = [row for batch in close_windows(part, str(states)) for row in batch.to_pylist()]
        yield from rows
        start = marks[at]


@pytest.mark.parametrize("index", range(len(SEEDS + WHOLE_SEEDS)))
def test_a_growing_log_closes_the_windows_of_the_table_in_any_micro_batches(
    tables: list[Plain], histories: list[History], index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = histories[index]
    expected = sorted(_comparable(row) for row in tables if row["cluster_id"] == history.cluster_id)
    monkeypatch.setattr(growing_logs, "_kept", growing_logs._kept.copy())
    monkeypatch.setattr("klamm.pipeline.windows.state_files.MAX_CHAIN", 7)
    for seed in range(3):
        closed = list(_follow(history, tmp_path / str(seed), Random(seed)))
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
    options = {
        "logs": "\n".join(str(history.data_dir) for history in histories),
        "states": str(tmp_path / "states"),
        "maxBytesPerTrigger": "20000",
    }
    query = (
        spark.readStream.format("closed-windows")
        .options(**options)
        .load()
        .writeStream.format("memory")
        .queryName("closed")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    own = {history.cluster_id for history in histories}
    closed = [_comparable(row.asDict()) for row in spark.table("closed").collect()]
    assert len(query.recentProgress) > 1
    assert sorted(closed) == sorted(_comparable(row) for row in tables if row["cluster_id"] in own)
