"""The metadata log of a controller with a data directory: Kafka's segment files, one batch per append, group commit.

Three threads use this log without a lock. The event loop appends: only it changes `_tail`, by assigning a new tuple.
One worker thread at a time syncs: only it changes `durable_offset`. Each reads the other's attribute once, and gets an
old value or a new one. An old value is always safe: a sync with an old tail makes fewer records durable, and an append
with an old durable offset keeps a file open longer. One worker thread at a time writes a snapshot: only it changes
`_snapshots` and `start_offset`, in this order, and then deletes files that are no longer written. Readers
(`segment_reader`) may run in any thread and change nothing here.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from klamm.controller.log.data_dir import (
    LOG_FOLDER,
    DataDirLock,
    Identity,
    create_data_dir,
    load_identity,
    refuse_foreign_dir,
    sync_dir,
)
from klamm.controller.log.epoch import encode_leader_change
from klamm.controller.log.errors import CorruptLog, LogError, os_errors_as_log_errors
from klamm.controller.log.quorum import STATIC_QUORUM, Quorum, QuorumPlan
from klamm.controller.log.quorum_state import keep_epoch, kept_epoch, next_epoch
from klamm.controller.log.recovery import Recovered, recover_log
from klamm.controller.log.recovery_point import RecoveryPoint, load_recovery_point
from klamm.controller.log.segment_files import decoded_batch, decoded_from, list_segments, segment_path, walk_batches
from klamm.controller.log.segment_reader import SegmentPart, SegmentReader
from klamm.controller.log.snapshot_files import (
    SnapshotContent,
    SnapshotFile,
    WholeSnapshot,
    list_snapshots,
    read_snapshot,
    snapshot_path,
    write_snapshot,
)
from klamm.controller.log.tail import OpenSegment, Tail
from klamm.controller.log_records import Records
from klamm.controller.metadata_log import Snapshot, SnapshotFailed
from klamm.protocol.record_batch import Batch, BatchBuilder, CorruptBatch, decode_batch_header, encode_control_batch
from klamm.protocol.uuid import Uuid

DEFAULT_SEGMENT_BYTES: Final = 1 << 30
"""Kafka's default of `metadata.log.segment.bytes`."""
KEPT_SNAPSHOTS: Final = 2
"""The number of snapshots kept. If the newest is damaged, the one before it and the log after it replace it."""

# fdatasync, if the system has it, syncs the file's size but not metadata that no reader needs.
_sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class SegmentLog:
    """A `MetadataLog` in a data directory. Use `open` to make one."""

    @classmethod
    def open(
        cls,
        data_dir: Path,
        *,
        new_cluster_id: str,
        new_directory_id: Uuid,
        timestamp_ms: int,
        warn: Callable[[str], None],
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        expected_cluster_id: str | None = None,
        keep_history: bool = False,
        quorum: QuorumPlan = STATIC_QUORUM,
    ) -> "SegmentLog":
        """Lock the directory, check the log, begin a new epoch, durably.

        A new directory gets the new ids. `warn` is called when a torn tail was cut off. Raises LogError, with one line,
        for a directory that cannot be used: no directory, not writable, full, in use, not Klamm's, corrupt, or of
        another cluster than the expected one (None: any). With `keep_history`, snapshots do not delete segments.
        `quorum` is what the epoch begins with, if the quorum is dynamic.
        """
        with contextlib.ExitStack() as undo:
            create_data_dir(data_dir)
            refuse_foreign_dir(data_dir)
            lock = DataDirLock(data_dir)
            undo.callback(lock.release)
            identity = load_identity(data_dir, Identity(new_cluster_id, new_directory_id))
            if expected_cluster_id not in (None, identity.cluster_id):
                raise LogError(f"{data_dir} is of cluster {identity.cluster_id}, not of {expected_cluster_id}")
            log = cls(data_dir / LOG_FOLDER, identity, lock, segment_bytes, quorum, keep_history=keep_history)
            undo.callback(log._close_files)
            log._begin(timestamp_ms, warn)
            undo.pop_all()
        return log

    def __init__(
        self,
        log_folder: Path,
        identity: Identity,
        lock: DataDirLock,
        segment_bytes: int,
        quorum: QuorumPlan,
        *,
        keep_history: bool,
    ) -> None:
        self.cluster_id = identity.cluster_id
        self.directory_id = identity.directory_id
        self.leader_epoch = 0
        self.durable_offset = 0
        self.start_offset = 0
        """Records below this offset may be deleted from the log. Set by the thread that writes a snapshot."""
        self._parts: tuple[SegmentPart, ...] = ()
        """The parts of segments that readers use, in the order of offsets. Set by the event loop."""
        self._log_folder = log_folder
        self._lock = lock
        self._segment_bytes = segment_bytes
        self._plan_of_quorum = quorum
        self._quorum = Quorum()
        self._keep_history = keep_history
        self._snapshots: tuple[WholeSnapshot, ...] = ()
        """The newest snapshots that are known to be complete, the newest last."""
        self._tail = Tail(0, ())
        self._active_bytes = 0
        self._roll = False
        """Whether the next batch begins a new segment."""
        self._last_timestamp_ms = 0
        self._recovery_point: RecoveryPoint | None = None
        """Written by the thread that syncs."""
        self._refusal: str | None = None

    @property
    def end_offset(self) -> int:
        return self._tail.end_offset

    @property
    def is_quorum_dynamic(self) -> bool:
        return self._quorum.is_dynamic

    def make_quorum_dynamic(self, timestamp_ms: int) -> None:
        self._refuse_if_broken()
        records = self._quorum.changes(replace(self._plan_of_quorum, is_dynamic=True), self.directory_id)
        if records:
            self._write(encode_control_batch(self.end_offset, self.leader_epoch, timestamp_ms, records))
            self._quorum = self._quorum.after(records)
            self._last_timestamp_ms = timestamp_ms

    def append_batch(self, batch: BatchBuilder, timestamp_ms: int) -> tuple[int, int]:
        self._refuse_if_broken()
        written = self._write(batch.finish(self.end_offset, self.leader_epoch, timestamp_ms))
        self._last_timestamp_ms = timestamp_ms
        return written

    def sync(self) -> None:
        self._refuse_if_broken()
        tail, durable_offset = self._tail, self.durable_offset
        if tail.end_offset == durable_offset:
            return
        with self._broken_by_failure("sync", tail.segments[-1].path):
            _sync_data(tail.segments[-1].fd)  # those before it were synced when it was opened
            if tail.segments[-1].base_offset >= durable_offset:
                sync_dir(self._log_folder)  # a segment was created since
        self.durable_offset = tail.end_offset
        if self._recovery_point is not None:
            with self._broken_by_failure("write", self._recovery_point.path):
                self._recovery_point.write(tail.end_offset)

    def read(self) -> Iterator[Batch]:
        self._refuse_if_broken()
        end_offset, active, active_bytes = self.end_offset, self._tail.segments[-1].path, self._active_bytes
        offset = first_offset = self._snapshots[-1].file.end_offset if self._snapshots else 0
        segments = list_segments(self._log_folder)
        while len(segments) > 1 and segments[1].base_offset <= first_offset:
            segments.pop(0)
        for segment in segments:
            if segment.base_offset >= end_offset:
                break
            with os_errors_as_log_errors("read", segment.path):
                fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    size = active_bytes if segment.path == active else os.fstat(fd).st_size
                    decode = decoded_batch if segment.base_offset >= first_offset else decoded_from(first_offset)
                    for position, batch in walk_batches(fd, size, decode):
                        if batch is None:
                            continue
                        if batch.base_offset != offset:
                            reason = f"it has offset {batch.base_offset}"
                            raise CorruptLog(segment.path, position, offset, reason)
                        yield batch
                        offset = batch.last_offset + 1
                except CorruptBatch as error:
                    raise CorruptLog(segment.path, error.position, offset, error.reason) from error
                finally:
                    os.close(fd)

    def reader(self) -> SegmentReader:
        return SegmentReader(self)

    @property
    def whole_snapshots(self) -> Sequence[WholeSnapshot]:
        """The newest complete snapshots, the newest last, for the log's reader."""
        return self._snapshots

    def parts(self) -> tuple[SegmentPart, ...]:
        """The parts of segments from `start_offset` on, for the log's reader."""
        parts, start_offset = self._parts, self.start_offset
        gone = sum(following.base_offset <= start_offset for following in parts[1:])
        return parts[gone:]

    @property
    def snapshot(self) -> Snapshot | None:
        if not self._snapshots:
            return None
        newest = self._snapshots[-1]
        return Snapshot(newest.file.end_offset, newest.record_count)

    @property
    def is_snapshot_urgent(self) -> bool:
        return False  # what is on disk takes no memory

    def read_snapshot(self) -> Iterator[Batch]:
        self._refuse_if_broken()
        return read_snapshot(self._snapshots[-1].file) if self._snapshots else iter(())

    def begin_snapshot(self, *, roll: bool) -> "SegmentSnapshotPlace":
        self._refuse_if_broken()
        self._roll = self._roll or roll
        path = snapshot_path(self._log_folder, self.end_offset, self.leader_epoch)
        file = SnapshotFile(self.end_offset, self.leader_epoch, path)
        return SegmentSnapshotPlace(self, file, self._last_timestamp_ms, self._quorum)

    def keep_snapshot(self, snapshot: WholeSnapshot) -> None:
        """Add a new snapshot, and delete the segments and snapshots below the one before it, the oldest first. So the
        log has no gap that matters, even if the process dies meanwhile.

        Deletions are not synced. Files that reappear after a power failure are below a complete snapshot: a start does
        not read them, and the next snapshot deletes them.
        """
        others = [other for other in self._snapshots if other.file != snapshot.file]
        self._snapshots = (*others, snapshot)[-KEPT_SNAPSHOTS:]
        if self._keep_history or len(self._snapshots) < KEPT_SNAPSHOTS:
            return
        first_offset = self.start_offset = self._snapshots[0].file.end_offset
        with os_errors_as_log_errors("drop what is behind a snapshot in", self._log_folder):
            for segment, following in pairwise(list_segments(self._log_folder)):
                if following.base_offset > first_offset:
                    break
                segment.path.unlink()
            for old in list_snapshots(self._log_folder):
                if old.end_offset < first_offset:
                    old.path.unlink()

    def close(self) -> None:
        if self._tail.segments:
            self._refusal = self._refusal or "the log is closed"
            self._close_files()
            self._lock.release()

    def _begin(self, timestamp_ms: int, warn: Callable[[str], None]) -> None:
        with os_errors_as_log_errors("create", self._log_folder):
            self._log_folder.mkdir(exist_ok=True)
            sync_dir(self._log_folder.parent)  # always: the process that made the folder may have died before its sync
        recovery_point = load_recovery_point(self._log_folder, kept_epoch(self._log_folder))
        found = recover_log(self._log_folder, recovery_point, warn)
        self._snapshots = (found.snapshot,) if found.snapshot else ()
        self.leader_epoch = next_epoch(self._log_folder, found.leader_epoch)
        self._make_durable(found)
        of_quorum = found.quorum.changes(self._plan_of_quorum, self.directory_id)
        self._quorum = found.quorum.after(of_quorum)
        keep_epoch(self._log_folder, self.leader_epoch, is_dynamic=self._quorum.is_dynamic)
        self._note_found_parts(found)
        self._tail = Tail(found.end_offset, ())
        self._open_segment(found.last_segment.base_offset if found.last_segment else found.end_offset)
        self._write(encode_leader_change(found.end_offset, self.leader_epoch, timestamp_ms, of_quorum))
        self._last_timestamp_ms = timestamp_ms
        self.sync()

    def _make_durable(self, found: Recovered) -> None:
        """Sync what was found, because a process that was killed may have left it in the page cache only, and what was
        cut off. Otherwise a loss of power could leave the first batch of the new epoch behind a hole."""
        if found.last_segment is not None:
            with os_errors_as_log_errors("sync", found.last_segment.path):
                fd = os.open(found.last_segment.path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    _sync_data(fd)
                finally:
                    os.close(fd)
        self._recovery_point = RecoveryPoint(self._log_folder, self.leader_epoch)
        with os_errors_as_log_errors("sync", self._log_folder):
            sync_dir(self._log_folder)
        self._recovery_point.write(found.end_offset)
        self._recovery_point.sync()

    def _note_found_parts(self, found: Recovered) -> None:
        """Make the checked segments available to readers, from the one that contains the snapshot's end offset on."""
        self.start_offset = found.snapshot.file.end_offset if found.snapshot else 0
        if found.last_segment is None:
            return
        with os_errors_as_log_errors("read the log in", self._log_folder):
            sizes = [(segment, segment.path.stat().st_size) for segment in list_segments(self._log_folder)]
        self._parts = tuple(SegmentPart(segment.base_offset, segment.path, 0, size) for segment, size in sizes if size)
        self._parts = self.parts()

    def _open_segment(self, base_offset: int) -> None:
        path = segment_path(self._log_folder, base_offset)
        with self._broken_by_failure("open", path):
            # Sync first, because after a power failure a later segment may exist without the end of an earlier one. So
            # all segments but the last are always synced.
            if self._tail.not_durable(self.durable_offset):
                _sync_data(self._tail.segments[-1].fd)
                sync_dir(self._log_folder)
            fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            unsynced = self._tail.not_durable(self.durable_offset)
            # A sync that runs now ignores segments that were durable when it began, so these can be closed.
            synced = [segment for segment in self._tail.segments if segment not in unsynced]
            self._tail = Tail(self.end_offset, (*unsynced, OpenSegment(base_offset, path, fd)))
            self._active_bytes = os.fstat(fd).st_size
            self._parts = (*self.parts(), SegmentPart(self.end_offset, path, self._active_bytes))
            for segment in synced:
                os.close(segment.fd)

    def _let_go_of_durable_segments(self) -> tuple[OpenSegment, ...]:
        """Close the segments before the last one that have become durable. Returns those that stay open."""
        tail = self._tail
        if len(tail.segments) == 1:
            return tail.segments
        kept = tuple(one for one in tail.segments[:-1] if one in tail.not_durable(self.durable_offset))
        self._tail = Tail(tail.end_offset, (*kept, tail.segments[-1]))
        for segment in tail.segments[:-1]:
            if segment not in kept:
                os.close(segment.fd)  # a sync that runs now ignores segments that were durable when it began
        return self._tail.segments

    def _write(self, batch: bytes) -> tuple[int, int]:
        header = decode_batch_header(batch, 0)
        if self._active_bytes and (self._roll or self._active_bytes + len(batch) > self._segment_bytes):
            self._open_segment(header.base_offset)
        self._roll = False
        segments = self._let_go_of_durable_segments()
        with self._broken_by_failure("write", segments[-1].path):
            rest = memoryview(batch)
            while rest:
                rest = rest[os.write(segments[-1].fd, rest) :]
        self._active_bytes += len(batch)
        self._parts[-1].index.append(header, self._active_bytes)
        self._tail = Tail(header.last_offset + 1, segments)
        return header.base_offset, header.last_offset

    @contextlib.contextmanager
    def _broken_by_failure(self, action: str, path: Path) -> Iterator[None]:
        try:
            with os_errors_as_log_errors(action, path):
                yield
        except LogError as error:
            # A part of a batch may be at the end, or the kernel may have dropped pages. Only a new start can check it.
            self._refusal = str(error)
            raise

    def _refuse_if_broken(self) -> None:
        if self._refusal is not None:
            raise LogError(self._refusal)

    def _close_files(self) -> None:
        for segment in self._tail.segments:
            os.close(segment.fd)
        self._tail = Tail(self.end_offset, ())
        if self._recovery_point is not None:
            self._recovery_point.close()
            self._recovery_point = None


class SegmentSnapshotPlace:
    """A `SnapshotPlace` beside the segments."""

    def __init__(self, log: SegmentLog, file: SnapshotFile, last_timestamp_ms: int, quorum: Quorum) -> None:
        self._log = log
        self._file = file
        self._last_timestamp_ms = last_timestamp_ms
        self._quorum = quorum

    @property
    def end_offset(self) -> int:
        return self._file.end_offset

    def write(self, batches: Iterable[Records], timestamp_ms: int) -> Snapshot:
        if self._log.durable_offset < self.end_offset:
            durable = f"the log, which is durable to {self._log.durable_offset}"
            raise SnapshotFailed(f"a snapshot to offset {self.end_offset} would say more than {durable}")
        try:
            content = SnapshotContent(batches, timestamp_ms, self._last_timestamp_ms, self._quorum)
            snapshot = write_snapshot(self._file, content)
            self._log.keep_snapshot(snapshot)
        except LogError as error:
            raise SnapshotFailed(str(error)) from error
        return Snapshot(self.end_offset, snapshot.record_count)
