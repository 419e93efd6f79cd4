"""Reads a log in memory as bytes: the same answers as of one in a data directory."""

from collections.abc import Sequence
from typing import Protocol

from klamm.controller.log.parts_reader import EventLoopReading, PartedLog, PartsReader
from klamm.controller.metadata_log_reader import (
    MetadataLogReader,
    PositionOutOfRange,
    SnapshotId,
    SnapshotNotFound,
    SnapshotPart,
)


class SnapshotBytes(Protocol):
    """A whole snapshot."""

    @property
    def id(self) -> SnapshotId: ...

    @property
    def data(self) -> bytes: ...


class ReadableMemory(PartedLog, Protocol):
    """What a `MemoryReader` needs of the log, which may grow meanwhile."""

    @property
    def newest_snapshot(self) -> SnapshotBytes | None: ...


class MemoryReader(PartsReader):
    """A `MetadataLogReader` of a log in memory. None of its methods blocks."""

    def __init__(self, log: ReadableMemory) -> None:
        super().__init__(log)
        self._log = log

    def on_event_loop(self) -> MetadataLogReader:
        return _ReaderOnEventLoop(self._log)

    @property
    def snapshots(self) -> Sequence[SnapshotId]:
        newest = self._log.newest_snapshot
        return [] if newest is None else [newest.id]

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> SnapshotPart:
        newest = self._log.newest_snapshot
        if newest is None or newest.id != snapshot:
            raise SnapshotNotFound(f"there is no snapshot of offset {snapshot.end_offset} and epoch {snapshot.epoch}")
        if not 0 <= position < len(newest.data):
            raise PositionOutOfRange(f"the snapshot has {len(newest.data)} bytes, and none at {position}")
        return SnapshotPart(newest.data[position : position + max_bytes], len(newest.data))


class _ReaderOnEventLoop(EventLoopReading, MemoryReader):
    pass
