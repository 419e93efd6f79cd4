"""Reads a log in a data directory as bytes, while it grows and loses its beginning to snapshots.

The log says which parts of its files there are (`SegmentPart`) and how far it is durable; files are opened for each
read, so that a segment can be deleted at any time. What a start has found in a segment is indexed by the first read
that needs it: starts pay nothing for readers that may never come.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from klamm.controller.log.batch_index import BatchIndex, Extent
from klamm.controller.log.errors import LogError, os_errors_as_log_errors
from klamm.controller.log.parts_reader import EventLoopReading, Part, PartedLog, PartsReader
from klamm.controller.log.snapshot_files import WholeSnapshot
from klamm.controller.metadata_log_reader import (
    MetadataLogReader,
    NeedsThread,
    PositionOutOfRange,
    SnapshotId,
    SnapshotNotFound,
    SnapshotPart,
)
from klamm.protocol.record_batch import HEADER_BYTES, BatchHeader, batch_end, decode_batch_header

_HEADERS_WINDOW_BYTES: Final = 1 << 16


class SegmentPart:
    """Consecutive batches in one segment file: those that a start found there, or those that were appended since."""

    def __init__(self, base_offset: int, path: Path, position: int, found_bytes: int = 0) -> None:
        """From byte `position` of the file on; of what a start found, `found_bytes` in all."""
        self.base_offset = base_offset
        self.path = path
        self._found_bytes = found_bytes
        self._index = None if found_bytes else BatchIndex(position)

    @property
    def is_indexed(self) -> bool:
        """Whether `index` reads no file."""
        return self._index is not None

    @property
    def index(self) -> BatchIndex:
        """Where the batches lie. Reads the headers of those that a start found, at the first call; raises LogError."""
        if self._index is None:
            index = BatchIndex()
            with os_errors_as_log_errors("read", self.path), self.path.open("rb", buffering=0) as file:
                for header, end_position in _walk_headers(file.fileno(), self._found_bytes, self.path):
                    index.append(header, end_position)
            self._index = index  # two threads that come here at a time make the same
        return self._index

    def read(self, found: Extent) -> bytes:
        """The bytes of those batches. Raises LogError."""
        with os_errors_as_log_errors("read", self.path), self.path.open("rb", buffering=0) as file:
            return _read_whole(file.fileno(), found.position, found.size_bytes, self.path)


class ReadableLog(PartedLog, Protocol):
    """What a `SegmentReader` needs of the log. Each attribute may change while another thread reads it."""

    @property
    def whole_snapshots(self) -> Sequence[WholeSnapshot]: ...


class SegmentReader(PartsReader):
    """A `MetadataLogReader` of a log in a data directory."""

    def __init__(self, log: ReadableLog) -> None:
        super().__init__(log)
        self._log = log

    def on_event_loop(self) -> MetadataLogReader:
        return _ReaderOnEventLoop(self._log)

    @property
    def snapshots(self) -> Sequence[SnapshotId]:
        return [SnapshotId(one.file.end_offset, one.file.leader_epoch) for one in self._log.whole_snapshots]

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> SnapshotPart:
        path = next(
            (
                one.file.path
                for one in self._log.whole_snapshots
                if (one.file.end_offset, one.file.leader_epoch) == snapshot
            ),
            None,
        )
        if path is None:
            raise SnapshotNotFound(f"there is no snapshot of offset {snapshot.end_offset} and epoch {snapshot.epoch}")
        try:
            file = path.open("rb", buffering=0)
        except FileNotFoundError as error:
            raise SnapshotNotFound(f"snapshot {path.name} has just been removed") from error
        with file, os_errors_as_log_errors("read", path):
            size_bytes = os.fstat(file.fileno()).st_size
            if not 0 <= position < size_bytes:
                raise PositionOutOfRange(f"snapshot {path.name} has {size_bytes} bytes, and none at {position}")
            data = _read_whole(file.fileno(), position, min(max_bytes, size_bytes - position), path)
        return SnapshotPart(data, size_bytes)


class _ReaderOnEventLoop(EventLoopReading, SegmentReader):
    def _index_of(self, part: Part) -> BatchIndex:
        if isinstance(part, SegmentPart) and not part.is_indexed:
            raise NeedsThread
        return part.index


def _walk_headers(fd: int, size_bytes: int, path: Path) -> Iterator[tuple[BatchHeader, int]]:
    """The header of each batch in the first bytes of a file, which are whole batches, and where the batch ends."""
    position = 0
    while position < size_bytes:
        data = os.pread(fd, _HEADERS_WINDOW_BYTES, position)
        at = 0
        while at + HEADER_BYTES <= len(data) and position + at < size_bytes:
            header, at = decode_batch_header(data, at), batch_end(data, at)
            yield header, position + at
        if not at:
            raise LogError(f"cannot read {path}: it ends {size_bytes - position} bytes too early")
        position += at


def _read_whole(fd: int, position: int, size_bytes: int, path: Path) -> bytes:
    data = os.pread(fd, size_bytes, position)
    while len(data) < size_bytes:  # the system gives 2 GB at most
        more = os.pread(fd, size_bytes - len(data), position + len(data))
        if not more:
            raise LogError(f"cannot read {path}: it ends {size_bytes - len(data)} bytes too early")
        data += more
    return data
