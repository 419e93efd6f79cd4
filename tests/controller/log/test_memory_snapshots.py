"""A log in memory that snapshots shorten: its readers, its history, and its limit."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.controller.log import MemoryLog
from klamm.controller.metadata_log_reader import OffsetNotInLog, PositionOutOfRange, SnapshotId, SnapshotNotFound
from klamm.protocol.record_batch import Batch
from klamm.protocol.records.topics import TopicRecord
from tests.controller.log.logs import CLUSTER_ID, DIRECTORY_ID, TIMESTAMP_MS, append_records
from tests.controller.log.test_readers import (
    ALL,
    compacted,
    memory_log,
    names,
    snapshot_bytes,
    take_snapshot,
    topics,
)


def test_a_log_in_memory_that_lost_its_beginning_answers_as_one_in_a_directory(tmp_path: Path) -> None:
    log, memory = compacted(tmp_path), memory_log()
    for number in range(7):
        append_records(memory, topics(number), TIMESTAMP_MS)
        if number in (2, 5):
            take_snapshot(memory, number + 1)
    ours, theirs = memory.reader(), log.reader()
    newest = theirs.snapshots[-1]
    assert (ours.snapshots, ours.start_offset, ours.end_offset) == ([newest], newest.end_offset, theirs.end_offset)
    assert ours.read(7, ALL) == theirs.read(7, ALL) == memory.log_bytes() != b""
    for below in range(newest.end_offset):
        with pytest.raises(OffsetNotInLog):
            ours.read(below, ALL)
    for max_bytes in (1, 100, ALL):
        assert snapshot_bytes(ours, newest, max_bytes) == snapshot_bytes(theirs, newest, max_bytes)
    for position in (-1, len(snapshot_bytes(ours, newest, ALL))):
        with pytest.raises(PositionOutOfRange):
            ours.read_snapshot(newest, position, 1)
    with pytest.raises(SnapshotNotFound):
        ours.read_snapshot(SnapshotId(4, 1), 0, 1)
    assert ours.end_of_epoch(1) == theirs.end_of_epoch(1)
    assert names_of(memory.read_snapshot()) + names_of(memory.read()) == [f"t{number}" for number in range(7)]
    assert memory.snapshot == log.snapshot
    log.close()


def test_with_its_history_kept_a_log_in_memory_starts_at_0() -> None:
    log = MemoryLog(CLUSTER_ID, DIRECTORY_ID, TIMESTAMP_MS, keep_history=True)
    for number in range(4):
        append_records(log, topics(number), TIMESTAMP_MS)
        take_snapshot(log, number + 1)
    append_records(log, topics(4), TIMESTAMP_MS)
    assert names(log.reader().read(0, ALL)) == [f"t{number}" for number in range(5)]
    assert names_of(log.read()) == ["t4"]


def test_the_limit_of_a_log_in_memory_is_for_what_its_snapshot_does_not_replace() -> None:
    log = MemoryLog(CLUSTER_ID, DIRECTORY_ID, TIMESTAMP_MS, max_log_bytes=2000)
    for number in range(100):
        append_records(log, topics(number), TIMESTAMP_MS)
        if log.is_snapshot_urgent:
            take_snapshot(log, number + 1)
    assert len(log.log_bytes()) < 1000


def names_of(batches: Iterator[Batch]) -> list[str]:
    return [record.name for batch in batches for record in batch.records if isinstance(record, TopicRecord)]
