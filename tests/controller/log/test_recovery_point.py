"""With the recovery point, a start distinguishes a hole that a power failure left from damage."""

from pathlib import Path

import pytest

from klamm.controller.log import CorruptLog, LogError
from klamm.controller.log.recovery_point import RECOVERY_POINT
from tests.controller.log.logs import (
    TIMESTAMP_MS,
    append_records,
    batch_starts,
    forget_recovery_point,
    open_log,
    reopened,
    segment_files,
    written_records,
)
from tests.controller.log.stories import topic

SYNCED, UNSYNCED = 3, 3


def write_partly_synced_log(data_dir: Path, segment_bytes: int = 1 << 30) -> bytes:
    """Write the LeaderChange and three batches that are durable, and three that are not."""
    log = open_log(data_dir, segment_bytes=segment_bytes)
    for number in range(SYNCED):
        append_records(log, [topic(number)], TIMESTAMP_MS)
    log.sync()
    for number in range(SYNCED, SYNCED + UNSYNCED):
        append_records(log, [topic(number)], TIMESTAMP_MS)
    log.close()
    return segment_files(data_dir)[-1].read_bytes()


def zero_batch(data_dir: Path, number: int) -> int:
    """A batch of the last segment whose page was not stored. Returns the byte at which it begins."""
    segment = segment_files(data_dir)[-1]
    data = segment.read_bytes()
    begin, end = batch_starts(data)[number : number + 2]
    segment.write_bytes(data[:begin] + bytes(end - begin) + data[end:])
    return begin


@pytest.mark.parametrize("number", [1 + SYNCED, 2 + SYNCED])
def test_a_hole_in_what_was_not_durable_is_cut_off_with_all_behind_it(tmp_path: Path, number: int) -> None:
    data = write_partly_synced_log(tmp_path)
    begin = zero_batch(tmp_path, number)
    (segment,) = segment_files(tmp_path)
    warnings: list[str] = []
    assert reopened(tmp_path, warnings.append) == [[topic(found)] for found in range(number - 1)]
    (warning,) = warnings
    tail = f"{len(data) - begin} bytes from byte {begin} on, where the batch of offset {number} began"
    assert warning.startswith(f"cut off the torn tail of {segment}: {tail}")
    sound = batch_starts(data)[number + 1]
    assert warning.endswith(f"; a sound batch at byte {sound} goes with it, for it was not durable")
    assert reopened(tmp_path) == [[topic(found)] for found in range(number - 1)]


def test_a_hole_at_the_beginning_of_a_segment_that_was_not_durable_is_cut_off(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=300)
    append_records(log, [topic(0)], TIMESTAMP_MS)
    log.sync()
    for number in (1, 2, 3):
        append_records(log, [topic(number)], TIMESTAMP_MS)
    log.close()
    last = segment_files(tmp_path)[-1]
    first = int(last.stem) - 1
    assert first > 0
    assert zero_batch(tmp_path, 0) == 0
    warnings: list[str] = []
    assert reopened(tmp_path, warnings.append) == [[topic(number)] for number in range(first)]
    assert len(warnings) == 1


@pytest.mark.parametrize("number", range(1 + SYNCED))
def test_a_hole_in_what_was_durable_is_damage(tmp_path: Path, number: int) -> None:
    write_partly_synced_log(tmp_path)
    begin = zero_batch(tmp_path, number)
    with pytest.raises(CorruptLog, match="a sound batch follows at byte") as corrupt:
        open_log(tmp_path)
    assert (corrupt.value.position, corrupt.value.offset) == (begin, number)


def test_a_log_that_lost_what_was_durable_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    data = write_partly_synced_log(tmp_path)
    (segment,) = segment_files(tmp_path)
    last = batch_starts(data)[SYNCED]
    for kept, said in (
        (data[:last], f"ends at offset {SYNCED}, and the log was durable up to offset {SYNCED + 1}$"),
        (data[: last + 70], f"; the log was durable up to offset {SYNCED + 1}$"),
    ):
        segment.write_bytes(kept)
        with pytest.raises(LogError, match=said):
            open_log(tmp_path)
        assert segment.read_bytes() == kept
    forget_recovery_point(tmp_path)
    warnings: list[str] = []
    assert reopened(tmp_path, warnings.append) == [[topic(number)] for number in range(SYNCED - 1)]


def unknown_file(path: Path) -> None:
    path.write_text("1\n")


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def of_an_older_epoch(path: Path) -> None:
    """Another program has written the log since."""
    path.write_text(path.read_text().replace(" 0000000001", " 0000000000"))


@pytest.mark.parametrize("change", [Path.unlink, unknown_file, zeros, of_an_older_epoch])
def test_without_a_recovery_point_a_hole_is_damage(tmp_path: Path, change: object) -> None:
    write_partly_synced_log(tmp_path)
    zero_batch(tmp_path, 1 + SYNCED)
    assert callable(change)
    change(tmp_path / "__cluster_metadata-0" / RECOVERY_POINT)
    with pytest.raises(CorruptLog, match="a sound batch follows at byte"):
        open_log(tmp_path)


def test_it_follows_the_syncs_and_a_start(tmp_path: Path) -> None:
    path = tmp_path / "__cluster_metadata-0" / RECOVERY_POINT
    write_partly_synced_log(tmp_path)
    assert path.read_text() == f"0\n{1 + SYNCED:020} 0000000001\n"
    log = open_log(tmp_path)
    try:
        end_offset = 1 + SYNCED + UNSYNCED + 1
        assert path.read_text() == f"0\n{end_offset:020} 0000000002\n"
        assert len(written_records(log)) == SYNCED + UNSYNCED
        append_records(log, [topic(9)], TIMESTAMP_MS)
        assert path.read_text() == f"0\n{end_offset:020} 0000000002\n"
        log.sync()
        assert path.read_text() == f"0\n{end_offset + 1:020} 0000000002\n"
    finally:
        log.close()
