"""The log as bytes to its readers: whole batches, only what is durable, the same from a directory as from memory."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from klamm.controller.log import LogError, MemoryLog, MetadataLog, SegmentLog
from klamm.controller.log.segment_reader import SegmentPart, SegmentReader
from klamm.controller.metadata_log_reader import (
    EpochEnd,
    MetadataLogReader,
    OffsetNotInLog,
    PositionOutOfRange,
    SnapshotId,
    SnapshotNotFound,
)
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import decode_batches
from klamm.protocol.records.topics import TopicRecord
from tests.controller.log.logs import (
    CLUSTER_ID,
    DIRECTORY_ID,
    TIMESTAMP_MS,
    append_records,
    memory_dir,
    open_log,
    segment_files,
)
from tests.controller.log.stories import topic

ALL = 1 << 40


class Stored(NamedTuple):
    """A batch with its bytes in the log."""

    base_offset: int
    last_offset: int
    epoch: int
    data: bytes


def stored(data: bytes) -> list[Stored]:
    found, position = [], 0
    for batch in decode_batches(data):
        piece = data[position : position + batch.size_bytes]
        found.append(Stored(batch.base_offset, batch.last_offset, batch.leader_epoch, piece))
        position += batch.size_bytes
    return found


def on_disk(data_dir: Path) -> list[Stored]:
    return stored(b"".join(path.read_bytes() for path in segment_files(data_dir)))


def expected(batches: Sequence[Stored], offset: int, max_bytes: int) -> bytes:
    """By the definition: whole batches from the one with `offset` on, the first in any case, others if they fit."""
    chosen = b""
    for batch in batches:
        if batch.last_offset >= offset:
            if chosen and len(chosen) + len(batch.data) > max_bytes:
                break
            chosen += batch.data
    return chosen


def expected_end(batches: Sequence[Stored], epoch: int) -> EpochEnd:
    """By the definition: the end of the largest epoch that is not above the requested one."""
    if epoch < 0:
        return EpochEnd(batches[-1].epoch, batches[-1].last_offset + 1)
    if epoch < batches[0].epoch:
        return EpochEnd(epoch, batches[0].base_offset)
    found = max(one.epoch for one in batches if one.epoch <= epoch)
    return EpochEnd(found, max(one.last_offset for one in batches if one.epoch == found) + 1)


def topics(*numbers: int) -> list[Message]:
    return [topic(number) for number in numbers]


def read_all(reader: MetadataLogReader, max_bytes: int) -> Iterator[bytes]:
    offset = reader.start_offset
    while data := reader.read(offset, max_bytes):
        yield data
        offset = stored(data)[-1].last_offset + 1
    assert offset == reader.end_offset


starts = st.lists(st.lists(st.integers(1, 5), max_size=8), min_size=1, max_size=4)
"""For each start of the controller, the number of records in each of its batches."""


@contextmanager
def written(numbers: Sequence[Sequence[int]], segment_bytes: int) -> Iterator[tuple[SegmentLog, Path]]:
    """A log with these numbers of records in the batches of these starts, open in the last one, durable to its end."""
    with memory_dir() as data_dir:
        log = None
        for of_start in numbers:
            if log is not None:
                log.close()
            log = open_log(data_dir, segment_bytes=segment_bytes)
            for count in of_start:
                append_records(log, topics(*range(count)), TIMESTAMP_MS)
            log.sync()
        assert log is not None
        try:
            yield log, data_dir
        finally:
            log.close()


@settings(max_examples=150)
@given(starts, st.integers(1, 700), st.data())
@example([[5, 5], [], [1]], 1, None)
def test_a_read_is_whole_batches_up_to_a_size(
    numbers: list[list[int]], segment_bytes: int, data: st.DataObject
) -> None:
    with written(numbers, segment_bytes) as (log, data_dir):
        batches, reader = on_disk(data_dir), log.reader()
        assert (reader.start_offset, reader.end_offset) == (0, batches[-1].last_offset + 1)
        if data is not None:
            for _ in range(5):
                offset = data.draw(st.integers(0, reader.end_offset))
                max_bytes = data.draw(st.integers(0, 1200))
                assert reader.read(offset, max_bytes) == expected(batches, offset, max_bytes)
        for max_bytes in (0, 250, ALL):
            assert b"".join(read_all(reader, max_bytes)) == b"".join(batch.data for batch in batches)
        for offset in (-1, reader.end_offset + 1):
            with pytest.raises(OffsetNotInLog):
                reader.read(offset, ALL)


@given(starts, st.integers(1, 700))
def test_the_end_of_an_epoch_is_that_of_the_largest_one_up_to_it(numbers: list[list[int]], segment_bytes: int) -> None:
    with written(numbers, segment_bytes) as (log, data_dir):
        batches, reader = on_disk(data_dir), log.reader()
        for epoch in range(-1, len(numbers) + 3):
            assert reader.end_of_epoch(epoch) == expected_end(batches, epoch)


def memory_log() -> MemoryLog:
    return MemoryLog(CLUSTER_ID, DIRECTORY_ID, TIMESTAMP_MS)


@given(st.lists(st.integers(1, 5), max_size=8), st.data())
def test_a_log_in_memory_answers_as_one_in_a_directory(counts: list[int], data: st.DataObject) -> None:
    with written([counts], 1 << 30) as (log, _):
        memory = memory_log()
        for count in counts:
            append_records(memory, topics(*range(count)), TIMESTAMP_MS)
        ours, theirs = memory.reader(), log.reader()
        offset, max_bytes = data.draw(st.integers(0, theirs.end_offset)), data.draw(st.integers(0, 1200))
        assert ours.read(offset, max_bytes) == theirs.read(offset, max_bytes)
        assert (ours.start_offset, ours.end_offset) == (theirs.start_offset, theirs.end_offset)
        for epoch in range(-1, 4):
            assert ours.end_of_epoch(epoch) == theirs.end_of_epoch(epoch)
        with pytest.raises(OffsetNotInLog):
            ours.read(ours.end_offset + 1, 1)
        assert not ours.snapshots
        with pytest.raises(SnapshotNotFound):
            ours.read_snapshot(SnapshotId(1, 1), 0, 1)


def test_what_is_not_durable_is_not_shown(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=300)
    reader = log.reader()
    durable = reader.read(0, ALL)
    for number in range(5):
        append_records(log, topics(number), TIMESTAMP_MS)
        assert (reader.end_offset, reader.read(0, ALL), reader.read(1, ALL)) == (1, durable, b"")
        with pytest.raises(OffsetNotInLog):
            reader.read(2, ALL)
    assert reader.end_of_epoch(1) == EpochEnd(1, 1)
    log.sync()
    assert reader.end_of_epoch(1) == EpochEnd(1, 6)
    assert reader.read(0, ALL) == b"".join(batch.data for batch in on_disk(tmp_path))
    log.close()


def test_a_batch_larger_than_a_window_of_headers_is_passed_over(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_records(log, topics(*range(5_000)), TIMESTAMP_MS)
    append_records(log, topics(1), TIMESTAMP_MS)
    log.sync()
    log.close()
    log = open_log(tmp_path)
    batches = on_disk(tmp_path)
    assert [log.reader().read(batch.last_offset, 1) for batch in batches] == [batch.data for batch in batches]
    log.close()


def test_a_torn_tail_is_not_there(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_records(log, topics(1), TIMESTAMP_MS)
    log.sync()
    log.close()
    with segment_files(tmp_path)[-1].open("ab") as file:
        file.write(bytes(70))
    warnings: list[str] = []
    log = open_log(tmp_path, warn=warnings.append)
    assert len(warnings) == 1
    assert log.reader().read(0, ALL) == b"".join(batch.data for batch in on_disk(tmp_path))
    log.close()


def take_snapshot(log: SegmentLog | MemoryLog, numbers: int) -> None:
    place = log.begin_snapshot(roll=True)
    assert place is not None
    place.write([topics(*range(numbers))], TIMESTAMP_MS)


def snapshot_bytes(reader: MetadataLogReader, snapshot: SnapshotId, max_bytes: int) -> bytes:
    data, size_bytes = b"", 1
    while len(data) < size_bytes:
        part = reader.read_snapshot(snapshot, len(data), max_bytes)
        assert len(part.data) == min(max_bytes, part.size_bytes - len(data))
        data, size_bytes = data + part.data, part.size_bytes
    return data


def compacted(data_dir: Path) -> SegmentLog:
    """Of one epoch, with two snapshots, at the offsets 4 and 7, and one record after them."""
    log = open_log(data_dir, segment_bytes=1)
    for number in range(7):
        append_records(log, topics(number), TIMESTAMP_MS)
        log.sync()
        if number in (2, 5):
            take_snapshot(log, number + 1)
    return log


def test_snapshots_are_read_by_position(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    reader = log.reader()
    assert reader.snapshots == [SnapshotId(4, 1), SnapshotId(7, 1)]
    for snapshot in reader.snapshots:
        (path,) = tmp_path.glob(f"*/{snapshot.end_offset:020}-*.checkpoint")
        for max_bytes in (1, 100, ALL):
            assert snapshot_bytes(reader, snapshot, max_bytes) == path.read_bytes()
        size_bytes = path.stat().st_size
        for position in (-1, size_bytes, size_bytes + 1):
            with pytest.raises(PositionOutOfRange):
                reader.read_snapshot(snapshot, position, 1)
    for unknown in (SnapshotId(4, 2), SnapshotId(5, 1)):
        with pytest.raises(SnapshotNotFound):
            reader.read_snapshot(unknown, 0, 1)
    log.close()


def test_a_log_that_lost_its_beginning_starts_where_its_oldest_snapshot_ends(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    reader = log.reader()
    assert (reader.start_offset, reader.end_offset) == (4, 8)
    for below in range(4):
        with pytest.raises(OffsetNotInLog):
            reader.read(below, ALL)
    assert b"".join(read_all(reader, 1)) == b"".join(batch.data for batch in on_disk(tmp_path))
    assert [reader.end_of_epoch(epoch) for epoch in (0, 1, 2)] == [EpochEnd(0, 4), EpochEnd(1, 8), EpochEnd(1, 8)]
    log.close()
    log = open_log(tmp_path, segment_bytes=1)
    reader = log.reader()
    assert (reader.start_offset, reader.end_offset) == (7, 9)
    assert [reader.end_of_epoch(epoch) for epoch in range(4)] == [(0, 7), (1, 8), (2, 9), (2, 9)]
    assert b"".join(read_all(reader, ALL)) == b"".join(one.data for one in on_disk(tmp_path) if one.base_offset >= 7)
    log.close()


def test_with_its_history_kept_a_log_starts_at_0(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=1, keep_history=True)
    for number in range(4):
        append_records(log, topics(number), TIMESTAMP_MS)
        log.sync()
        take_snapshot(log, number + 1)
    assert log.reader().start_offset == 0
    assert log.reader().read(0, ALL) == b"".join(batch.data for batch in on_disk(tmp_path))
    log.close()


def names(data: bytes) -> list[str]:
    records = [record for batch in decode_batches(data) for record in batch.records]
    return [record.name for record in records if isinstance(record, TopicRecord)]


class Follower:
    """Copies the log as Kafka's followers do: it fetches batches, or the snapshot if the log begins later than its
    offset."""

    def __init__(self, reader: MetadataLogReader) -> None:
        self.copied: list[str] = []
        self.snapshots = 0
        self._reader = reader
        self._offset = 0

    def fetch(self) -> bool:
        """One batch, or a snapshot; False if there is nothing new."""
        try:
            data = self._reader.read(self._offset, 1)
        except OffsetNotInLog:
            newest = self._reader.snapshots[-1]
            self.copied, self._offset = names(snapshot_bytes(self._reader, newest, 50)), newest.end_offset
            self.snapshots += 1
            return True
        self.copied += names(data)
        self._offset = stored(data)[-1].last_offset + 1 if data else self._offset
        return bool(data)


def test_a_follower_that_is_overtaken_by_a_snapshot_goes_on_behind_it(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=1)
    follower = Follower(log.reader())
    for number in range(12):
        append_records(log, topics(number), TIMESTAMP_MS)
        log.sync()
        if number in (3, 4, 9, 10):
            take_snapshot(log, number + 1)
        if number % 3 == 0:
            follower.fetch()
    while follower.fetch():
        pass
    assert follower.copied == [f"t{number}" for number in range(12)]
    assert follower.snapshots == 2
    log.close()


class OvertakenLog:
    """The real log, with an event right after a reader has located its parts."""

    def __init__(self, log: SegmentLog, happens: Callable[[], None]) -> None:
        self._log = log
        self._happens = happens

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    def parts(self) -> Sequence[SegmentPart]:
        parts = self._log.parts()
        self._happens()
        return parts


def test_a_segment_that_goes_amid_a_read_was_never_there(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=1)
    for number in range(3):
        append_records(log, topics(number), TIMESTAMP_MS)
    log.sync()

    def compact() -> None:
        for _ in range(2):
            take_snapshot(log, 3)
            append_records(log, topics(3), TIMESTAMP_MS)
            log.sync()

    reader = SegmentReader(OvertakenLog(log, compact))  # type: ignore[arg-type]
    with pytest.raises(OffsetNotInLog):
        reader.read(1, ALL)
    assert log.reader().read(log.start_offset, 1)
    log.close()


def test_a_segment_that_somebody_took_away_is_an_error(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    segment_files(tmp_path)[0].unlink()
    with pytest.raises(LogError, match=r"^cannot read .*\.log: "):
        log.reader().read(0, ALL)
    log.close()


@pytest.mark.parametrize("make", [open_log, lambda _: memory_log()], ids=["directory", "memory"])
def test_reads_in_threads_follow_a_log_that_grows(tmp_path: Path, make: Callable[[Path], MetadataLog]) -> None:
    log = make(tmp_path)
    reader, end_offset = log.reader(), 500

    def follow(max_bytes: int) -> bytes:
        data, offset = b"", 0
        while offset < end_offset:
            if more := reader.read(offset, max_bytes):
                data += more
                offset = stored(more)[-1].last_offset + 1
                assert reader.end_of_epoch(1).end_offset >= offset
        return data

    with ThreadPoolExecutor(3) as threads:
        followers = [threads.submit(follow, max_bytes) for max_bytes in (1, 500, 100_000)]
        for number in range(1, end_offset):
            append_records(log, topics(number), TIMESTAMP_MS)
            if number % 10 == 9:
                log.sync()
        log.sync()
        copies = [follower.result(timeout=60) for follower in followers]
    assert [names(copy) for copy in copies] == [[f"t{number}" for number in range(1, end_offset)]] * 3
    log.close()
