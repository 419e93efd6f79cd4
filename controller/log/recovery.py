"""Checks a log's files at a start: the log is complete, or has a torn tail that is cut off, or is corrupt.

A crash can leave a part of a batch at the very end, and a loss of power any part of the batches that were written since
the last sync: also a later one without an earlier one. None of them was acknowledged. The log is cut off where the
first broken one begins, with a warning, if that is not below the recovery point (`recovery_point`). Any other damage
raises CorruptLog with file, byte and offset: a broken batch below the recovery point, a gap between offsets, a missing
segment, an epoch that decreases. Nothing is skipped. If the recovery point is not known, a broken batch with a sound
one behind it is damage.

Nothing is synced here. What a killed process left in the page cache, and what is cut off or removed, becomes durable
before the first batch of the new epoch is written (`SegmentLog`). The segments before the last one were synced when it
was made.

With a snapshot, the log is needed and checked from the snapshot's end offset on. Instead of a damaged snapshot, the one
before it or the whole log is used, with a warning, if it reaches as far; then nothing is lost.
"""

import mmap
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from klamm.controller.log.errors import CorruptLog, CorruptSnapshot, LogError, os_errors_as_log_errors
from klamm.controller.log.quorum import NO_QUORUM, Quorum
from klamm.controller.log.segment_files import SegmentFile, list_segments, walk_batches
from klamm.controller.log.snapshot_files import (
    SnapshotFile,
    WholeSnapshot,
    check_snapshot,
    checked_batch,
    list_snapshots,
    remove_parts,
)
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    find_sound_batch,
)
from klamm.quick_dataclasses import dataclass

_UNKNOWN_EPOCH: Final = -1


@dataclass(slots=True)
class Found:
    """How far a log goes. `leader_epoch` is that of its last batch, 0 if there is none."""

    end_offset: int = 0
    leader_epoch: int = 0
    snapshot: SnapshotFile | None = None
    """The snapshot that replaces the records below its end offset; None: there is none."""
    quorum: Quorum = NO_QUORUM

    def accept(self, path: Path, position: int, header: BatchHeader, controls: Sequence[Message]) -> None:
        """Go on to the end of the next batch, which has these control records; CorruptLog if it cannot be the next
        one."""
        if reason := self._refusal(header):
            raise CorruptLog(path, position, self.end_offset, reason)
        self.end_offset = header.last_offset + 1
        self.leader_epoch = header.leader_epoch
        self.quorum = self.quorum.after(controls)

    def _refusal(self, header: BatchHeader) -> str | None:
        if header.base_offset != self.end_offset or header.last_offset < header.base_offset:
            return f"it has offsets {header.base_offset} to {header.last_offset}"
        # The checksum leaves the epoch out. A new one begins with a control batch (LeaderChange) and is higher.
        continues = header.leader_epoch == self.leader_epoch and self.end_offset > 0
        begins = header.leader_epoch > self.leader_epoch and header.is_control
        if not continues and not begins and self.leader_epoch != _UNKNOWN_EPOCH:
            return f"it has leader epoch {header.leader_epoch} inside of epoch {self.leader_epoch}"
        if self.snapshot is not None and self.end_offset < self.snapshot.end_offset <= header.last_offset + 1:
            if header.last_offset >= self.snapshot.end_offset:
                return f"it goes on beyond offset {self.snapshot.end_offset}, the end of snapshot {self.snapshot.path}"
            if header.leader_epoch != self.snapshot.leader_epoch:
                return f"it has leader epoch {header.leader_epoch}, and snapshot {self.snapshot.path} ends with it"
        return None


@dataclass(frozen=True, slots=True)
class Recovered:
    """A log that can go on at `end_offset`."""

    snapshot: WholeSnapshot | None
    end_offset: int
    leader_epoch: int
    last_segment: SegmentFile | None
    """The segment to append to; None: a new one is needed."""
    quorum: Quorum


def recover_log(log_folder: Path, recovery_point: int | None, warn: Callable[[str], None]) -> Recovered:
    """Check the newest snapshot and every batch behind it, cut off a tail that was not durable. Every batch below the
    offset `recovery_point` was durable (None: not known). Where it raises LogError, nothing but such a tail has
    changed."""
    with os_errors_as_log_errors("read the log in", log_folder):
        snapshot, damaged = _newest_whole_snapshot(log_folder)
        try:
            recovered = _recover_behind(log_folder, snapshot, recovery_point, warn)
            if damaged and recovered.end_offset < damaged[0][0].end_offset:
                raise LogError(f"the rest of the log ends at offset {recovered.end_offset}")
        except LogError as error:
            if damaged:
                raise LogError(f"{damaged[0][1]}; without it: {error}") from error
            raise
    for _, damage in damaged:
        used = "the log from its beginning" if snapshot is None else f"the log behind snapshot {snapshot.file.path}"
        warn(f"{damage}; {used} was read instead, and nothing is lost")
    remove_parts(log_folder)
    return recovered


def _newest_whole_snapshot(
    log_folder: Path,
) -> tuple[WholeSnapshot | None, list[tuple[SnapshotFile, CorruptSnapshot]]]:
    """The newest snapshot without fault, and those newer ones that have one, the newest first."""
    damaged: list[tuple[SnapshotFile, CorruptSnapshot]] = []
    for snapshot in reversed(list_snapshots(log_folder)):
        try:
            return check_snapshot(snapshot), damaged
        except CorruptSnapshot as error:
            damaged.append((snapshot, error))
    return None, damaged


def _recover_behind(
    log_folder: Path, snapshot: WholeSnapshot | None, recovery_point: int | None, warn: Callable[[str], None]
) -> Recovered:
    segments, empty = _split_empty_tail(list_segments(log_folder))
    found = Found()
    if snapshot is not None:
        found = Found(snapshot.file.end_offset, snapshot.file.leader_epoch, snapshot.file, snapshot.quorum)
    while len(segments) > 1 and segments[1].base_offset <= found.end_offset:
        segments.pop(0)  # all of it is in the snapshot
    if segments and segments[0].base_offset < found.end_offset:
        # The snapshot ends inside of this segment, or behind it.
        found.end_offset = segments[0].base_offset
        found.leader_epoch = _UNKNOWN_EPOCH if found.end_offset else 0
    for segment in segments:
        _refuse_hole(segment, found)
        _check_segment(segment, found, recovery_point, is_last=segment is segments[-1], warn=warn)
    for segment in empty:
        segment.path.unlink()
    last_segment = segments[-1] if segments else None
    if missing := _missing(found, recovery_point):
        raise LogError(f"the log in {log_folder} ends at offset {found.end_offset}, and {missing}")
    if snapshot is not None and found.end_offset < snapshot.file.end_offset:
        if last_segment is not None:
            warn(
                f"the log in {log_folder} ends at offset {found.end_offset}, and snapshot {snapshot.file.path} stands "
                f"for all up to offset {snapshot.file.end_offset}: the log begins anew there, and nothing is lost"
            )
        leader_epoch = max(found.leader_epoch, snapshot.file.leader_epoch)
        return Recovered(snapshot, snapshot.file.end_offset, leader_epoch, None, found.quorum)
    return Recovered(snapshot, found.end_offset, found.leader_epoch, last_segment, found.quorum)


def _split_empty_tail(segments: list[SegmentFile]) -> tuple[list[SegmentFile], list[SegmentFile]]:
    """Segments without those at the end that were created and never written: the torn tail may be before them."""
    kept = len(segments)
    while kept > 1 and segments[kept - 1].path.stat().st_size == 0:
        kept -= 1
    return segments[:kept], segments[kept:]


def _refuse_hole(segment: SegmentFile, found: Found) -> None:
    end_offset = found.end_offset
    if segment.base_offset > end_offset:
        missing = f"offsets {end_offset} to {segment.base_offset - 1} are missing before segment {segment.path}"
        raise LogError(f"{missing}, and no snapshot replaces them")
    if segment.base_offset < end_offset:
        raise LogError(f"segment {segment.path} begins before the end of the one before it, offset {end_offset}")


def _check_segment(
    segment: SegmentFile, found: Found, recovery_point: int | None, *, is_last: bool, warn: Callable[[str], None]
) -> None:
    path = segment.path
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        try:
            for position, (header, controls) in walk_batches(fd, size, checked_batch):
                found.accept(path, position, header, controls)
        except CorruptBatch as error:
            sound = _find_sound_batch(fd, error.position + 1, size)
            if damage := _damage(found, recovery_point, sound, is_last=is_last):
                raise CorruptLog(path, error.position, found.end_offset, f"{error.reason}; {damage}") from error
            os.ftruncate(fd, error.position)
            behind = "" if sound is None else f"; a sound batch at byte {sound} goes with it, for it was not durable"
            warn(
                f"cut off the torn tail of {path}: {size - error.position} bytes from byte {error.position} on, "
                f"where the batch of offset {found.end_offset} began: {error.reason}{behind}"
            )
    finally:
        os.close(fd)


def _damage(found: Found, recovery_point: int | None, sound: int | None, *, is_last: bool) -> str | None:
    """Why a broken batch at the end of `found` is damage; None: it was never durable. `sound` is the byte of the first
    sound batch behind it."""
    durable_offset = max(recovery_point or 0, found.snapshot.end_offset if found.snapshot else 0)
    if not is_last:
        return "another segment follows"
    if sound is not None and (recovery_point is None or found.end_offset < durable_offset):
        return f"a sound batch follows at byte {sound}"
    return _missing(found, recovery_point)


def _missing(found: Found, recovery_point: int | None) -> str | None:
    """What to say if the log ends below its recovery point, and no snapshot replaces the rest."""
    end_offset = max(found.end_offset, found.snapshot.end_offset if found.snapshot else 0)
    if recovery_point is None or end_offset >= recovery_point:
        return None
    return f"the log was durable up to offset {recovery_point}"


def _find_sound_batch(fd: int, start: int, size: int) -> int | None:
    if size - start < HEADER_BYTES:
        return None
    with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as mapped:
        return find_sound_batch(mapped, start)
