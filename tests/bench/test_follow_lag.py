"""The lag of each row is counted from the sync of its record to the end of its micro-batch. No JVM is started."""

import json
import os
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.follow_lag import SINK_LOG, Appender, Lags, Synced, lags_of, row_times
from bench.measure_pipeline import loop_over
from bench.pipeline_logs import write_log
from bench.raw_client import Refused
from klamm.controller.log.data_dir import LOG_FOLDER

SYNCED = [Synced(12, 1.0), Synced(14, 2.0)]


def test_each_record_has_the_lag_behind_the_sync_of_its_batch() -> None:
    batches = [(3.0, [8, 9, 10, 11]), (7.0, [13, 12]), (9.0, [])]
    assert lags_of(SYNCED, 10, batches) == Lags(p50=2.0, p99=5.0, longest=5.0, records=4, micro_batches=2)


@pytest.mark.parametrize("rows", [[10, 11, 12], [10, 11, 12, 13, 13], [10, 11, 12, 12]])
def test_rows_that_are_missing_or_there_twice_give_no_lag(rows: list[int]) -> None:
    with pytest.raises(Refused, match=f"{len(rows)} rows of 4 records"):
        lags_of(SYNCED, 10, [(3.0, rows)])


def test_the_rows_of_a_micro_batch_are_there_when_the_sink_says_so(tmp_path: Path) -> None:
    (tmp_path / SINK_LOG).mkdir()
    lines = []
    for number, offsets in enumerate(([1, 2], [3], [4, 5])):
        file = tmp_path / f"part {number}.parquet"
        entry = tmp_path / SINK_LOG / ("2.compact" if number == 2 else str(number))
        pq.write_table(pa.table({"record_offset": offsets, "type": ["t"] * len(offsets)}), file)
        lines.append(json.dumps({"path": file.as_uri()}))
        entry.write_text("\n".join(["v1", *(lines if number == 2 else lines[-1:])]))
        os.utime(entry, (0, 100 + number))
        (tmp_path / SINK_LOG / f".{number}.crc").write_text("")
    assert sorted(row_times(tmp_path)) == [(100.0, [1, 2]), (101.0, [3]), (102.0, [4, 5])]


def test_a_log_grows_by_sound_batches_at_the_rate(tmp_path: Path) -> None:
    begin, done = write_log(tmp_path, 1_000), threading.Event()
    (segment,) = (tmp_path / LOG_FOLDER).glob("*.log")
    appender = Appender(segment, begin, 20_000, 0.2, done)
    started = time.time()
    appender.start()
    appender.join()
    assert done.is_set()
    assert all(one.at >= started + (one.end - begin) / 20_000 for one in appender.synced)
    end = appender.synced[-1].end
    assert end - begin in range(1_000, 6_000, 1_000)
    assert loop_over([tmp_path], tmp_path / "rows.parquet") == end
    rows = pq.read_table(tmp_path / "rows.parquet", columns=["record_offset", "problem"])
    assert rows["problem"].null_count == len(rows)
