"""Damaged, missing and contradictory files of a log with snapshots: what is repaired, and what is one line of error."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.controller.log import CorruptLog, LogError
from klamm.controller.log.errors import CorruptSnapshot
from klamm.controller.log.snapshot_files import SnapshotFile, check_snapshot
from klamm.protocol.record_batch import encode_batch, encode_control_batch
from klamm.protocol.records.control import SnapshotFooterRecord, SnapshotHeaderRecord
from klamm.protocol.records.topics import TopicRecord
from tests.controller.cluster_states import uuid_of
from tests.controller.log.controllers import (
    ALL,
    BEGIN,
    FOLDER,
    files,
    names_after,
    snapshot_files,
    started,
    three_snapshots,
)
from tests.controller.log.logs import (
    TIMESTAMP_MS,
    batch_starts,
    forget_recovery_point,
    fresh_dir,
    segment_files,
    with_last_delta,
)

OLDER, NEWER, END = BEGIN + 3, BEGIN + 5, BEGIN + 7


def newest(data_dir: Path) -> Path:
    return snapshot_files(data_dir)[-1].path


def content(data_dir: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((data_dir / FOLDER).iterdir())}


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def cut_the_footer_off(path: Path) -> None:
    os.truncate(path, batch_starts(path.read_bytes())[-2])


def empty(path: Path) -> None:
    os.truncate(path, 0)


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def twice(path: Path) -> None:
    path.write_bytes(2 * path.read_bytes())


DAMAGES = [cut, cut_the_footer_off, empty, zeros, flip, grow, twice]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_snapshot_is_mended_by_the_one_before_it_and_the_log(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    three_snapshots(tmp_path)
    damaged = newest(tmp_path)
    damage(damaged)
    warnings: list[str] = []
    assert names_after(tmp_path, warnings.append) == ALL
    (warning,) = warnings
    assert warning.startswith(f"snapshot {damaged} is damaged at byte ")
    assert f"the log behind snapshot {snapshot_files(tmp_path)[0].path} was read instead" in warning
    # The damaged one does not count: the one before it stays until there are two intact ones.
    with started(tmp_path, warnings.append) as cluster:
        cluster.topic(8)
        cluster.snapshot()
        assert snapshot_files(tmp_path)[0].end_offset == OLDER
        cluster.topic(9)
        cluster.snapshot()
        assert damaged.name not in content(tmp_path)
    assert names_after(tmp_path) == [*ALL, "t8", "t9"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_snapshot_that_nothing_mends_is_one_line_and_nothing_changes(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    three_snapshots(tmp_path)
    snapshot_files(tmp_path)[0].path.unlink()
    damaged = newest(tmp_path)
    damage(damaged)
    before = content(tmp_path)
    with pytest.raises(LogError) as refused:
        started(tmp_path).__enter__()
    assert str(refused.value).startswith(f"snapshot {damaged} is damaged at byte ")
    missing = f"offsets 0 to {OLDER - 1} are missing before segment {segment_files(tmp_path)[0]}"
    assert str(refused.value).endswith(f"without it: {missing}, and no snapshot replaces them")
    assert "\n" not in str(refused.value)
    assert content(tmp_path) == before


def test_a_damaged_first_snapshot_is_mended_by_the_log_alone(tmp_path: Path) -> None:
    with started(tmp_path) as cluster:
        cluster.topic(1)
        cluster.snapshot()
        cluster.topic(2)
    flip(newest(tmp_path))
    warnings: list[str] = []
    assert names_after(tmp_path, warnings.append) == ["t1", "t2"]
    assert "the log from its beginning was read instead" in warnings[0]


def test_a_damaged_snapshot_is_not_passed_over_where_the_log_ends_before_it(tmp_path: Path) -> None:
    three_snapshots(tmp_path)
    segment_files(tmp_path)[-1].unlink()
    forget_recovery_point(tmp_path)
    damaged = newest(tmp_path)
    flip(damaged)
    segment = segment_files(tmp_path)[-1]
    os.truncate(segment, batch_starts(segment.read_bytes())[-2])
    before = content(tmp_path)
    with pytest.raises(LogError, match=f"is damaged at .*without it: the rest of the log ends at offset {NEWER - 1}$"):
        started(tmp_path).__enter__()
    assert content(tmp_path) == before


def test_a_damaged_snapshot_is_passed_over_where_the_log_ends_just_where_it_does(tmp_path: Path) -> None:
    three_snapshots(tmp_path)
    segment_files(tmp_path)[-1].unlink()
    forget_recovery_point(tmp_path)
    flip(newest(tmp_path))
    warnings: list[str] = []
    assert names_after(tmp_path, warnings.append) == ALL[:5]
    assert ["is damaged at byte" in warning for warning in warnings] == [True]


def test_a_log_from_its_beginning_begins_with_a_control_batch_also_below_a_snapshot(tmp_path: Path) -> None:
    """A log whose beginning is dropped continues with the epoch of its first batch."""
    with started(tmp_path) as cluster:
        cluster.topic(1)
        cluster.snapshot(roll=False)
    (segment,) = segment_files(tmp_path)
    data = segment.read_bytes()
    first = encode_batch(0, 1, TIMESTAMP_MS, [TopicRecord(name="t", topic_id=uuid_of(9))])
    segment.write_bytes(first + data[batch_starts(data)[1] :])
    with pytest.raises(CorruptLog, match="it has leader epoch 1 inside of epoch 0"):
        started(tmp_path).__enter__()


def test_a_damaged_snapshot_alone_is_no_empty_log(tmp_path: Path) -> None:
    three_snapshots(tmp_path)
    for path in [*segment_files(tmp_path), snapshot_files(tmp_path)[0].path]:
        path.unlink()
    forget_recovery_point(tmp_path)
    cut(newest(tmp_path))
    with pytest.raises(LogError, match=r"without it: the rest of the log ends at offset 0$"):
        started(tmp_path).__enter__()


@settings(deadline=None)
@given(st.integers(1, 255), st.floats(0, 1, exclude_max=True))
def test_any_flipped_byte_of_a_snapshot_is_noticed(mask: int, at: float) -> None:
    with fresh_dir() as data_dir:
        with started(data_dir) as cluster:
            cluster.topic(1)
            cluster.snapshot()
        (snapshot,) = snapshot_files(data_dir)
        data = bytearray(snapshot.path.read_bytes())
        data[int(at * len(data))] ^= mask
        snapshot.path.write_bytes(data)
        with pytest.raises(CorruptSnapshot):
            check_snapshot(snapshot)


HEADER = encode_control_batch(0, 1, 5, [SnapshotHeaderRecord()])
DATA = encode_batch(1, 1, 5, [TopicRecord(name="t", topic_id=uuid_of(1))])
FOOTER = encode_control_batch(2, 1, 5, [SnapshotFooterRecord()])


@pytest.mark.parametrize(
    ("batches", "byte", "reason"),
    [
        ([], 0, "it ends without a footer"),
        ([HEADER], len(HEADER), "it ends without a footer"),
        ([DATA, FOOTER], 0, "it has offsets 1 to 1"),
        ([encode_batch(0, 1, 5, [TopicRecord()])], 0, "it is no header"),
        ([encode_control_batch(0, 1, 5, [SnapshotFooterRecord()])], 0, "it is no header"),
        ([HEADER, FOOTER], len(HEADER), "it has offsets 2 to 2"),
        ([HEADER, encode_control_batch(1, 1, 5, [SnapshotHeaderRecord()])], len(HEADER), "it is a second header"),
        ([HEADER, encode_batch(1, 2, 5, [TopicRecord()])], len(HEADER), "it has leader epoch 2"),
        ([HEADER, encode_batch(1, 0, 5, [TopicRecord()])], len(HEADER), "it has leader epoch 0"),
        ([HEADER, DATA, DATA], len(HEADER + DATA), "it has offsets 1 to 1"),
        ([HEADER, with_last_delta(DATA, -1)], len(HEADER), "it has offsets 1 to 0"),
        (
            [HEADER, DATA, FOOTER, encode_control_batch(3, 1, 5, [SnapshotFooterRecord()])],
            len(HEADER + DATA + FOOTER),
            f"the footer at byte {len(HEADER + DATA)} is the last",
        ),
        (
            [HEADER, DATA, FOOTER, encode_batch(3, 1, 5, [TopicRecord()])],
            len(HEADER + DATA + FOOTER),
            f"the footer at byte {len(HEADER + DATA)} is the last",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_snapshot_has_one_header_first_and_one_footer_last(
    tmp_path: Path, batches: list[bytes], byte: int, reason: str
) -> None:
    snapshot = SnapshotFile(9, 1, tmp_path / "s.checkpoint")
    snapshot.path.write_bytes(b"".join(batches))
    with pytest.raises(CorruptSnapshot) as corrupt:
        check_snapshot(snapshot)
    assert (corrupt.value.position, corrupt.value.reason) == (byte, reason)


def test_a_missing_snapshot_of_a_log_that_needs_it_is_one_line(tmp_path: Path) -> None:
    three_snapshots(tmp_path)
    for snapshot in snapshot_files(tmp_path):
        snapshot.path.unlink()
    before = content(tmp_path)
    first = segment_files(tmp_path)[0]
    with pytest.raises(LogError) as refused:
        started(tmp_path).__enter__()
    missing = f"offsets 0 to {OLDER - 1} are missing before segment {first}, and no snapshot replaces them"
    assert str(refused.value) == missing
    assert content(tmp_path) == before


def test_a_missing_newest_snapshot_is_not_missed(tmp_path: Path) -> None:
    three_snapshots(tmp_path)
    newest(tmp_path).unlink()
    assert names_after(tmp_path) == ALL


def test_a_hole_that_a_snapshot_stands_for_does_not_matter(tmp_path: Path) -> None:
    """Apache Kafka continues, too: it does not read below its newest snapshot."""
    three_snapshots(tmp_path)
    segment_files(tmp_path)[0].unlink()
    assert names_after(tmp_path) == ALL


def test_a_hole_behind_the_newest_snapshot_is_one_line(tmp_path: Path) -> None:
    three_snapshots(tmp_path)
    last = segment_files(tmp_path)[-1]
    moved = last.with_name(f"{END - 1:020}.log")
    moved.write_bytes(last.read_bytes()[batch_starts(last.read_bytes())[1] :])
    last.unlink()
    segment_files(tmp_path)[0].unlink()
    with pytest.raises(LogError, match=f"^offsets {NEWER} to {END - 2} are missing before segment {moved}, and no "):
        started(tmp_path).__enter__()


def test_a_log_that_ends_below_its_snapshot_begins_anew_at_its_end(tmp_path: Path) -> None:
    """As Apache Kafka does: the snapshot was written when the log was durable up to its end, so nothing is lost."""
    three_snapshots(tmp_path)
    segment_files(tmp_path)[-1].unlink()
    forget_recovery_point(tmp_path)
    older = segment_files(tmp_path)[0]
    os.truncate(older, older.stat().st_size - 1)
    warnings: list[str] = []
    assert names_after(tmp_path, warnings.append) == ALL[:5]
    assert f"ends at offset {NEWER - 1}, and snapshot {newest(tmp_path)} stands for all up to" in warnings[-1]
    assert f"{NEWER}.log" in files(tmp_path)
    with started(tmp_path) as cluster:
        cluster.topic(6)
    assert names_after(tmp_path) == ALL[:6]


def test_a_snapshot_alone_is_a_log(tmp_path: Path) -> None:
    three_snapshots(tmp_path)
    for path in segment_files(tmp_path):
        path.unlink()
    forget_recovery_point(tmp_path)
    assert names_after(tmp_path) == ALL[:5]
    assert files(tmp_path)[-1] == f"{NEWER}.log"
    assert names_after(tmp_path) == ALL[:5]


def test_a_damaged_segment_below_the_snapshot_is_not_looked_at_and_one_behind_it_is(tmp_path: Path) -> None:
    three_snapshots(tmp_path)
    older, last = segment_files(tmp_path)
    flip(older)
    assert names_after(tmp_path) == ALL
    data = bytearray(last.read_bytes())
    data[70] ^= 1
    last.write_bytes(data)
    with pytest.raises(CorruptLog) as corrupt:
        started(tmp_path).__enter__()
    assert (corrupt.value.path, corrupt.value.offset) == (last, NEWER)


def test_a_snapshot_that_ends_inside_of_a_batch_is_refused(tmp_path: Path) -> None:
    with started(tmp_path) as cluster:
        cluster.topic(1)
        cluster.snapshot()
        cluster.write(*(TopicRecord(name=f"t{number}", topic_id=uuid_of(number)) for number in (2, 3)))
    path = newest(tmp_path)
    path.rename(path.with_name(f"{BEGIN + 2:020}-0000000001.checkpoint"))
    (tmp_path / FOLDER / f"{BEGIN + 1:020}.log").rename(tmp_path / "tail")
    whole = segment_files(tmp_path)[0]
    whole.write_bytes(whole.read_bytes() + (tmp_path / "tail").read_bytes())
    with pytest.raises(CorruptLog, match=f"it goes on beyond offset {BEGIN + 2}, the end of snapshot"):
        started(tmp_path).__enter__()


def test_what_was_being_written_at_a_crash_is_removed(tmp_path: Path) -> None:
    three_snapshots(tmp_path)
    part = newest(tmp_path).with_name(f"{END:020}-0000000001.checkpoint.part")
    shutil.copy(newest(tmp_path), part)
    cut(part)
    assert names_after(tmp_path) == ALL
    assert not part.exists()


def test_other_names_are_no_snapshots(tmp_path: Path) -> None:
    """The snapshot of offset 0 is Kafka's own, which has its voters."""
    three_snapshots(tmp_path)
    names = ("1.checkpoint", "bootstrap.checkpoint", f"{0:020}-{0:010}.checkpoint", f"{END:020}-1.checkpoint")
    for name in names:
        (tmp_path / FOLDER / name).write_bytes(b"not ours")
    with started(tmp_path) as cluster:
        assert cluster.names() == ALL
        cluster.snapshot()
    for snapshot in snapshot_files(tmp_path):
        snapshot.path.unlink()
    with pytest.raises(LogError, match=r"^offsets 0 to .* no snapshot replaces them"):
        started(tmp_path).__enter__()
    assert all((tmp_path / FOLDER / name).read_bytes() == b"not ours" for name in names)


def test_a_snapshot_that_is_nobodys_is_refused(tmp_path: Path) -> None:
    three_snapshots(tmp_path)
    for path in segment_files(tmp_path):
        path.unlink()
    (tmp_path / "meta.properties").unlink()
    with pytest.raises(LogError, match=r"holds a metadata log, but no meta.properties that says whose it is"):
        started(tmp_path).__enter__()
