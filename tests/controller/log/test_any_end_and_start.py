"""Logs that end anywhere before damaged snapshots, and logs that start anywhere within a segment."""

from pathlib import Path

import pytest

from klamm.controller.log import LogError, SegmentLog
from klamm.controller.log.recovery_point import RECOVERY_POINT
from tests.controller.log.logs import TIMESTAMP_MS, append_records, memory_dir, open_log, segment_files
from tests.controller.log.test_readers import expected_end, on_disk, topics

RECORDS = 8


def append(log: SegmentLog, number: int) -> None:
    append_records(log, topics(number), TIMESTAMP_MS)
    log.sync()


def with_damaged_snapshots(data_dir: Path, ends: list[int], log_end: int) -> None:
    """A log with its history and with damaged snapshots of these end offsets. Its segments from `log_end` on are
    removed, and its recovery point, which would refuse a log that ends early in any case."""
    log = open_log(data_dir, segment_bytes=1, keep_history=True)
    for number in range(1, RECORDS):
        if number in ends:
            log.begin_snapshot(roll=True).write([topics(*range(number))], TIMESTAMP_MS)
        append(log, number)
    log.close()
    for path in data_dir.glob("*/*.checkpoint"):
        path.write_bytes(path.read_bytes()[:-1])
    for path in [*segment_files(data_dir)[log_end:], *data_dir.glob(f"*/{RECOVERY_POINT}")]:
        path.unlink()


@pytest.mark.parametrize("log_end", range(1, RECORDS + 1))
@pytest.mark.parametrize("ends", [[3], [3, 6], [2, 4, 6]], ids=str)
def test_damaged_snapshots_are_passed_over_only_where_the_log_reaches_the_newest(
    tmp_path: Path, ends: list[int], log_end: int
) -> None:
    """Otherwise records below the end of the newest snapshot would be lost."""
    with_damaged_snapshots(tmp_path, ends, log_end)
    warnings: list[str] = []
    if log_end < ends[-1]:
        with pytest.raises(LogError, match=f"the rest of the log ends at offset {log_end}$"):
            open_log(tmp_path, warn=warnings.append)
    else:
        log = open_log(tmp_path, warn=warnings.append)
        assert (log.snapshot, log.end_offset) == (None, log_end + 1)
        assert len(warnings) == len(ends)
        log.close()


@pytest.mark.parametrize("epochs", range(1, 5))
def test_a_log_that_starts_amid_a_segment_answers_by_what_is_behind_its_start(epochs: int) -> None:
    """Epochs that ended below the start are unknown, and the one that contains it begins there."""
    for records in range(3):
        with memory_dir() as data_dir:
            for number in range(epochs):
                log = open_log(data_dir)
                append(log, number)
                if number == epochs - 1:
                    log.begin_snapshot(roll=False).write([topics(*range(number + 1))], TIMESTAMP_MS)
                for _ in range(records):
                    append(log, number)
                log.close()
            log = open_log(data_dir)
            reader = log.reader()
            assert len(segment_files(data_dir)) == 1
            assert reader.start_offset > 1
            behind = [batch for batch in on_disk(data_dir) if batch.base_offset >= reader.start_offset]
            for epoch in range(-1, epochs + 3):
                assert reader.end_of_epoch(epoch) == expected_end(behind, epoch), epoch
            log.close()
