"""The copy of another cluster's metadata log in a data directory: its batches byte for byte, its snapshots whole.

The copy may be behind the leader's log, but it is never different from it. What a crash has left broken at the end is
cut off when the leader of the same cluster has sent what comes there; a batch of which a byte is wrong is not written
at all. Each append is synced before the next fetch tells the leader how far the copy goes.

`meta.properties` names the followed cluster and an id that is no voter's, so that no controller, neither Apache Kafka's
nor Klamm's, starts on the copy by mistake.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Final

from klamm.controller.log.data_dir import (
    LOG_FOLDER,
    DataDirLock,
    create_data_dir,
    load_small_file,
    refuse_foreign_dir,
    remove_empty_dirs,
    replace_file,
    sync_dir,
)
from klamm.controller.log.errors import CorruptSnapshot, LogError, os_errors_as_log_errors
from klamm.controller.log.segment_files import list_segments, segment_path, walk_batches
from klamm.controller.log.snapshot_files import SnapshotFile, check_snapshot, list_snapshots, remove_parts
from klamm.controller.metadata_log_reader import SnapshotId
from klamm.protocol.record_batch import BatchHeader, CorruptBatch, check_batch, decode_batch_header
from klamm.protocol.uuid import Uuid
from klamm.twin.follower_identity import (
    FIRST_REPLICA_ID,
    FollowerIdentity,
    load_follower_identity,
    write_follower_identity,
)
from klamm.twin.newest_batches import KeptBatch, NewestBatches

SEGMENT_BYTES: Final = 1 << 30
STATE_FILE: Final = "follower-state"


class Diverged(LogError):
    """The leader's log does not have what this copy has below a high watermark that it has seen."""


@dataclass(slots=True)
class _Segment:
    base_offset: int
    path: Path
    size: int = 0


class FollowedLog:
    """A copy that grows. It holds the lock of its directory until `close`."""

    def __init__(self, data_dir: Path) -> None:
        """Opens or creates the copy; a broken tail is not counted. Raises LogError, also for a directory of another
        kind."""
        self._made = create_data_dir(data_dir)
        refuse_foreign_dir(data_dir)
        load_follower_identity(data_dir)  # before the lock, so that nothing is left in a directory of another kind
        self.data_dir = data_dir
        self._lock = DataDirLock(data_dir)
        self._segments: list[_Segment] = []
        self._epochs: list[tuple[int, int]] = []
        """The leader epochs of the copy, each with its first offset, in order."""
        self._newest = NewestBatches()
        self._file: int | None = None
        self.broken_bytes = 0
        """Behind the last whole batch, or behind a lost snapshot. They stay until the leader has replaced them."""
        self._broken_files: list[Path] = []
        self.damage = ""
        """One clause about the first of them."""
        try:
            self.identity = load_follower_identity(data_dir)
            self._folder = data_dir / LOG_FOLDER
            with os_errors_as_log_errors("use", self._folder):
                self._folder.mkdir(exist_ok=True)
                sync_dir(data_dir)
            remove_parts(self._folder)
            self.snapshot = self._newest_snapshot()
            self.end_offset = self.snapshot.end_offset if self.snapshot else 0
            self._recover()
            self.high_watermark = self._load_high_watermark()
        except BaseException:
            self._lock.release()
            raise

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last batch; 0 if the copy is empty."""
        if self._epochs:
            return self._epochs[-1][0]
        return self.snapshot.epoch if self.snapshot else 0

    @property
    def start_offset(self) -> int:
        """The first offset that the copy has."""
        if self._segments:
            return self._segments[0].base_offset
        return self.end_offset

    def name(self, cluster_id: str) -> None:
        """Note whose copy this is, before the first byte is written. Raises LogError if it is another cluster's."""
        if self.identity is None:
            replica_id = SystemRandom().randrange(FIRST_REPLICA_ID, 2**31 - 1)
            self.identity = FollowerIdentity(cluster_id, replica_id, Uuid(os.urandom(16)))
            write_follower_identity(self.data_dir, self.identity)
        elif self.identity.cluster_id != cluster_id:
            raise LogError(
                f"{self.data_dir} is a copy of cluster {self.identity.cluster_id}, and this is cluster {cluster_id}"
            )

    # -- growing ---------------------------------------------------------------------------------------------------

    def append(self, records: bytes) -> int:
        """Write the whole batches of a Fetch answer that continue the copy, and sync. Returns their number.

        Raises CorruptBatch before anything is written if a batch is broken, has an older epoch, or does not continue
        the copy; LogError if the file cannot be written."""
        batches = list(self._checked(records))
        if batches:
            self._remove_broken()
        for header, start, end in batches:
            segment = self._segment_for(header.base_offset, end - start)
            with os_errors_as_log_errors("write", segment.path):
                _write_whole(self._opened(segment), records[start:end], segment.size)
            self._note(segment, header, segment.size, end - start)
        if batches and self._file is not None:
            with os_errors_as_log_errors("sync", self._segments[-1].path):
                os.fdatasync(self._file)
        return len(batches)

    def _checked(self, records: bytes) -> Iterator[tuple[BatchHeader, int, int]]:
        position, next_offset, epoch = 0, self.end_offset, self.last_epoch
        while position < len(records):
            try:
                end = check_batch(records, position)
            except CorruptBatch as error:
                if error.torn:
                    return  # The leader cuts its answer at a number of bytes.
                raise
            header = decode_batch_header(records, position)
            if header.last_offset >= self.end_offset:
                if header.base_offset != next_offset or header.last_offset < header.base_offset:
                    reason = f"it has offsets {header.base_offset} to {header.last_offset} where {next_offset} was due"
                    raise CorruptBatch(reason, position=position, torn=False)
                if header.leader_epoch < epoch:
                    reason = f"it has leader epoch {header.leader_epoch} behind {epoch}"
                    raise CorruptBatch(reason, position=position, torn=False)
                yield header, position, end
                next_offset, epoch = header.last_offset + 1, header.leader_epoch
            position = end

    def note_high_watermark(self, high_watermark: int) -> None:
        """The leader says up to where the log can change no more."""
        self.high_watermark = max(self.high_watermark, min(high_watermark, self.end_offset))

    def keep_state(self) -> None:
        """Write the high watermark durably, so that a later start knows what must not change."""
        if self.identity is None:
            return  # nothing was copied
        state = {"highWatermark": self.high_watermark, "endOffset": self.end_offset, "leaderEpoch": self.last_epoch}
        replace_file(self._folder / STATE_FILE, json.dumps(state) + "\n")

    # -- what the leader demands -----------------------------------------------------------------------------------

    def truncate(self, epoch: int, end_offset: int) -> int:
        """Remove what the leader does not have: its log has `epoch` up to `end_offset`. Returns the new end.

        Raises Diverged, and changes nothing, if a record below the high watermark would be lost."""
        to = min(end_offset, self._end_of_epoch(epoch))
        if to < self.high_watermark:
            raise self._diverged(to)
        self._cut_to(to)
        return to

    def last_committed(self) -> KeptBatch | None:
        """The last batch that can change no more; None: it is not known."""
        return self._newest.last_below(self.high_watermark)

    def compare(self, batch: KeptBatch, records: bytes) -> None:
        """Compare a committed batch with what the leader has at its offset. Raises Diverged."""
        compared = min(batch.size, len(records))
        if batch.content()[:compared] != records[:compared]:
            raise self._diverged(batch.base_offset)

    def _diverged(self, offset: int) -> Diverged:
        return Diverged(
            f"the leader's log differs from offset {offset} on, and records up to offset {self.high_watermark} were "
            f"committed: the cluster has lost records, or {self.data_dir} is a copy of another one. Nothing was "
            "changed. Use another directory"
        )

    def begin_anew(self, snapshot: SnapshotFile) -> None:
        """The log begins behind a snapshot that was fetched whole; what was before it is removed."""
        self._close_file()
        self._broken_files = [path for path in self._broken_files if path != snapshot.path]  # it has been replaced
        self._remove_broken()
        with os_errors_as_log_errors("remove the log before the snapshot in", self._folder):
            for segment in self._segments:
                segment.path.unlink()
            for older in list_snapshots(self._folder):
                if older.path != snapshot.path:
                    older.path.unlink()
            sync_dir(self._folder)
        self._segments, self._epochs = [], []
        self._newest.cut(0)
        self.snapshot = SnapshotId(snapshot.end_offset, snapshot.leader_epoch)
        self.end_offset = self.high_watermark = snapshot.end_offset

    @property
    def folder(self) -> Path:
        """Where segments and snapshots lie."""
        return self._folder

    def close(self) -> None:
        """Release the directory. If nothing was ever copied, what `__init__` made is removed."""
        self._close_file()
        if self.identity is None:
            with suppress(OSError):
                self._folder.rmdir()
            self._lock.remove()
        self._lock.release()
        if self.identity is None:
            remove_empty_dirs(self._made)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _end_of_epoch(self, epoch: int) -> int:
        """Where records of `epoch` and older ones end in this copy."""
        for number, first_offset in self._epochs:
            if number > epoch:
                return first_offset
        return self.end_offset

    def _cut_to(self, offset: int) -> None:
        self._close_file()
        self._remove_broken()
        while self._segments and self._segments[-1].base_offset >= offset:
            gone = self._segments.pop()
            with os_errors_as_log_errors("remove", gone.path):
                gone.path.unlink()
        if self._segments:
            segment = self._segments[-1]
            with os_errors_as_log_errors("cut", segment.path):
                segment.size = _bytes_before(segment, offset)
                os.truncate(segment.path, segment.size)
        self._epochs = [(epoch, first) for epoch, first in self._epochs if first < offset]
        self._newest.cut(offset)
        self.end_offset = offset
        sync_dir(self._folder)

    def _segment_for(self, base_offset: int, size: int) -> _Segment:
        if not self._segments or self._segments[-1].size + size > SEGMENT_BYTES:
            self._close_file()
            path = segment_path(self._folder, base_offset)
            with os_errors_as_log_errors("create", path):
                path.touch()
                sync_dir(self._folder)
            self._segments.append(_Segment(base_offset, path))
        return self._segments[-1]

    def _note(self, segment: _Segment, header: BatchHeader, position: int, size: int) -> None:
        segment.size = position + size
        first, last = header.base_offset, header.last_offset
        self._newest.note(KeptBatch(first, last, self.last_epoch, segment.path, position, size))
        if not self._epochs or self._epochs[-1][0] != header.leader_epoch:
            self._epochs.append((header.leader_epoch, header.base_offset))
        self.end_offset = header.last_offset + 1

    def _opened(self, segment: _Segment) -> int:
        if self._file is None:
            with os_errors_as_log_errors("write", segment.path):
                self._file = os.open(segment.path, os.O_RDWR | os.O_CLOEXEC)
        return self._file

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _newest_snapshot(self) -> SnapshotId | None:
        for snapshot in reversed(list_snapshots(self._folder)):
            try:
                check_snapshot(snapshot)
                return SnapshotId(snapshot.end_offset, snapshot.leader_epoch)
            except CorruptSnapshot as error:
                self._leave_out(snapshot.path, str(error))
        return None

    def _leave_out(self, path: Path, reason: str) -> None:
        self.damage = self.damage or reason
        with os_errors_as_log_errors("read", path):
            self.broken_bytes += path.stat().st_size
        self._broken_files.append(path)

    def _recover(self) -> None:
        """Read the headers of all batches; everything from the first broken one on does not count."""
        found = list_segments(self._folder)
        if found and self.snapshot is not None and found[0].base_offset < self.end_offset:
            self.end_offset = found[0].base_offset
        is_broken = False
        for base_offset, path in found:
            if is_broken or base_offset != self.end_offset:
                is_broken = True
                self._leave_out(path, f"{path} does not continue the copy")
                continue
            with os_errors_as_log_errors("read", path):
                is_broken = self._read_segment(_Segment(base_offset, path), path.stat().st_size)
        if self.snapshot is not None and self.end_offset < self.snapshot.end_offset:
            for segment in self._segments:
                self._leave_out(segment.path, f"{segment.path} ends before the snapshot")
            self._segments, self._epochs = [], []
            self._newest.cut(0)
            self.end_offset = self.snapshot.end_offset

    def _remove_broken(self) -> None:
        """Cut off what does not count."""
        if not (self.broken_bytes or self._broken_files):
            return
        with os_errors_as_log_errors("cut", self._folder):
            for path in self._broken_files:
                path.unlink()
            if self._segments:
                os.truncate(self._segments[-1].path, self._segments[-1].size)
            sync_dir(self._folder)
        self.broken_bytes, self._broken_files, self.damage = 0, [], ""

    def _read_segment(self, segment: _Segment, size: int) -> bool:
        """Returns whether its tail was broken."""
        self._segments.append(segment)
        fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for position, (header, length) in walk_batches(fd, size, _checked_header):
                if header.base_offset != self.end_offset or header.leader_epoch < self.last_epoch:
                    raise CorruptBatch("it does not continue the log", position=position, torn=False)
                self._note(segment, header, position, length)
        except CorruptBatch as error:
            broken_bytes = size - segment.size
            self.broken_bytes += broken_bytes
            how = f"the last {broken_bytes} bytes are incomplete" if error.torn else error.reason
            self.damage = self.damage or f"{segment.path} is damaged at byte {error.position}: {how}"
            return True
        finally:
            os.close(fd)
        return False

    def _load_high_watermark(self) -> int:
        known = self.snapshot.end_offset if self.snapshot else 0
        text = load_small_file(self._folder / STATE_FILE)
        if text is not None:
            with suppress(ValueError, TypeError, KeyError, AttributeError):
                known = max(known, int(json.loads(text)["highWatermark"]))
        return min(known, self.end_offset)


def _checked_header(data: bytes, position: int) -> tuple[tuple[BatchHeader, int], int]:
    end = check_batch(data, position)
    return (decode_batch_header(data, position), end - position), end


def _bytes_before(segment: _Segment, offset: int) -> int:
    """The bytes of the batches of a segment that begin below an offset."""
    with segment.path.open("rb", buffering=0) as file:
        for position, (header, _) in walk_batches(file.fileno(), segment.size, _checked_header):
            if header.base_offset >= offset:
                return position
    return segment.size


def _write_whole(fd: int, data: bytes, position: int) -> None:
    with memoryview(data) as rest:
        written = 0
        while written < len(rest):
            written += os.pwrite(fd, rest[written:], position + written)
