"""What a log's files hold after whatever happened: all of it, all but a torn tail, or something that must be seen.

A crash can leave half a batch at the very end; that batch was acknowledged to nobody and is cut off, with a warning.
Anything else that is not as it was written raises CorruptLog with file, byte and offset: a batch that is broken while a
sound one follows, a hole between offsets, a missing segment, an epoch that goes back. Nothing is skipped.
"""

import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.log.data_dir import sync_dir
from controller.log.errors import CorruptLog, LogError, os_errors_as_log_errors
from controller.log.segment_files import SegmentFile, list_segments, walk_batches
from protocol.record_batch import HEADER_BYTES, BatchHeader, CorruptBatch, check_batch, decode_batch_header

# Producer id, producer epoch and base sequence, all -1 in every batch of a metadata log: a batch is found by them.
_NO_PRODUCER: Final = b"\xff" * 14
_NO_PRODUCER_AT: Final = 43
_LENGTH_AT: Final = 8
_LENGTH_END: Final = 12


@dataclass(slots=True)
class Found:
    """How far a log goes. `leader_epoch` is that of its last batch, 0 if there is none."""

    end_offset: int = 0
    leader_epoch: int = 0

    def accept(self, path: Path, position: int, header: BatchHeader) -> None:
        """Go on to the end of the next batch; CorruptLog if it cannot be the next one."""
        if header.base_offset != self.end_offset or header.last_offset < header.base_offset:
            reason = f"it has offsets {header.base_offset} to {header.last_offset}"
            raise CorruptLog(path, position, self.end_offset, reason)
        # The checksum leaves the epoch out. A new one begins with a control batch (LeaderChange) and is higher.
        continues = header.leader_epoch == self.leader_epoch and self.end_offset > 0
        begins = header.leader_epoch > self.leader_epoch and header.is_control
        if not continues and not begins:
            reason = f"it has leader epoch {header.leader_epoch} inside of epoch {self.leader_epoch}"
            raise CorruptLog(path, position, self.end_offset, reason)
        self.end_offset = header.last_offset + 1
        self.leader_epoch = header.leader_epoch


def recover_log(log_folder: Path, warn: Callable[[str], None]) -> tuple[Found, SegmentFile | None]:
    """Check every batch, cut a torn tail off; how far the log goes, and its last segment if there is one."""
    with os_errors_as_log_errors("read the log in", log_folder):
        segments = _drop_empty_tail(log_folder)
        found = Found()
        for segment in segments:
            _refuse_hole(segment, found.end_offset)
            _check_segment(segment, found, is_last=segment is segments[-1], warn=warn)
    return found, segments[-1] if segments else None


def _drop_empty_tail(log_folder: Path) -> list[SegmentFile]:
    """Segments without those at the end that were created and never written: the torn tail may be before them."""
    segments = list_segments(log_folder)
    dropped = False
    while len(segments) > 1 and segments[-1].path.stat().st_size == 0:
        segments.pop().path.unlink()
        dropped = True
    if dropped:
        sync_dir(log_folder)
    return segments


def _refuse_hole(segment: SegmentFile, end_offset: int) -> None:
    if segment.base_offset > end_offset:
        raise LogError(f"offsets {end_offset} to {segment.base_offset - 1} are missing before segment {segment.path}")
    if segment.base_offset < end_offset:
        raise LogError(f"segment {segment.path} begins before the end of the one before it, offset {end_offset}")


def _check_segment(segment: SegmentFile, found: Found, *, is_last: bool, warn: Callable[[str], None]) -> None:
    path = segment.path
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        try:
            for position, header in walk_batches(fd, size, _checked_header):
                found.accept(path, position, header)
            os.fsync(fd)  # a log that was killed leaves pages that are read like any others, and are on no disk yet
        except CorruptBatch as error:
            sound = _find_sound_batch(fd, error.position + 1, size)
            if sound is not None:
                reason = f"{error.reason}; a sound batch follows at byte {sound}"
                raise CorruptLog(path, error.position, found.end_offset, reason) from error
            if not is_last:
                reason = f"{error.reason}; another segment follows"
                raise CorruptLog(path, error.position, found.end_offset, reason) from error
            os.ftruncate(fd, error.position)
            os.fsync(fd)
            warn(
                f"cut off the torn tail of {path}: {size - error.position} bytes from byte {error.position} on, "
                f"where the batch of offset {found.end_offset} began: {error.reason}"
            )
    finally:
        os.close(fd)


def _checked_header(data: bytes, position: int) -> tuple[BatchHeader, int]:
    end = check_batch(data, position)
    return decode_batch_header(data, position), end


def _find_sound_batch(fd: int, start: int, size: int) -> int | None:
    """The first byte from `start` on where a whole batch with the right checksum begins; None if there is none."""
    if size - start < HEADER_BYTES:
        return None
    with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as mapped:
        marker = mapped.find(_NO_PRODUCER, start + _NO_PRODUCER_AT)
        while marker >= 0:
            position = marker - _NO_PRODUCER_AT
            end = position + _LENGTH_END + int.from_bytes(mapped[position + _LENGTH_AT : position + _LENGTH_END], "big")
            if position + HEADER_BYTES <= end <= size and _is_sound(mapped[position:end]):
                return position
            marker = mapped.find(_NO_PRODUCER, marker + 1)
    return None


def _is_sound(batch: bytes) -> bool:
    try:
        return check_batch(batch, 0) == len(batch)
    except CorruptBatch:
        return False
