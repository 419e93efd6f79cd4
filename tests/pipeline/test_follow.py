"""`ingest --follow` beside a running server: the numbers grow, it ends on request, and the next run continues."""

import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import klamm
from bench.raw_client import RawClient, create_topics_frame, refuse_errors
from klamm.pipeline import jobs
from klamm.pipeline.store import Store
from tests.pipeline.logs.logs import rows

SECONDS = 300.0
_LOOK_SECONDS = 0.3


def _rows_of(path: Path) -> int:
    try:
        return int(pq.ParquetFile(path).metadata.num_rows)
    except pa.ArrowInvalid:
        return 0  # it is being written


class Work(threading.Thread):
    """Creates topics while an ingest follows, waits until the tables have them, and then ends the ingest."""

    def __init__(self, server: klamm.ServerProcess, names: list[str], data_dir: Path, out: Path) -> None:
        super().__init__()
        self.stop = threading.Event()
        self.grew_to = 0
        self.least = 1
        self._server, self._names, self._data_dir, self._out = server, names, data_dir, out

    def run(self) -> None:
        try:
            host, _, port = self._server.bootstrap_servers.split(",")[0].rpartition(":")
            with RawClient((host, int(port))) as client:
                for name in self._names:
                    refuse_errors(client.exchange(create_topics_frame(name, 5, 2)).payload)
            self.least = len(rows(self._data_dir))
            deadline = time.monotonic() + SECONDS
            while self.grew_to < self.least and time.monotonic() < deadline and not self.stop.wait(_LOOK_SECONDS):
                self.grew_to = sum(map(_rows_of, (self._out / "bronze" / "metadata_record").glob("*.parquet")))
        finally:
            self.stop.set()


def test_a_live_server_is_followed_without_loss_or_repetition(spark: SparkSession, tmp_path: Path) -> None:
    data_dir, request_log, out = tmp_path / "data", tmp_path / "requests.jsonl", tmp_path / "out"
    options = ("--brokers", "3", "--data-dir", str(data_dir), "--request-log", str(request_log))
    logs, requests = [str(data_dir)], [str(request_log)]
    with klamm.ServerProcess(*options, warm=True) as server:
        for number in range(2):
            names = [f"topic-{number}-{index}" for index in range(3)]
            work = Work(server, names, data_dir, out)
            work.start()
            counts = jobs.ingest(spark, out, logs=logs, request_logs=requests, follow=work.stop)
            work.join(SECONDS)
            assert work.grew_to >= work.least, "the tables grew while the server ran"
            assert counts["silver.topic"] == 3 * (number + 1)
            assert not spark.streams.active
    counts = jobs.ingest(spark, out, logs=logs, request_logs=requests)
    store = Store.open(out)
    offsets = Counter(
        row[0] for row in store.read(spark, "bronze", "metadata_record").select("record_offset").collect()
    )
    assert offsets == Counter(row["record_offset"] for row in rows(data_dir))
    lines = Counter(row[0] for row in store.read(spark, "bronze", "request").select("seq").collect())
    assert lines == Counter(range(len(request_log.read_bytes().splitlines())))
    assert counts["quarantine.request"] == counts["quarantine.metadata_record"] == 0
