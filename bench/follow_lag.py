"""The lag of `ingest --follow`: from the moment at which a record is on the disk until its row is in bronze.

A thread appends batches to a metadata log at a steady rate, and syncs each. Spark's sink writes a file in
`_spark_metadata` for every micro-batch: from then on, its rows are part of the table. Nothing is polled, so the
measurement costs the pipeline no time.
"""

import math
import os
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.pipeline_logs import RECORDS_PER_TOPIC, topic_batches, write_log
from bench.raw_client import Refused
from klamm.controller.log.data_dir import LOG_FOLDER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS_PER_SECOND: Final = 5_000
STREAMS: Final = 2
"""Bronze, and the windows that close."""
START_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.1
SINK_LOG: Final = "_spark_metadata"


class Synced(NamedTuple):
    """All records below `end` are on the disk at this time."""

    end: int
    at: float


class Appender(threading.Thread):
    """Appends the batches of more topics to a log that `write_log` has made, at a rate, for some seconds, as soon as
    `is_awaited` says that the log is followed. Then it sets `done`."""

    def __init__(
        self,
        segment: Path,
        end: int,
        rate: int,
        seconds: float,
        done: threading.Event,
        is_awaited: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__()
        self._is_awaited = is_awaited
        self.synced: list[Synced] = []
        self.latest_by = 0.0
        """The seconds by which the batch that was latest was behind its time."""
        self._segment, self._end, self._rate, self._seconds, self._done = segment, end, rate, seconds, done

    def run(self) -> None:
        try:
            give_up_at = time.monotonic() + START_SECONDS
            while not self._is_awaited():
                if time.monotonic() > give_up_at:
                    return
                time.sleep(_POLL_SECONDS)
            with self._segment.open("ab", buffering=0) as file:
                self._append(file.fileno())
        finally:
            self._done.set()

    def _append(self, fd: int) -> None:
        start, begin, end = time.time(), self._end, self._end
        topic = begin // RECORDS_PER_TOPIC
        while time.time() < start + self._seconds:
            for data, count in topic_batches(topic, end):
                due = start + (end + count - begin) / self._rate
                time.sleep(max(0.0, due - time.time()))
                os.write(fd, data)
                os.fsync(fd)
                end += count
                self.synced.append(Synced(end, time.time()))
                self.latest_by = max(self.latest_by, time.time() - due)
            topic += 1


class Lags(NamedTuple):
    """Seconds, over all records that were appended."""

    p50: float
    p99: float
    longest: float
    records: int
    micro_batches: int


def measure_follow_lag(spark: "SparkSession", folder: Path, seconds: float, rate: int = RECORDS_PER_SECOND) -> Lags:
    """Follow a log that grows. Raises Refused if the appender cannot keep its rate, or a row is missing."""
    from klamm.pipeline import jobs

    log, out, done = folder / "followed", folder / "followed-out", threading.Event()
    begin = write_log(log, RECORDS_PER_TOPIC)
    (segment,) = (log / LOG_FOLDER).glob("*.log")
    appender = Appender(segment, begin, rate, seconds, done, lambda: _wait_for_data(spark))
    appender.start()
    counts = jobs.ingest(spark, out, logs=[str(log)], follow=done)
    appender.join()
    if not appender.synced:
        raise Refused(f"the streams did not start within {START_SECONDS:g} s")
    if appender.latest_by > 1:
        raise Refused(f"the log was appended {appender.latest_by:.1f} s behind its rate")
    if (wanted := appender.synced[-1].end) != counts["bronze.metadata_record"]:
        raise Refused(f"{counts['bronze.metadata_record']} rows instead of {wanted}")
    batches = row_times(out / "bronze" / "metadata_record")
    return lags_of(appender.synced, begin, batches)


def _wait_for_data(spark: "SparkSession") -> bool:
    """Whether both streams of `ingest` have read what there was: the start of a stream is no lag."""
    streams = spark.streams.active
    return len(streams) == STREAMS and all(
        stream.lastProgress is not None and not stream.status["isTriggerActive"] for stream in streams
    )


def row_times(table: Path) -> list[tuple[float, list[int]]]:
    """For each micro-batch, the time from which its rows are in the table, and their offsets."""
    import json
    from urllib.parse import unquote, urlsplit

    import pyarrow.parquet as pq

    found: list[tuple[float, list[int]]] = []
    seen: set[str] = set()
    entries = [entry for entry in (table / SINK_LOG).iterdir() if entry.name.partition(".")[0].isdigit()]
    for entry in sorted(entries, key=lambda entry: int(entry.name.partition(".")[0])):
        # Every tenth file, N.compact, has also the lines of all earlier ones.
        files = [json.loads(line)["path"] for line in entry.read_text().splitlines()[1:]]
        offsets = [
            offset
            for file in files
            if file not in seen
            for offset in pq.read_table(unquote(urlsplit(file).path), columns=["record_offset"])[0].to_pylist()
        ]
        seen.update(files)
        found.append((entry.stat().st_mtime, offsets))
    return found


def lags_of(synced: Sequence[Synced], begin: int, batches: Sequence[tuple[float, Sequence[int]]]) -> Lags:
    """The lags of the records from offset `begin` on. Raises Refused if a record has no row, or several."""
    ends = [one.end for one in synced]
    lags, offsets = [], []
    for time_of_rows, rows in batches:
        new = [offset for offset in rows if offset >= begin]
        offsets += new
        lags += [time_of_rows - synced[bisect_right(ends, offset)].at for offset in new]
    if sorted(offsets) != list(range(begin, ends[-1])):
        raise Refused(f"{len(offsets)} rows of {ends[-1] - begin} records")
    lags.sort()
    p50, p99, longest = (lags[math.ceil(share * len(lags)) - 1] for share in (0.5, 0.99, 1))
    return Lags(p50, p99, longest, len(lags), sum(any(offset >= begin for offset in rows) for _, rows in batches))
