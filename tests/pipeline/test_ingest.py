"""`ingest` from a controller's data directory to tables: repeated, with damage, and after a kill."""

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import klamm
from bench.raw_client import RawClient, create_topics_frame, refuse_errors
from klamm.pipeline import jobs
from klamm.pipeline.errors import PipelineError
from klamm.pipeline.store import MARKER, Store
from klamm.protocol.records.partitions import PartitionChangeRecord
from tests.pipeline.logs.logs import encoded, rows, write_log
from tests.pipeline.logs.test_request_logs import line
from tests.pipeline.test_sources import TOPIC, topics

ROOT = Path(__file__).parents[2]
KILL_SECONDS = 240


def offsets(spark: SparkSession, out: Path) -> list[int]:
    records = Store.open(out).read(spark, "bronze", "metadata_record")
    return sorted(row.record_offset for row in records.select("record_offset").collect())


def test_what_a_controller_did_is_in_the_tables(spark: SparkSession, tmp_path: Path) -> None:
    data_dir, request_log, out = tmp_path / "data", tmp_path / "requests.jsonl", tmp_path / "out"
    options = ("--brokers", "3", "--data-dir", str(data_dir), "--request-log", str(request_log))
    names: list[str] = []
    counts: dict[str, int] = {}
    for partitions in (2, 5):
        names.append(f"topic-{partitions}")
        with klamm.ServerProcess(*options, warm=True) as server:
            host, _, port = server.bootstrap_servers.split(",")[0].rpartition(":")
            with RawClient((host, int(port))) as client:
                refuse_errors(client.exchange(create_topics_frame(names[-1], partitions, 2)).payload)
        counts = jobs.ingest(spark, out, logs=[str(data_dir)], request_logs=[str(request_log)])
        assert counts["bronze.metadata_record"] == len(rows(data_dir))
        assert counts["bronze.request"] == len(request_log.read_bytes().splitlines())
        assert counts["silver.topic"] == len(names)
        assert counts["quarantine.metadata_record"] == counts["quarantine.request"] == 0
    assert jobs.ingest(spark, out, logs=[str(data_dir)], request_logs=[str(request_log)]) == counts
    store = Store.open(out)
    assert sorted(row["name"] for row in store.read(spark, "silver", "topic").collect()) == sorted(names)
    assert offsets(spark, out) == [row["record_offset"] for row in rows(data_dir)]


def test_quarantine_other_logs_and_overwrite(spark: SparkSession, tmp_path: Path) -> None:
    parts = encoded(topics(2))
    log = write_log(tmp_path / "log", parts[0] + b"junk" * 30 + parts[1])
    requests, out = tmp_path / "requests.jsonl", tmp_path / "out"
    requests.write_bytes(line(1) + b"alien\n")
    counts = jobs.ingest(spark, out, logs=[str(log)], request_logs=[str(requests)])
    assert {name: count for name, count in counts.items() if not name.startswith("silver")} == {
        "bronze.metadata_record": 43,
        "bronze.request": 2,
        "quarantine.metadata_record": 1,
        "quarantine.request": 1,
    }
    store = Store.open(out)
    (damaged,) = store.read(spark, "quarantine", "metadata_record").collect()
    assert (damaged.file, damaged.record_offset, bytes(damaged.raw)) == (f"{0:020}.log", 1, b"junk" * 30)
    assert damaged.problem.endswith("are no batch of offset 1, and a sound one follows")
    (alien,) = store.read(spark, "quarantine", "request").collect()
    assert (alien.file, alien.line, alien.raw) == ("requests.jsonl", len(line(1)), "alien")

    other = write_log(tmp_path / "other", b"".join(parts))
    (other / "meta.properties").write_text("cluster.id=other\n")
    assert jobs.ingest(spark, out, logs=[str(other)])["bronze.metadata_record"] == 43 + 83
    assert jobs.ingest(spark, out, logs=[str(log), str(other)])["bronze.metadata_record"] == 43 + 83
    assert jobs.ingest(spark, out, logs=[str(other)], overwrite=True)["bronze.metadata_record"] == 83

    (other / f"{0:020}.log").write_bytes(parts[0])
    with pytest.raises(PipelineError) as raised:  # reported by the source, from inside Spark
        jobs.ingest(spark, out, logs=[str(other)])
    assert str(raised.value) == f"{other}/{0:020}.log is shorter than the part that was read: it is another log"


def test_follow_reads_on_until_it_is_told(spark: SparkSession, tmp_path: Path) -> None:
    parts = encoded(topics(2))
    log, out, stop = write_log(tmp_path / "log", parts[0]), tmp_path / "out", threading.Event()
    reported: list[str] = []

    def grow(what: str) -> None:
        reported.append(what)
        if what == "reading the logs":
            write_log(log, b"".join(parts))
            stop.set()

    counts = jobs.ingest(spark, out, logs=[str(log)], follow=stop, progress=grow)
    assert counts["bronze.metadata_record"] == 83
    assert reported[0] == "reading the logs"
    assert not spark.streams.active


def test_an_output_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(PipelineError, match="holds something else than tables of klamm pipeline"):
            Store.create(tmp_path, {}, overwrite=overwrite)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(PipelineError, match=r"cannot write to .*: Not a directory"):
        Store.create(tmp_path / "thesis.txt" / "out", {})
    with pytest.raises(PipelineError, match="holds no tables"):
        Store.open(tmp_path)


def test_an_output_directory_that_was_half_emptied_is_emptied(tmp_path: Path) -> None:
    Store.create(tmp_path / "out", {"logs": ["a"]})
    (tmp_path / "out" / "bronze").mkdir()
    (tmp_path / "out" / MARKER).write_text('{"layout": 1, "being_emptied": true}')
    with pytest.raises(PipelineError, match="ingest again"):
        Store.open(tmp_path / "out")
    Store.create(tmp_path / "out", {"logs": ["a"]})
    assert [path.name for path in (tmp_path / "out").iterdir()] == [MARKER]
    for content in ("{", "[]", '{"layout": 0}'):
        (tmp_path / "out" / MARKER).write_text(content)
        with pytest.raises(PipelineError, match=r"cannot read|another version"):
            Store.create(tmp_path / "out", {"logs": ["b"]})


def test_nothing_is_made_of_logs_that_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", encoded(topics(1))[0])
    replica = write_log(tmp_path / "replica", encoded(topics(1))[0])
    (tmp_path / "empty").mkdir()
    out = tmp_path / "out"
    for logs, requests, reported in [
        ([], [], "nothing to ingest"),
        ([log, replica], [], "are both logs of cluster"),
        ([tmp_path / "empty"], [], "holds no metadata log"),
        ([log], [tmp_path / "empty"], "holds no request log"),
    ]:
        with pytest.raises(PipelineError, match=reported):
            jobs.ingest(spark, out, logs=[*map(str, logs)], request_logs=[*map(str, requests)])
    assert not out.exists()


def test_a_machine_that_is_too_busy_is_told_after_some_starts_without_progress(tmp_path: Path) -> None:
    slow = RuntimeError("[STREAM_FAILED] Query ended: Python worker failed to connect back. SQLSTATE: XXKST")
    assert jobs._reason(slow).startswith("this machine is too busy: ")
    store = Store.create(tmp_path / "out", {})
    done = [jobs._batches_done(store)]
    for table, batch in (("request", 0), ("metadata_record", 7), ("metadata_record", 10)):
        commits = Path(store.checkpoint(table)) / "commits"
        commits.mkdir(parents=True, exist_ok=True)
        (commits / str(batch)).write_text("v1")
        (commits / f".{batch}.crc").write_text("")
        done.append(jobs._batches_done(store))
    assert done == [0, 1, 9, 12]


KILLED = """
import os, sys
from pathlib import Path
from klamm.pipeline import jobs, session
with session.spark_session("local[1]", {"spark.driver.memory": "512m"}, short=True) as spark:
    jobs.Store.create(Path(sys.argv[2]), {})
    store = jobs.Store.open(Path(sys.argv[2]))
    tables = (("kraft-log", "bronze", "metadata_record"), ("closed-windows", "live", "closed_window"))
    queries = []
    for source, layer, table in tables:
        stream = spark.readStream.format(source).option("logs", sys.argv[1]).option("maxBytesPerTrigger", "3000")
        stream = stream.option("states", store.checkpoint("window_state")).load()
        writer = stream.writeStream.format("parquet").option("checkpointLocation", store.checkpoint(table))
        queries.append(writer.trigger(availableNow=True).start(store.path(layer, table)))
    for query, (_, _, table) in zip(queries, tables):
        while len(list(Path(store.checkpoint(table), "offsets").glob("[0-9]*"))) < 3:
            query.awaitTermination(0.1)  # raises what has failed
    print("killed", flush=True)
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_driver_left_is_repaired(spark: SparkSession, tmp_path: Path) -> None:
    """Killed in the middle of micro-batches: the next run repeats them, and each record and window exists once."""
    in_sync = [PartitionChangeRecord(partition_id=p, topic_id=TOPIC, isr=[1, 2]) for p in range(40)]
    batches = [batch for topic in topics(12) for batch in (topic, in_sync)]
    log, out = write_log(tmp_path / "log", b"".join(encoded(batches))), tmp_path / "out"
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    command = [sys.executable, str(script), str(log.resolve()), str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    killed = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=KILL_SECONDS, check=False, cwd=tmp_path
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert "killed" in killed.stdout
    stop = threading.Event()
    stop.set()
    counts = jobs.ingest(spark, out, logs=[str(log)], follow=stop)
    assert counts["bronze.metadata_record"] == 1 + 12 * 81
    assert Counter(offsets(spark, out)) == Counter(range(1 + 12 * 81))
    windows = Store.open(out).read(spark, "live", "closed_window").collect()
    # A partition is in sync 40 records after its creation.
    created = [1 + 81 * topic + 1 + p for topic in range(12) for p in range(40)]
    assert sorted((row.opened_offset, row.closed_offset) for row in windows) == [(at, at + 40) for at in created]
