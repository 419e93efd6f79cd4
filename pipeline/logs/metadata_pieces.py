"""Cuts metadata logs into pieces for several readers, by the headers of batches.

As long as each batch is followed by a batch with the next offset, only headers are read. Where this fails, checksums
are verified: damaged bytes become a piece of their own with a problem, and reading continues at the next sound batch.
A torn tail (part of a batch at the end of the last segment, or zeros of a preallocated file) is no damage: it is
ignored, because it may still be written.

Checksums cover neither the offset nor the leader epoch of a batch, so these are compared with the neighbouring batches.
"""

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from klamm.pipeline.errors import PipelineError
from klamm.pipeline.logs.metadata_logs import MAX_OFFSET, SNAPSHOT_SUFFIX, LogFile, MetadataLog
from klamm.protocol.record_batch import HEADER_BYTES, MAX_BATCH_BYTES, find_sound_batch, is_sound_batch

_WINDOW_BYTES: Final = 1 << 20
# Base offset, length of what follows, leader epoch, format, checksum, attributes, last offset delta.
_HEADER: Final = struct.Struct(">qiibIhi")
_LENGTH_END: Final = 12
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_MAGIC: Final = 2
_CONTROL_ATTRIBUTE: Final = 1 << 5
_SECTOR_BYTES: Final = 512
"""A batch that ends in this many zero bytes was not written completely."""
_UNKNOWN_EPOCH: Final = -1


class Mark(NamedTuple):
    """A position between two batches of a log: file and byte, the next offset, and the leader epoch before it."""

    file: str
    byte: int
    offset: int
    epoch: int


class Piece(NamedTuple):
    """A part of one file for one reader: whole batches, or unreadable bytes if `problem` is set."""

    cluster_id: str
    file: LogFile
    start: int
    offset: int
    """The offset that is expected at the beginning."""
    behind: Mark
    problem: str | None = None

    @property
    def end(self) -> int:
        return self.behind.byte

    @property
    def size(self) -> int:
        return self.end - self.start


class LogPart(NamedTuple):
    """The part of a log from a position (None: its beginning) to another one, for one reader."""

    cluster_id: str
    folder: str
    pieces: tuple[Piece, ...]
    start: Mark | None
    end: Mark

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


def cut_log(log: MetadataLog, start: Mark | None, piece_bytes: int, end: Mark | None = None) -> Iterator[Piece]:
    """The part of a log from `start` (or its beginning) to `end` (or its end when it was found), in pieces of about
    `piece_bytes`. Raises PipelineError if the data after `start` has been deleted."""
    files, mark = _unread(log, start), start
    if end is not None and end.file not in [file.name for file in files]:
        raise PipelineError(f"{log.folder}/{end.file} was to be read, and is gone: records are lost")
    for file in files:
        if mark is None or mark.file != file.name:
            entry = _entry(file, mark)
            if file.base_offset > entry.offset and not file.is_snapshot:
                behind = entry._replace(offset=file.base_offset)
                yield Piece(log.cluster_id, file, 0, entry.offset, behind, _missing(entry.offset, file.base_offset))
                entry = behind
            mark = entry
        is_last = end is not None and file.name == end.file
        for piece in _cut_file(log, file, mark, piece_bytes, end if is_last else None):
            yield piece
            mark = piece.behind
        if is_last:
            return


def _unread(log: MetadataLog, start: Mark | None) -> list[LogFile]:
    """The files of a log from a mark on. Segments that were read may have been deleted; later ones must exist."""
    if start is None:
        return list(log.files)
    names = [file.name for file in log.files]
    if start.file in names:
        files = list(log.files[names.index(start.file) :])
        if files[0].size < start.byte:
            raise PipelineError(f"{files[0].path} is shorter than the part that was read: it is another log")
        return files
    was_read = f"{log.folder} was read up to offset {start.offset}"
    if start.file.endswith(SNAPSHOT_SUFFIX):
        raise PipelineError(f"{log.folder}/{start.file} was read, and what follows it was not: it is gone")
    later = [file for file in log.files if not file.is_snapshot and file.name > start.file]
    begins = (later or log.files)[0].base_offset if log.files else -1
    if begins > start.offset:
        raise PipelineError(f"{was_read} and begins at {begins} by now: records are lost")
    if not later and begins < start.offset:
        raise PipelineError(f"{was_read} and ends before it by now: it is another log")
    return later


def _entry(file: LogFile, before: Mark | None) -> Mark:
    """The mark at the beginning of a file, after another file. In a snapshot offsets start at 0."""
    if file.is_snapshot:
        return Mark(file.name, 0, 0, int(file.name.removesuffix(SNAPSHOT_SUFFIX).rpartition("-")[2]))
    if before is None or before.file.endswith(SNAPSHOT_SUFFIX):
        return Mark(file.name, 0, file.base_offset, _UNKNOWN_EPOCH)
    return Mark(file.name, 0, before.offset, before.epoch)


def _missing(offset: int, next_offset: int) -> str:
    return f"offsets {offset} to {next_offset - 1} are missing"


def _cut_file(log: MetadataLog, file: LogFile, start: Mark, piece_bytes: int, end: Mark | None) -> Iterator[Piece]:
    at = begin = start
    # Only the last file may still grow.
    is_complete = file is not log.files[-1] or file.is_snapshot
    with _opened(file) as batches:
        for behind, problem in _marks_of(batches, start, is_complete=is_complete):
            if at == end:
                break
            if end is not None and behind.byte > end.byte:
                raise PipelineError(f"{file.path} is not what it was when it was read up to byte {end.byte}")
            if problem is not None:
                if at.byte > begin.byte:
                    yield Piece(log.cluster_id, file, begin.byte, begin.offset, at)
                yield Piece(log.cluster_id, file, at.byte, at.offset, behind, problem)
                begin = behind
            elif behind.byte - begin.byte >= piece_bytes:
                yield Piece(log.cluster_id, file, begin.byte, begin.offset, behind)
                begin = behind
            at = behind
        if at.byte > begin.byte:
            yield Piece(log.cluster_id, file, begin.byte, begin.offset, at)
    if end is not None and at.byte < end.byte:
        raise PipelineError(f"{file.path} has become shorter while it was read")


def _marks_of(batches: "_Batches", start: Mark, *, is_complete: bool) -> Iterator[tuple[Mark, str | None]]:
    """The mark after each batch; or the mark after bytes that are no batch, with the problem."""
    name, at, offset, epoch = start
    batch = batches.at(at)
    while at < batches.size:
        following = None if batch is None else batches.at(batch.end)
        leads_on = batch is not None and following is not None and following.base_offset == batch.last_offset + 1
        if batch is None or not _belongs(batches, batch, offset, leads_on=leads_on):
            found = batches.next_sound(at + 1, offset)
            if found is None:
                if (problem := batches.rest_problem(at, batch, is_complete=is_complete)) is not None:
                    yield Mark(name, batches.size, offset, epoch), problem
                return
            reason = f"bytes {at} to {found.start} are no batch of offset {offset}, and a sound one follows"
            at, offset, batch = found.start, found.base_offset, found
            yield Mark(name, at, offset, epoch), reason
            continue
        if batch.base_offset > offset:
            yield Mark(name, at, batch.base_offset, epoch), _missing(offset, batch.base_offset)
        if epoch not in (_UNKNOWN_EPOCH, batch.epoch) and not (batch.is_control and batch.epoch > epoch):
            problem = f"the batch at byte {at} has leader epoch {batch.epoch} inside of epoch {epoch}"
            yield Mark(name, at, batch.base_offset, batch.epoch), problem
        at, offset, epoch = batch.end, batch.last_offset + 1, batch.epoch
        yield Mark(name, at, offset, epoch), None
        batch = following


def _belongs(batches: "_Batches", batch: "_Batch", offset: int, *, leads_on: bool) -> bool:
    """Whether the header of a batch is plausible. After a gap it is accepted if the next batch continues from it."""
    if batch.base_offset == offset:
        return leads_on or batches.is_sound(batch)
    return leads_on and batch.base_offset > offset and batches.is_sound(batch)


class _Batch(NamedTuple):
    """The header of a batch, without any check."""

    start: int
    end: int
    base_offset: int
    last_offset: int
    epoch: int
    is_control: bool


class _Batches:
    """The batches of an open file, up to the size that it had when it was found."""

    def __init__(self, fd: int, size: int) -> None:
        self.size = size
        self._fd = fd
        self._window = b""
        self._window_at = 0

    def at(self, position: int) -> _Batch | None:
        """The batch with its header at this byte; None if the header is impossible."""
        if position + HEADER_BYTES > self.size:
            return None
        inside = position - self._window_at
        if inside < 0 or inside + _HEADER.size > len(self._window):
            self._window, self._window_at, inside = self._read(position, _WINDOW_BYTES), position, 0
        base_offset, length, epoch, magic, _, attributes, last_delta = _HEADER.unpack_from(self._window, inside)
        end = position + _LENGTH_END + length
        if magic != _MAGIC or not HEADER_BYTES <= end - position <= MAX_BATCH_BYTES or end > self.size:
            return None
        if last_delta < 0 or not 0 <= base_offset <= MAX_OFFSET:
            return None
        is_control = bool(attributes & _CONTROL_ATTRIBUTE)
        return _Batch(position, end, base_offset, base_offset + last_delta, epoch, is_control)

    def is_sound(self, batch: _Batch) -> bool:
        return is_sound_batch(self._read(batch.start, batch.end - batch.start))

    def next_sound(self, start: int, offset: int) -> _Batch | None:
        """The first batch from byte `start` on with a correct checksum and at least this offset."""
        if self.size - start < HEADER_BYTES:
            return None
        with mmap.mmap(self._fd, self.size, access=mmap.ACCESS_READ) as mapped:
            position = find_sound_batch(mapped, start)
            while position is not None:
                batch = self.at(position)
                if batch is not None and batch.base_offset >= offset:
                    return batch
                position = find_sound_batch(mapped, position + 1)
        return None

    def rest_problem(self, start: int, batch: _Batch | None, *, is_complete: bool) -> str | None:
        """The problem of the bytes after the last batch; None if they are an incompletely written batch."""
        if self.is_zero(start, self.size):
            return None
        problem = f"bytes {start} to {self.size} are no batch, and nothing follows"
        if is_complete:
            return problem
        if batch is not None:
            empty = max(batch.start + HEADER_BYTES, batch.end - _SECTOR_BYTES)
            unwritten = batch.end - empty == _SECTOR_BYTES and self.is_zero(empty, batch.end)
            return None if unwritten else problem
        front = self._read(start, _MAGIC_AT + 1)
        if len(front) <= _MAGIC_AT:
            return None
        size = _LENGTH_END + int.from_bytes(front[_LENGTH_AT:_LENGTH_END], "big", signed=True)
        if front[_MAGIC_AT] != _MAGIC or not max(HEADER_BYTES, self.size - start) < size <= MAX_BATCH_BYTES:
            return problem
        # The batch is incomplete, unless it is complete and its length is damaged.
        there = self._read(start, self.size - start)
        length = (len(there) - _LENGTH_END).to_bytes(4, "big")
        return problem if is_sound_batch(there[:_LENGTH_AT] + length + there[_LENGTH_END:]) else None

    def is_zero(self, start: int, end: int) -> bool:
        while start < end:
            if self._read(start, min(_WINDOW_BYTES, end - start)).strip(b"\0"):
                return False
            start += _WINDOW_BYTES
        return True

    def _read(self, start: int, size: int) -> bytes:
        return os.pread(self._fd, min(size, self.size - start), start)


def is_zero(file: LogFile, start: int) -> bool:
    """Whether all bytes of a file from this one on are zero. Raises PipelineError if it cannot be opened."""
    with _opened(file) as batches:
        return batches.is_zero(start, batches.size)


@contextmanager
def _opened(file: LogFile) -> Iterator[_Batches]:
    try:
        fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise PipelineError(f"cannot read {file.path}: {error.strerror}") from error
    try:
        yield _Batches(fd, min(file.size, os.fstat(fd).st_size))
    finally:
        os.close(fd)
