"""The past of a log that begins as a copy: a snapshot, the batches behind it, and their epoch.

A copy is read from a data directory, of Klamm, of Apache Kafka or of `klamm follow`, or from one file of it. The source
is only read, and it may grow meanwhile: what its owner has not written whole yet is left out.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from klamm.controller.log.data_dir import LOG_FOLDER, META_PROPERTIES, load_small_file, pairs_of
from klamm.controller.log.errors import CorruptLog, LogError, os_errors_as_log_errors
from klamm.controller.log.quorum import Quorum
from klamm.controller.log.segment_files import SegmentFile, list_segments, walk_batches
from klamm.controller.log.snapshot_files import (
    SUFFIX,
    SnapshotFile,
    check_snapshot,
    checked_batch,
    list_snapshots,
    named_snapshot,
)
from klamm.controller.metadata_log_reader import SnapshotId
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import (
    BatchHeader,
    CorruptBatch,
    batch_timestamp_ms,
    decode_batch,
    decode_batch_header,
)
from klamm.protocol.records.control import SnapshotHeaderRecord

_SEGMENT_SUFFIX: Final = ".log"


class MemorySnapshot(NamedTuple):
    """A snapshot as the bytes of its file, and the number of its records."""

    id: SnapshotId
    data: bytes
    record_count: int


class Past(NamedTuple):
    """What a new log goes on from."""

    snapshot: MemorySnapshot | None
    batches: Sequence[bytes]
    """Whole batches in offset order, from the snapshot's end on."""
    leader_epoch: int
    """That of the last record."""
    quorum: Quorum
    cluster_id: str | None
    """None: the source does not say it."""

    @property
    def end_offset(self) -> int:
        """The offset behind the last record."""
        if self.batches:
            return decode_batch_header(self.batches[-1], 0).last_offset + 1
        return 0 if self.snapshot is None else self.snapshot.id.end_offset

    @property
    def last_timestamp_ms(self) -> int | None:
        """The time of the last record; None: there is none, or the snapshot does not say it."""
        if self.batches:
            return batch_timestamp_ms(self.batches[-1], 0)
        if self.snapshot is None:
            return None
        header = next(iter(decode_batch(self.snapshot.data, 0).contents))
        said = header.last_contained_log_timestamp if isinstance(header, SnapshotHeaderRecord) else 0
        return said if said > 0 else None


def read_past(source: Path) -> Past:
    """The past in a data directory, in its log folder, or in a FILE.checkpoint or FILE.log. Raises LogError: there is
    no metadata log, or it is damaged in its middle."""
    with os_errors_as_log_errors("read", source):
        if source.is_dir():
            folder = source / LOG_FOLDER if (source / LOG_FOLDER).is_dir() else source
            os.scandir(folder).close()  # `glob` finds nothing in a folder that may not be read
            snapshots, segments = list_snapshots(folder), list_segments(folder)
        else:
            source.stat()
            folder = source.parent
            snapshots, segments = _of_file(source)
        if not snapshots and not segments:
            raise LogError(f"{source} has no metadata log: neither segments nor a snapshot")
        for path in (*(one.path for one in snapshots[-1:]), *(one.path for one in segments)):
            if not path.is_file():
                raise LogError(f"{path} is not a regular file")
        found = _Found(snapshots[-1] if snapshots else None)
        for segment in segments:
            with os_errors_as_log_errors("read", segment.path):
                found.read(segment, is_last=segment is segments[-1])
    return Past(found.snapshot, found.batches, found.leader_epoch, found.quorum, _cluster_id(folder))


def _of_file(path: Path) -> tuple[list[SnapshotFile], list[SegmentFile]]:
    if path.suffix == SUFFIX:
        found = named_snapshot(path)
        if found is not None:
            return [found], []
    if path.suffix == _SEGMENT_SUFFIX and path.stem.isascii() and path.stem.isdigit():
        return [], [SegmentFile(int(path.stem), path)]
    raise LogError(f"{path} is neither a data directory nor a file of a metadata log, such as {0:020}.log")


class _Found:
    """What has been read so far."""

    def __init__(self, file: SnapshotFile | None) -> None:
        self.snapshot: MemorySnapshot | None = None
        self.batches: list[bytes] = []
        self.end_offset = self.leader_epoch = 0
        self.quorum = Quorum()
        if file is not None:
            whole = check_snapshot(file)
            self.end_offset, self.leader_epoch, self.quorum = file.end_offset, file.leader_epoch, whole.quorum
            snapshot_id = SnapshotId(file.end_offset, file.leader_epoch)
            self.snapshot = MemorySnapshot(snapshot_id, file.path.read_bytes(), whole.record_count)

    def read(self, segment: SegmentFile, *, is_last: bool) -> None:
        """Add the batches of a segment that are behind the others."""
        fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for _, (data, header, controls) in walk_batches(fd, os.fstat(fd).st_size, _whole_batch):
                if header.last_offset >= self.end_offset:
                    self._add(segment, data, header, controls)
        except CorruptBatch as error:
            if not (is_last and error.torn):
                raise CorruptLog(segment.path, error.position, self.end_offset, error.reason) from error
        finally:
            os.close(fd)

    def _add(self, segment: SegmentFile, data: bytes, header: BatchHeader, controls: Sequence[Message]) -> None:
        if header.base_offset != self.end_offset:
            missing = (
                f"offsets {self.end_offset} to {header.base_offset - 1} are missing before a batch of {segment.path}"
            )
            raise LogError(f"{missing}, and no snapshot has them")
        self.batches.append(data)
        self.end_offset, self.leader_epoch = header.last_offset + 1, header.leader_epoch
        self.quorum = self.quorum.after(controls)


def _whole_batch(data: bytes, position: int) -> tuple[tuple[bytes, BatchHeader, Sequence[Message]], int]:
    (header, controls), end = checked_batch(data, position)
    return (data[position:end], header, controls), end


def _cluster_id(folder: Path) -> str | None:
    for place in (folder, folder.parent):
        found = pairs_of(load_small_file(place / META_PROPERTIES) or "").get("cluster.id")
        if found:
            return found
    return None
