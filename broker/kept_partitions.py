"""The internal topics in a data directory: one folder for each partition that has records, with Kafka's segment files.

Batches are written when they are appended, and synced with the metadata log (`klamm.server.flusher`). A coordinator
acknowledges nothing before its records are below `durable_end`. `partition.metadata` says which topic the folder is of,
as Kafka's does: a folder whose topic does not exist is deleted at the start. A compaction begins a new segment and
deletes those before it when everything in them is written again, so a partition takes about three times the bytes of
its live records, and 2 MiB more, at most.

The event loop calls everything but `sync`, which may run in a thread.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from klamm.controller.log.data_dir import load_small_file
from klamm.controller.log.errors import CorruptLog, LogError, os_errors_as_log_errors
from klamm.controller.log.segment_files import SegmentFile, list_segments, segment_path, walk_batches
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.internal_topics import INTERNAL_TOPICS
from klamm.protocol.record_batch import CorruptBatch, check_batch, is_sound_batch
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass

METADATA: Final = "partition.metadata"
_DELETED: Final = "-delete"
_OFFSET_BYTES: Final = 8
_LENGTH_END: Final = 12
_LAST_DELTA_AT: Final = 23
_UNBOUNDED: Final = 2**63 - 1


class Unsynced(NamedTuple):
    """What a sync has to make durable: a partition's file, and the end offset that is durable then."""

    partition: "_Partition"
    version: int
    end_offset: int
    paths: tuple[Path, ...]


class Sync(NamedTuple):
    """The work of one sync."""

    unsynced: tuple[Unsynced, ...]
    deleted: tuple[Path, ...]


@dataclass(slots=True)
class _Partition:
    """One folder. `version` changes when the log is cut, so that a sync under way does not count for what follows."""

    folder: Path
    segment: Path | None = None
    durable_end: int = 0
    version: int = 0
    rolls: bool = False
    unsynced: dict[Path, int] = field(default_factory=dict)
    """The files written since the last sync, and the end offset of the log then."""


class KeptPartitions:
    """The partitions of internal topics in one data directory."""

    def __init__(self, data_dir: Path, warn: Callable[[str], None]) -> None:
        """`warn` is called when a torn tail was cut off. The directory must be locked by the metadata log."""
        self._data_dir = data_dir
        self._warn = warn
        self._partitions: dict[LogKey, _Partition] = {}
        self._unsynced: dict[LogKey, _Partition] = {}
        self._deleted: list[Path] = []

    @property
    def needs_sync(self) -> bool:
        """Whether something is not durable, or a folder is left to delete."""
        return bool(self._unsynced or self._deleted)

    def durable_end(self, key: LogKey) -> int:
        """Every record of the partition below this offset survives the end of the process. Without a folder there is no
        record that could be lost, though offsets may be in use from an earlier version's directory."""
        found = self._partitions.get(key)
        return _UNBOUNDED if found is None else found.durable_end

    # -- start -----------------------------------------------------------------------------------------------------

    def load(self, exists: Callable[[LogKey], bool]) -> Iterator[tuple[LogKey, list[bytes]]]:
        """The partitions with their batches. Torn tails are cut off; folders of partitions that do not exist are
        deleted. Raises LogError for a damaged file."""
        for name in INTERNAL_TOPICS:
            for folder in sorted(self._data_dir.glob(f"{name}-*")):
                key = _key_of(folder, name)
                if key is None or not exists(key):
                    with os_errors_as_log_errors("delete", folder):
                        shutil.rmtree(folder)
                    continue
                target = self._data_dir / f"{name}-{key[1]}"
                if folder != target:  # a topic whose deletion was undone by a crash
                    with os_errors_as_log_errors("rename", folder):
                        folder.rename(target)
                yield key, self._load(key, target)

    def _load(self, key: LogKey, folder: Path) -> list[bytes]:
        kept = self._partitions[key] = _Partition(folder)
        batches: list[bytes] = []
        segments = list_segments(folder)
        for segment in segments:
            batches += self._read(segment, is_last=segment is segments[-1])
        if segments:
            kept.segment = segments[-1].path
            end = _end_offset(batches[-1]) if batches else segments[-1].base_offset
            # The last segment may be in the page cache only.
            kept.unsynced[kept.segment] = end
            self._unsynced[key] = kept
        return batches

    def _read(self, segment: SegmentFile, *, is_last: bool) -> list[bytes]:
        found: list[bytes] = []
        with os_errors_as_log_errors("read", segment.path), segment.path.open("r+b") as file:
            size = os.fstat(file.fileno()).st_size
            try:
                found += (batch for _, batch in walk_batches(file.fileno(), size, _whole_batch))
            except CorruptBatch as error:
                rest = os.pread(file.fileno(), size - error.position, error.position)
                if not is_last or _has_sound_batch(rest):
                    end = _end_offset(found[-1]) if found else segment.base_offset
                    raise CorruptLog(segment.path, error.position, end, error.reason) from error
                file.truncate(error.position)
                self._warn(f"cut off the torn tail of {segment.path}: {len(rest)} bytes from byte {error.position} on")
        return found

    # -- changes ---------------------------------------------------------------------------------------------------

    def append(self, key: LogKey, topic_name: str, batch: bytes) -> None:
        """Write a batch, which has its offsets, at the end of a partition. Raises LogError."""
        kept = self._partitions.get(key) or self._make(key, topic_name)
        base_offset, end_offset = int.from_bytes(batch[:_OFFSET_BYTES], "big"), _end_offset(batch)
        if kept.segment is None or kept.rolls:
            kept.segment, kept.rolls = segment_path(kept.folder, base_offset), False
        with os_errors_as_log_errors("write", kept.segment), kept.segment.open("ab", buffering=0) as file:
            if file.write(batch) != len(batch):
                raise LogError(f"cannot write {kept.segment}: the disk is full")
        kept.unsynced[kept.segment] = end_offset
        self._unsynced[key] = kept

    def _make(self, key: LogKey, topic_name: str) -> _Partition:
        folder = self._data_dir / f"{topic_name}-{key[1]}"
        with os_errors_as_log_errors("create", folder):
            folder.mkdir()
            (folder / METADATA).write_text(f"version: 0\ntopic_id: {key[0]}\n", encoding="ascii")
        kept = self._partitions[key] = _Partition(folder)
        kept.unsynced[folder / METADATA] = 0
        return kept

    def roll(self, key: LogKey) -> None:
        """Let the next batch begin a new segment."""
        if key in self._partitions:
            self._partitions[key].rolls = True

    def delete_before(self, key: LogKey, offset: int) -> None:
        """Delete the segments all of whose records are below `offset`, the oldest first."""
        kept = self._partitions.get(key)
        if kept is None:
            return
        with os_errors_as_log_errors("delete from", kept.folder):
            for segment, following in pairwise(list_segments(kept.folder)):
                if following.base_offset > offset:
                    break
                kept.unsynced.pop(segment.path, None)
                segment.path.unlink()

    def truncate(self, key: LogKey, offset: int) -> None:
        """Cut the log off at the batch that contains `offset`."""
        kept = self._partitions.get(key)
        if kept is None:
            return
        kept.version += 1
        kept.durable_end = min(kept.durable_end, offset)
        self._unsynced[key] = kept
        first, *others = list_segments(kept.folder)
        for segment in (first, *others):
            with os_errors_as_log_errors("cut", segment.path):
                if segment is not first and segment.base_offset >= offset:
                    segment.path.unlink()
                    kept.unsynced.pop(segment.path, None)
                elif _cut_file(segment.path, offset):
                    kept.segment = segment.path
                    kept.unsynced[segment.path] = offset
                else:
                    kept.segment = segment.path

    def remove(self, topic_id: Uuid) -> None:
        """Forget a topic that was deleted. Its folders go with the next sync, when the deletion is durable."""
        for key in [key for key in self._partitions if key[0] == topic_id]:
            kept = self._partitions.pop(key)
            self._unsynced.pop(key, None)
            gone = kept.folder.with_name(f"{kept.folder.name}.{topic_id}{_DELETED}")
            with os_errors_as_log_errors("rename", kept.folder):
                kept.folder.rename(gone)
            self._deleted.append(gone)

    # -- durability ------------------------------------------------------------------------------------------------

    def begin_sync(self) -> Sync:
        """What has to be synced now. Call it before the metadata log is synced."""
        found = []
        unsynced, self._unsynced = self._unsynced, {}
        for kept in unsynced.values():
            if kept.unsynced:
                paths, end_offset = tuple(kept.unsynced), max(kept.unsynced.values())
                found.append(Unsynced(kept, kept.version, end_offset, paths))
                kept.unsynced = {}
        deleted, self._deleted = tuple(self._deleted), []
        return Sync(tuple(found), deleted)

    def sync(self, work: Sync) -> None:
        """Make it durable. Blocks: call it off the event loop, when the metadata log is synced. Raises LogError."""
        folders = {path.parent for one in work.unsynced for path in one.paths}
        for path in (path for one in work.unsynced for path in one.paths):
            _sync_path(path)
        for folder in (*folders, *({self._data_dir} if folders else ())):
            _sync_path(folder)
        for folder in work.deleted:
            shutil.rmtree(folder, ignore_errors=True)

    def end_sync(self, work: Sync) -> None:
        """Note that it is durable."""
        for one in work.unsynced:
            if one.version == one.partition.version:
                one.partition.durable_end = max(one.partition.durable_end, one.end_offset)


def _cut_file(path: Path, offset: int) -> bool:
    """Cut a segment off at the batch that contains `offset` or follows it; whether there was one."""
    with path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        for position, batch in walk_batches(file.fileno(), size, _whole_batch):
            if _end_offset(batch) > offset:
                file.truncate(position)
                return True
    return False


def _sync_path(path: Path) -> None:
    with os_errors_as_log_errors("sync", path):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # deleted since, with its topic or by a compaction
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _key_of(folder: Path, name: str) -> LogKey | None:
    """The partition that a folder is of; None if that is not known."""
    index = folder.name.removeprefix(f"{name}-").partition(".")[0]
    properties: Mapping[str, str] = dict(
        line.split(": ", 1) for line in (load_small_file(folder / METADATA) or "").splitlines() if ": " in line
    )
    try:
        return Uuid.from_text(properties["topic_id"]), int(index)
    except (KeyError, ValueError):
        return None


def _whole_batch(data: bytes, position: int) -> tuple[bytes, int]:
    end = check_batch(data, position)
    return data[position:end], end


def _end_offset(batch: bytes) -> int:
    base_offset = int.from_bytes(batch[:_OFFSET_BYTES], "big")
    return base_offset + int.from_bytes(batch[_LAST_DELTA_AT : _LAST_DELTA_AT + 4], "big") + 1


def _has_sound_batch(rest: bytes) -> bool:
    """Whether a whole batch is somewhere behind the beginning of these bytes, so that this is damage and no torn
    tail."""
    for at in range(1, len(rest) - _LENGTH_END):
        end = at + _LENGTH_END + int.from_bytes(rest[at + _OFFSET_BYTES : at + _LENGTH_END], "big")
        if end <= len(rest) and is_sound_batch(rest[at:end]):
            return True
    return False
