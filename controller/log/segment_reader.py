"""Reads a log in a data directory as bytes, while it grows and loses its beginning to snapshots.

The log says which parts of its files there are (`SegmentPart`) and how far it is durable; files are opened for each
read, so that a segment can be deleted at any time. What a start has found in a segment is indexed by the first read
that needs it: starts pay nothing for readers that may never come.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from klamm.controller.leader_epochs import NO_EPOCH, LeaderEpochs
from klamm.controller.log.batch_index import BatchIndex
from klamm.controller.log.errors import LogError, os_errors_as_log_errors
from klamm.controller.log.snapshot_files import WholeSnapshot
from klamm.controller.metadata_log_reader import (
    EpochEnd,
    OffsetNotInLog,
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
    def index(self) -> BatchIndex:
        """Where the batches lie. Reads the headers of those that a start found, at the first call; raises LogError."""
        if self._index is None:
            index = BatchIndex()
            with os_errors_as_log_errors("read", self.path), self.path.open("rb", buffering=0) as file:
                for header, end_position in _walk_headers(file.fileno(), self._found_bytes, self.path):
                    index.append(header, end_position)
            self._index = index  # two threads that come here at a time make the same
        return self._index

    def read(self, position: int, size_bytes: int) -> bytes:
        """Those bytes of the file. Raises LogError."""
        with os_errors_as_log_errors("read", self.path), self.path.open("rb", buffering=0) as file:
            return _read_whole(file.fileno(), position, size_bytes, self.path)


class ReadableLog(Protocol):
    """What a `SegmentReader` needs of the log. Each attribute may change while another thread reads it."""

    @property
    def start_offset(self) -> int: ...

    @property
    def durable_offset(self) -> int: ...

    @property
    def whole_snapshots(self) -> Sequence[WholeSnapshot]: ...

    def parts(self) -> Sequence[SegmentPart]:
        """In the order of offsets, without a hole, from the one that holds `start_offset` on."""
        ...


class SegmentReader:
    """A `MetadataLogReader` of a log in a data directory."""

    def __init__(self, log: ReadableLog) -> None:
        self._log = log

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        return self._log.durable_offset

    @property
    def snapshots(self) -> Sequence[SnapshotId]:
        return [SnapshotId(one.file.end_offset, one.file.leader_epoch) for one in self._log.whole_snapshots]

    def read(self, offset: int, max_bytes: int) -> bytes:
        end_offset = self._log.durable_offset
        if not self._log.start_offset <= offset <= end_offset:
            raise OffsetNotInLog(f"offset {offset} is not in the log of {self._log.start_offset} to {end_offset}")
        try:
            return b"".join(self._pieces(offset, end_offset, max_bytes))
        except LogError as error:
            if offset < self._log.start_offset:  # a snapshot let the segment go since
                raise OffsetNotInLog(f"offset {offset} is below the start, {self._log.start_offset}") from error
            raise

    def _pieces(self, offset: int, end_offset: int, max_bytes: int) -> Iterator[bytes]:
        left, is_first = max_bytes, True
        for part in _from_offset(self._log.parts(), offset):
            found = part.index.find(offset, end_offset, left, at_least_one=is_first)
            if found.size_bytes:
                yield part.read(found.position, found.size_bytes)
                left, is_first = left - found.size_bytes, False
            if found.next_offset is not None:
                return  # the next batch of this part is too large for the limit, or not durable

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        start_offset, end_offset = self._log.start_offset, self._log.durable_offset
        begun: list[tuple[int, int]] = []
        # The newest part first: followers ask for the newest epochs, and older parts may still have to be indexed.
        for part in reversed(self._log.parts()):
            begun[:0] = [(one, first_offset) for one, first_offset in part.index.epochs if first_offset < end_offset]
            if begun and begun[0][0] <= epoch:
                break
        epochs = LeaderEpochs()
        for one, first_offset in begun:
            epochs.begin(one, max(first_offset, start_offset))
        found, end = epochs.end_offset(epoch, end_offset)
        return EpochEnd(epochs.latest, end_offset) if found == NO_EPOCH else EpochEnd(found, end)

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


def _from_offset(parts: Sequence[SegmentPart], offset: int) -> Sequence[SegmentPart]:
    """The parts from the one on that holds `offset`."""
    first = 0
    while first + 1 < len(parts) and parts[first + 1].base_offset <= offset:
        first += 1
    return parts[first:]


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
