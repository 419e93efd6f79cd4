"""Reads a log in memory as bytes: the same answers as of one in a data directory, without snapshots."""

from collections.abc import Sequence
from typing import Protocol

from klamm.controller.leader_epochs import NO_EPOCH, LeaderEpochs
from klamm.controller.log.batch_index import BatchIndex
from klamm.controller.metadata_log_reader import (
    EpochEnd,
    OffsetNotInLog,
    SnapshotId,
    SnapshotNotFound,
    SnapshotPart,
)


class ReadableMemory(Protocol):
    """What a `MemoryReader` needs of the log, which may grow meanwhile."""

    index: BatchIndex
    batches: list[bytes]

    @property
    def durable_offset(self) -> int: ...


class MemoryReader:
    """A `MetadataLogReader` of a log in memory. None of its methods blocks."""

    start_offset = 0
    snapshots: Sequence[SnapshotId] = ()

    def __init__(self, log: ReadableMemory) -> None:
        self._log = log

    @property
    def end_offset(self) -> int:
        return self._log.durable_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        end_offset = self._log.durable_offset
        if not 0 <= offset <= end_offset:
            raise OffsetNotInLog(f"offset {offset} is not in the log of 0 to {end_offset}")
        found = self._log.index.find(offset, end_offset, max_bytes, at_least_one=True)
        return b"".join(self._log.batches[found.first : found.stop]) if found.size_bytes else b""

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        end_offset = self._log.durable_offset
        epochs = LeaderEpochs()
        for one, first_offset in self._log.index.epochs:  # there is one, from offset 0 on
            epochs.begin(one, first_offset)
        found, end = epochs.end_offset(epoch, end_offset)
        return EpochEnd(epochs.latest, end_offset) if found == NO_EPOCH else EpochEnd(found, end)

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> SnapshotPart:
        raise SnapshotNotFound("a log in memory has no snapshots")
