"""What a reader for the event loop answers: all that needs neither records nor a file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.metadata_log_reader import NeedsThread, OffsetNotInLog, SnapshotId
from tests.controller.log.logs import TIMESTAMP_MS, append_records
from tests.controller.log.test_readers import ALL, expected_end, memory_log, on_disk, starts, topics, written


@given(starts, st.integers(1, 700))
def test_on_the_event_loop_no_file_is_read(numbers: list[list[int]], segment_bytes: int) -> None:
    """What has not been indexed since the start, and all records, need a thread."""
    with written(numbers, segment_bytes) as (log, data_dir):
        ours, reader, batches = log.reader().on_event_loop(), log.reader(), on_disk(data_dir)
        assert (ours.start_offset, ours.end_offset) == (reader.start_offset, reader.end_offset)
        assert ours.read(ours.end_offset, ALL) == b""
        newest = len(numbers)
        assert ours.end_of_epoch(newest) == expected_end(batches, newest)
        for offset in range(ours.end_offset):
            with pytest.raises(NeedsThread):
                ours.read(offset, 1)
        with pytest.raises(OffsetNotInLog):
            ours.read(ours.end_offset + 1, ALL)
        with pytest.raises(NeedsThread):
            ours.read_snapshot(SnapshotId(1, 1), 0, 1)
        if newest > 1:
            with pytest.raises(NeedsThread):
                ours.end_of_epoch(newest - 1)
            reader.end_of_epoch(0)
            assert ours.end_of_epoch(newest - 1) == expected_end(batches, newest - 1)


def test_on_the_event_loop_a_log_in_memory_returns_no_records() -> None:
    """Its records would not wait for the turns of large responses."""
    memory = memory_log()
    append_records(memory, topics(1), TIMESTAMP_MS)
    ours = memory.reader().on_event_loop()
    assert ours.read(ours.end_offset, ALL) == b""
    assert ours.end_of_epoch(1) == memory.reader().end_of_epoch(1)
    with pytest.raises(NeedsThread):
        ours.read(0, ALL)
    with pytest.raises(NeedsThread):
        ours.read_snapshot(SnapshotId(1, 1), 0, 1)
