"""The data sources inside Spark: table and stream have the same rows, however they are split, stopped and started."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from klamm.pipeline.errors import PipelineError
from klamm.pipeline.jobs import MAX_STARTS, is_slow_start
from klamm.pipeline.sources.kraft_log import KraftLogReader, KraftLogStream
from klamm.pipeline.sources.request_log import RequestLogStream
from klamm.protocol.fields import Message
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.pipeline.logs.logs import encoded, rows, write_log
from tests.pipeline.logs.test_request_logs import line
from tests.pipeline.logs.test_request_logs import rows as request_rows

TOPIC = Uuid(bytes(range(16)))


def topics(count: int) -> list[list[Message]]:
    return [
        [TopicRecord(name=f"t{n}", topic_id=TOPIC)]
        + [PartitionRecord(partition_id=p, topic_id=TOPIC, replicas=[1, 2]) for p in range(40)]
        for n in range(count)
    ]


def read(spark: SparkSession, source: str, logs: Path, **options: str) -> list[str]:
    """Each row as text, in the order that Spark returns."""
    reader = spark.read.format(source).options(**options).option("logs", str(logs))
    return sorted(row.json for row in reader.load().selectExpr("to_json(struct(*)) AS json").collect())


def stream(spark: SparkSession, source: str, logs: Path, work: Path, **options: str) -> int:
    """Read what is new into work/rows, with a checkpoint. Returns the number of micro-batches."""
    reader = spark.readStream.format(source).options(**options).option("logs", str(logs))
    writer = reader.load().selectExpr("to_json(struct(*)) AS json").writeStream.format("parquet")
    query = writer.option("checkpointLocation", str(work / "checkpoint")).trigger(availableNow=True)
    batches = 0
    for starts_left in reversed(range(MAX_STARTS)):
        started = query.start(str(work / "rows"))
        try:
            assert started.awaitTermination(600)
        except PySparkException as error:
            if not starts_left or not is_slow_start(error):
                raise
        batches += len([progress for progress in started.recentProgress if progress.numInputRows])
        if started.exception() is None:
            break
    return batches


def streamed(spark: SparkSession, work: Path) -> list[str]:
    return sorted(row.json for row in spark.read.schema("json string").parquet(str(work / "rows")).collect())


def in_batches(reader: Any, *, limit: int, start: Mapping[str, Any] | None = None) -> tuple[list[Any], dict[str, Any]]:
    """The calls that Spark makes of a stream's reader, with a restart at every micro-batch; offsets are converted to
    JSON and back."""
    found: list[Any] = []
    at: dict[str, Any] = dict(start or {})
    while True:
        fresh = reader()
        end = json.loads(json.dumps(fresh.latestOffset(at, ReadMaxBytes(limit) if limit else ReadAllAvailable())))
        if end == at:
            return found, at
        made = [
            [row for share in reader().partitions(at, end) for b in fresh.read(share) for row in b.to_pylist()]
            for _ in range(2)
        ]
        assert made[0] == made[1]  # A micro-batch that is repeated after a crash is the same.
        found += made[0]
        at = end


def test_metadata_logs_as_table_and_as_stream(spark: SparkSession, tmp_path: Path) -> None:
    parts = encoded(topics(6))
    damaged = b"".join(parts[:3]) + b"junk" * 30 + b"".join(parts[3:])
    log = write_log(tmp_path / "log", damaged)
    expected = read(spark, "kraft-log", log)
    assert len(expected) == len(rows(log)) == 1 + 6 * 41 + 1
    assert read(spark, "kraft-log", log, pieceBytes="1") == expected
    assert spark.read.format("kraft-log").load(str(log)).count() == len(expected)
    wanted = read(spark, "kraft-log", log, types="TopicRecord")
    assert Counter(json.loads(text)["type"] for text in wanted) == {"TopicRecord": 6, "corrupt": 1}

    segment = log / f"{0:020}.log"
    work = tmp_path / "work"
    segment.write_bytes(damaged[:-5])  # the last batch is torn
    assert stream(spark, "kraft-log", log, work, maxBytesPerTrigger="4000") > 1
    assert len(streamed(spark, work)) == len(expected) - 41
    segment.write_bytes(damaged)
    assert stream(spark, "kraft-log", log, work, pieceBytes="100") == 1
    assert stream(spark, "kraft-log", log, work) == 0
    assert streamed(spark, work) == expected


def test_why_pushdown_has_to_be_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    """Spark 4.2 stores with the DataFrame what it pushed down. If a later version does not, pushdown can be the
    default."""
    log = write_log(tmp_path, b"".join(encoded(topics(3))))
    all_rows = 1 + 3 * 41
    plain = spark.read.format("kraft-log").option("logs", str(log)).load()
    assert plain.where("type = 'TopicRecord'").count() == 3
    assert plain.count() == all_rows
    pushed = spark.read.format("kraft-log").option("logs", str(log)).option("pushdown", "true").load()
    assert pushed.where("type IN ('TopicRecord', 'LeaderChangeMessage')").count() == 4
    assert pushed.count() == 4


def test_request_logs_as_table_and_as_stream(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "requests.jsonl"
    log.parent.mkdir()
    whole = b"".join(line(n) for n in range(30)) + b"alien\n" + b"".join(line(n) for n in range(30, 60))
    log.write_bytes(whole)
    expected = read(spark, "request-log", log)
    assert len(expected) == 61
    assert read(spark, "request-log", log.parent, pieceBytes="1000") == expected

    work = tmp_path / "work"
    log.write_bytes(whole[:-7])  # half a line
    assert stream(spark, "request-log", log, work, maxBytesPerTrigger="8000") > 1
    assert len(streamed(spark, work)) == 60
    with log.open("ab") as file:
        file.write(whole[-7:])
    log.rename(log.with_name("requests.jsonl.1"))
    log.write_bytes(line(60))
    assert stream(spark, "request-log", log, work) == 1
    assert sorted(json.loads(text).get("seq", -1) for text in streamed(spark, work)) == list(range(-1, 61))


@pytest.mark.parametrize(
    ("source", "options", "told"),
    [
        ("kraft-log", {}, "kraft-log needs the option logs: paths, one to a line"),
        ("request-log", {}, "request-log needs the option logs: paths, one to a line"),
        ("kraft-log", {"logs": "/", "pieceBytes": "many"}, "option pieceBytes is a number of bytes, not 'many'"),
        ("kraft-log", {"logs": "/missing"}, "cannot read metadata log /missing: No such file or directory"),
        ("request-log", {"logs": "/missing"}, "cannot read request log /missing: No such file or directory"),
    ],
)
def test_what_cannot_be_read_says_so(spark: SparkSession, source: str, options: dict[str, str], told: str) -> None:
    with pytest.raises(PySparkException) as raised:
        spark.read.format(source).options(**options).load().count()
    assert f"pipeline.errors.PipelineError: {told}" in str(raised.value)


@pytest.mark.parametrize("name", ["pieceBytes", "maxBytesPerTrigger"])
@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "9" * 30, "٣"])
def test_numbers_that_are_none_are_refused(name: str, text: str) -> None:
    for kind in (KraftLogStream, RequestLogStream):
        with pytest.raises(PipelineError, match=f"option {name} is a number of bytes, not "):
            kind({"logs": "/somewhere", name: text})


def test_a_stream_started_anew_at_every_batch_has_each_row_once(tmp_path: Path) -> None:
    parts = encoded(topics(5))
    log = write_log(tmp_path, b"".join(parts[:2]) + b"junk" * 20 + b"".join(parts[2:]))
    for limit, piece_bytes in [(1, "1"), (3000, "500"), (5000, "1000000"), (0, "700")]:
        options = {"logs": str(tmp_path), "pieceBytes": piece_bytes}
        found, end = in_batches(lambda given=options: KraftLogStream(given), limit=limit)
        assert found == rows(log)
        assert in_batches(lambda given=options: KraftLogStream(given), limit=limit, start=end) == ([], end)


def test_a_stream_of_requests_started_anew_at_every_batch_has_each_line_once(tmp_path: Path) -> None:
    log = tmp_path / "r.jsonl"
    log.with_name("r.jsonl.1").write_bytes(b"".join(line(n) for n in range(9)))
    log.write_bytes(b"".join(line(n) for n in range(9, 20)) + b"half a line")
    for limit, piece_bytes in [(1, "1"), (3000, "500"), (0, "700")]:
        options = {"logs": str(log), "pieceBytes": piece_bytes}
        found, _ = in_batches(lambda given=options: RequestLogStream(given), limit=limit)
        assert found == request_rows(log)


def test_logs_that_come_and_go_keep_their_place(tmp_path: Path) -> None:
    first, second = (
        write_log(tmp_path / "a", *encoded(topics(1))[:1]),
        write_log(tmp_path / "b", *encoded(topics(1))[:1]),
    )
    (second / "meta.properties").write_text("cluster.id=another\n")

    def reader(*logs: Path) -> Callable[[], KraftLogStream]:
        return lambda: KraftLogStream({"logs": "\n".join(map(str, logs))})

    found, at = in_batches(reader(first), limit=0)
    more, at = in_batches(reader(first, second), limit=0, start=at)
    assert {row["cluster_id"] for row in more} == {"another"}
    assert in_batches(reader(second), limit=0, start=at) == ([], at)
    assert in_batches(reader(second, first), limit=0, start=at) == ([], at)
    assert len(found) == len(more) == 1
    (second / "meta.properties").write_text("cluster.id=a third\n")
    with pytest.raises(PipelineError, match="was the log of cluster another, and is that of a third by now"):
        in_batches(reader(second), limit=0, start=at)


def test_a_copy_of_a_log_that_was_read_is_refused(tmp_path: Path) -> None:
    first, copy = (write_log(tmp_path / name, *encoded(topics(1))[:1]) for name in ("first", "copy"))
    _, at = in_batches(lambda: KraftLogStream({"logs": str(first)}), limit=0)
    with pytest.raises(PipelineError, match=f"was read from {next(iter(at))}: give that folder, or ingest .*/copy"):
        in_batches(lambda: KraftLogStream({"logs": str(copy)}), limit=0, start=at)


def test_available_now_reads_what_was_there_at_its_start(tmp_path: Path) -> None:
    parts = encoded(topics(2))
    write_log(tmp_path, parts[0] + parts[1])
    reader = KraftLogStream({"logs": str(tmp_path)})
    reader.prepareForTriggerAvailableNow()
    write_log(tmp_path, b"".join(parts))
    end = reader.latestOffset({}, ReadAllAvailable())
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert end[str(tmp_path)]["offset"] == 42


def test_each_log_is_looked_at_as_often_among_many_as_among_few(tmp_path: Path) -> None:
    """Counted as opened files and listed folders, by Python's audit hook, not as time."""
    parts = b"".join(encoded(topics(1)))
    for n in range(200):
        write_log(tmp_path / f"{n}", parts)
        (tmp_path / f"{n}" / "meta.properties").write_text(f"cluster.id={n}\n")
    looks = {count: _looks(tmp_path, count, len(parts)) for count in (20, 200)}
    assert looks[20]["kraft-log"] > 0
    assert {name: 10 * number for name, number in looks[20].items()} == looks[200]


def _looks(folder: Path, count: int, log_bytes: int) -> dict[str, int]:
    """How many files and folders are opened to plan this number of logs: as a table, and as a stream."""
    logs = "\n".join(str(folder / f"{n}") for n in range(count))
    options = {"logs": logs, "pieceBytes": str(log_bytes * 20)}
    with _audited(str(folder)) as seen:
        shares = KraftLogReader(options).partitions()
        as_table = len(seen)
        stream_reader = KraftLogStream(options)
        end = stream_reader.latestOffset({}, ReadAllAvailable())
        offset_of_stream = len(seen) - as_table
        planned = stream_reader.partitions({}, end)
        plan_of_stream = len(seen) - as_table - offset_of_stream
    assert [len(share.pieces) for share in shares] == [20] * (count // 20)
    assert [len(share.pieces) for share in planned] == [20] * (count // 20)
    assert len(end) == count
    assert len(json.dumps(end)) < count * 300
    return {"kraft-log": as_table, "offset": offset_of_stream, "plan": plan_of_stream}


_listeners: list[Callable[[str], None]] = []


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir"):
        for listener in _listeners:
            listener(str(arguments[0]))


@contextmanager
def _audited(prefix: str) -> Iterator[list[str]]:
    """The files that are opened and the folders that are listed below a folder."""
    if not _hooked:
        sys.addaudithook(_hear)  # until the end of the process, because an audit hook cannot be removed
        _hooked.append(True)
    seen: list[str] = []

    def listen(path: str) -> None:
        if path.startswith(prefix):
            seen.append(path)

    _listeners.append(listen)
    try:
        yield seen
    finally:
        _listeners.remove(listen)


_hooked: list[bool] = []
