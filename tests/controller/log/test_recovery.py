"""After any change of the files, a start finds everything that is intact, or its error names the damage."""

import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.controller.log import CorruptLog, LogError
from klamm.controller.log.epoch import encode_leader_change
from klamm.controller.log.segment_files import walk_batches
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import CorruptBatch, check_batch, encode_batch
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.controller.log.logs import (
    TIMESTAMP_MS,
    appends,
    batch_starts,
    forget_recovery_point,
    fresh_dir,
    open_log,
    reopened,
    segment_files,
    with_last_delta,
    write_log,
)

FEW = settings(max_examples=max(5, settings.default.max_examples // 10) if settings.default else 5)
"""For property tests that try every byte of a file within one example."""


def topics(count: int) -> list[list[TopicRecord]]:
    return [[TopicRecord(name=f"topic-{n}", topic_id=Uuid(n.to_bytes(16, "big")))] for n in range(count)]


def replace_log(data_dir: Path, *segments: bytes) -> None:
    """The same data directory as its process left it, with other bytes in its segments."""
    shutil.copy(data_dir / "quorum-state", data_dir / "__cluster_metadata-0" / "quorum-state")
    for extra in segment_files(data_dir)[len(segments) :]:
        extra.unlink()
    forget_recovery_point(data_dir)
    for path, data in zip(segment_files(data_dir), segments, strict=True):
        path.write_bytes(data)


def keep_quorum_state(data_dir: Path) -> None:
    shutil.copy(data_dir / "__cluster_metadata-0" / "quorum-state", data_dir / "quorum-state")


@FEW
@given(st.lists(appends, min_size=1, max_size=4))
def test_a_cut_anywhere_in_the_last_batch_keeps_all_others_and_nothing_half(
    batches: list[Sequence[Message]],
) -> None:
    with fresh_dir() as data_dir:
        write_log(data_dir, batches)
        keep_quorum_state(data_dir)
        (segment,) = segment_files(data_dir)
        data = segment.read_bytes()
        *_, last, end = batch_starts(data)
        for cut in range(last, end):
            replace_log(data_dir, data[:cut])
            warnings: list[str] = []
            assert reopened(data_dir, warnings.append) == [list(records) for records in batches[:-1]]
            assert segment.read_bytes()[:last] == data[:last]
            if cut == last:
                assert warnings == []
            else:
                (warning,) = warnings
                assert f"{segment}: {cut - last} bytes from byte {last} on" in warning
        replace_log(data_dir, data)
        assert reopened(data_dir) == [list(records) for records in batches]


def records_or_corruption(data_dir: Path, warnings: list[str]) -> list[list[Message]] | CorruptLog:
    try:
        return reopened(data_dir, warnings.append)
    except CorruptLog as error:
        return error


@FEW
@given(st.lists(appends, min_size=2, max_size=3), st.integers(1, 255))
def test_any_flipped_byte_is_reported_where_it_is_or_was_in_the_last_batch(
    batches: list[Sequence[Message]], mask: int
) -> None:
    with fresh_dir() as data_dir:
        write_log(data_dir, batches)
        keep_quorum_state(data_dir)
        (segment,) = segment_files(data_dir)
        data = segment.read_bytes()
        starts = batch_starts(data)
        for position in range(len(data)):
            flipped = bytearray(data)
            flipped[position] ^= mask
            replace_log(data_dir, bytes(flipped))
            batch = max(start for start in starts if start <= position)
            warnings: list[str] = []
            found = records_or_corruption(data_dir, warnings)
            if isinstance(found, CorruptLog):
                # A higher epoch in the batch that begins one is noticed only by the batch after it.
                following = starts[starts.index(batch) + 1]
                assert found.position == batch or (12 <= position - batch < 16 and found.position == following)
                assert f"{segment} is corrupt at byte {found.position}, where the batch of offset" in str(found)
                assert segment.read_bytes() == flipped
            else:
                assert batch == starts[-2]
                assert len(warnings) == 1
                assert found == [list(records) for records in batches[:-1]]


def test_a_broken_batch_before_a_sound_one_is_never_cut_off(tmp_path: Path) -> None:
    """Even if the damage hides where the next batch begins."""
    write_log(tmp_path, topics(5))
    (segment,) = segment_files(tmp_path)
    data = segment.read_bytes()
    starts = batch_starts(data)
    for broken_length in (b"\0\0\0\0", b"\0\0\0\1", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"):
        segment.write_bytes(data[: starts[2] + 8] + broken_length + data[starts[2] + 12 :])
        with pytest.raises(CorruptLog, match=f"a sound batch follows at byte {starts[3]}$") as corrupt:
            open_log(tmp_path)
        assert (corrupt.value.path, corrupt.value.position, corrupt.value.offset) == (segment, starts[2], 2)


def test_a_missing_batch_is_a_hole(tmp_path: Path) -> None:
    write_log(tmp_path, topics(5))
    (segment,) = segment_files(tmp_path)
    data = segment.read_bytes()
    starts = batch_starts(data)
    segment.write_bytes(data[: starts[2]] + data[starts[3] :])
    with pytest.raises(CorruptLog, match="it has offsets 3 to 3") as corrupt:
        open_log(tmp_path)
    assert (corrupt.value.position, corrupt.value.offset) == (starts[2], 2)


@pytest.mark.parametrize("base_offset", [2, 4])
def test_a_batch_of_another_place_at_the_end_is_a_hole_too(tmp_path: Path, base_offset: int) -> None:
    write_log(tmp_path, topics(2))
    (segment,) = segment_files(tmp_path)
    end = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(encode_batch(base_offset, 1, TIMESTAMP_MS, topics(1)[0]))
    with pytest.raises(CorruptLog) as corrupt:
        open_log(tmp_path)
    assert (corrupt.value.position, corrupt.value.offset) == (end, 3)


@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_an_epoch_changes_with_a_control_batch_only_and_grows(tmp_path: Path, epoch: int) -> None:
    for _ in range(2):
        open_log(tmp_path).close()
    (segment,) = segment_files(tmp_path)
    with segment.open("ab") as file:
        file.write(encode_batch(2, epoch, TIMESTAMP_MS, topics(1)[0]))
    with pytest.raises(CorruptLog, match=f"leader epoch {epoch} inside of epoch 2"):
        open_log(tmp_path)


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 5000, b"\xff" * 200, b"garbage", random.Random(7).randbytes(3 << 20)])
def test_a_tail_that_is_no_batch_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    write_log(tmp_path, topics(3))
    (segment,) = segment_files(tmp_path)
    end = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(tail)
    warnings: list[str] = []
    assert reopened(tmp_path, warnings.append) == topics(3)
    (warning,) = warnings
    assert f"{len(tail)} bytes from byte {end} on, where the batch of offset 4 began" in warning
    assert reopened(tmp_path) == topics(3)


def three_segments(data_dir: Path) -> list[Path]:
    write_log(data_dir, topics(5), segment_bytes=200)
    files = segment_files(data_dir)
    assert [path.stem[-1] for path in files] == ["0", "2", "4"]
    return files


def test_a_missing_segment_is_an_error(tmp_path: Path) -> None:
    files = three_segments(tmp_path)
    files[1].unlink()
    with pytest.raises(
        LogError, match=f"^offsets 2 to 3 are missing before segment {files[2]}, and no snapshot replaces them$"
    ):
        open_log(tmp_path)


def test_a_missing_first_segment_is_an_error(tmp_path: Path) -> None:
    files = three_segments(tmp_path)
    files[0].unlink()
    with pytest.raises(
        LogError, match=f"^offsets 0 to 1 are missing before segment {files[1]}, and no snapshot replaces them$"
    ):
        open_log(tmp_path)


def test_a_segment_that_repeats_offsets_is_an_error(tmp_path: Path) -> None:
    files = three_segments(tmp_path)
    shutil.copy(files[0], files[0].with_name(f"{1:020}.log"))
    with pytest.raises(LogError, match="begins before the end of the one before it"):
        open_log(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "flip", "grow"])
def test_a_damaged_end_of_a_full_segment_is_no_torn_tail(tmp_path: Path, damage: str) -> None:
    files = three_segments(tmp_path)
    data = files[1].read_bytes()
    damaged = {"cut": data[:-1], "flip": data[:-1] + b"\x55", "grow": data + b"\0"}[damage]
    files[1].write_bytes(damaged)
    with pytest.raises(CorruptLog, match=r"another segment follows$") as corrupt:
        open_log(tmp_path)
    assert corrupt.value.path == files[1]
    assert files[1].read_bytes() == damaged


def test_a_tail_may_be_torn_before_a_segment_that_was_never_written(tmp_path: Path) -> None:
    files = three_segments(tmp_path)
    os.truncate(files[-2], files[-2].stat().st_size - 1)
    os.truncate(files[-1], 0)
    forget_recovery_point(tmp_path)
    warnings: list[str] = []
    assert reopened(tmp_path, warnings.append) == topics(2)
    assert len(warnings) == 1
    assert reopened(tmp_path) == topics(2)


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    write_log(tmp_path, topics(2))
    folder = tmp_path / "__cluster_metadata-0"
    others = [
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "1.log",
        "a.log",
    ]
    for name in others:
        (folder / name).write_bytes(b"not ours")
    assert reopened(tmp_path) == topics(2)
    assert all((folder / name).read_bytes() == b"not ours" for name in others)


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_log_begins_with_a_control_batch(tmp_path: Path, epoch: int) -> None:
    open_log(tmp_path).close()
    (segment,) = segment_files(tmp_path)
    segment.write_bytes(encode_batch(0, epoch, TIMESTAMP_MS, topics(1)[0]))
    with pytest.raises(CorruptLog, match=f"leader epoch {epoch} inside of epoch 0"):
        open_log(tmp_path)


def appended(data_dir: Path, batch: bytes) -> str:
    """The result of a start from a log with one more batch at its end."""
    (segment,) = segment_files(data_dir)
    with segment.open("ab") as file:
        file.write(batch)
    with pytest.raises(CorruptLog) as corrupt:
        open_log(data_dir)
    return corrupt.value.reason


@pytest.mark.parametrize(("begun", "epoch"), [(2, 2), (2, 1), (2, 0), (3, 2)])
def test_a_control_batch_begins_a_higher_epoch_or_is_of_its_own(tmp_path: Path, begun: int, epoch: int) -> None:
    for _ in range(begun):
        open_log(tmp_path).close()
    again = encode_leader_change(begun, epoch, TIMESTAMP_MS)
    if epoch == begun:
        (segment,) = segment_files(tmp_path)
        with segment.open("ab") as file:
            file.write(again)
        assert reopened(tmp_path) == []
    else:
        assert appended(tmp_path, again) == f"it has leader epoch {epoch} inside of epoch {begun}"


@pytest.mark.parametrize("last_delta", [-1, -2, -(2**31)])
def test_a_batch_whose_last_offset_is_below_its_first_is_refused(tmp_path: Path, last_delta: int) -> None:
    open_log(tmp_path).close()
    batch = with_last_delta(encode_batch(1, 1, TIMESTAMP_MS, topics(1)[0]), last_delta)
    assert appended(tmp_path, batch) == f"it has offsets 1 to {1 + last_delta}"


def test_damage_is_told_at_the_first_look_and_only_what_ends_too_early_is_looked_at_with_more(tmp_path: Path) -> None:
    """A segment may have a gigabyte, and is not read as a whole for one damaged batch."""
    whole = encode_batch(0, 1, TIMESTAMP_MS, topics(1)[0])
    damaged = whole[:-1] + bytes([whole[-1] ^ 1])
    path = tmp_path / "segment"
    path.write_bytes(whole + damaged + bytes(4 << 20))
    looked_at: list[int] = []

    def look(data: bytes, position: int) -> tuple[None, int]:
        looked_at.append(len(data))
        return None, check_batch(data, position)

    with path.open("rb") as file, pytest.raises(CorruptBatch) as corrupt:
        list(walk_batches(file.fileno(), path.stat().st_size, look))
    assert (corrupt.value.position, corrupt.value.torn) == (len(whole), False)
    assert looked_at == [looked_at[0]] * 2
    assert looked_at[0] <= 1 << 20


def test_no_log_begins_in_epoch_0(tmp_path: Path) -> None:
    open_log(tmp_path).close()
    (segment,) = segment_files(tmp_path)
    segment.write_bytes(encode_leader_change(0, 0, TIMESTAMP_MS))
    with pytest.raises(CorruptLog, match="it has leader epoch 0 inside of epoch 0"):
        open_log(tmp_path)


def test_a_quorum_in_which_nobody_has_led_yet_is_gone_on_with(tmp_path: Path) -> None:
    """As Apache Kafka leaves it before its first election."""
    open_log(tmp_path).close()
    (segment,) = segment_files(tmp_path)
    segment.unlink()
    forget_recovery_point(tmp_path)
    (tmp_path / "__cluster_metadata-0" / "quorum-state").write_text('{"leaderEpoch":0,"data_version":0}')
    log = open_log(tmp_path)
    assert log.leader_epoch == 1
    log.close()
