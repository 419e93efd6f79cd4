"""Snapshots as files beside the segments: their names, whether they are whole, how they are read and written.

A snapshot is what Apache Kafka calls one: `<end offset>-<epoch>.checkpoint`, record batches with offsets of their own
from 0 on, between a control batch with the header and one with the footer, all in the epoch of the last record that it
stands for (KIP-630). The records of a dynamic quorum follow the header. It is written under another name, and has its
own when it is whole and durable.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from klamm.controller.feature_names import METADATA_VERSION
from klamm.controller.log.data_dir import sync_dir
from klamm.controller.log.errors import CorruptSnapshot, os_errors_as_log_errors
from klamm.controller.log.quorum import NO_QUORUM, Quorum
from klamm.controller.log.segment_files import decoded_batch, walk_batches
from klamm.controller.log_records import Records, count_records
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import (
    Batch,
    BatchHeader,
    CorruptBatch,
    check_batch,
    decode_batch,
    decode_batch_header,
    encode_batch,
    encode_control_batch,
)
from klamm.protocol.record_versions import LATEST_METADATA_VERSION
from klamm.protocol.records.cluster import FeatureLevelRecord
from klamm.protocol.records.control import SnapshotFooterRecord, SnapshotHeaderRecord
from klamm.quick_dataclasses import dataclass

SUFFIX: Final = ".checkpoint"
PART_SUFFIX: Final = SUFFIX + ".part"
SYNC_BYTES: Final = 4 << 20
"""Bytes between two syncs of a snapshot. The log's own syncs, and so answers, wait for each (50 ms for 80 MB)."""
_OFFSET_DIGITS: Final = 20
_EPOCH_DIGITS: Final = 10

T = TypeVar("T")


class SnapshotFile(NamedTuple):
    """A snapshot on disk: it stands for every record below `end_offset`, the last of which has `leader_epoch`."""

    end_offset: int
    leader_epoch: int
    path: Path


class WholeSnapshot(NamedTuple):
    """A snapshot that was checked or written completely, the number of its records, and the quorum at its end."""

    file: SnapshotFile
    record_count: int
    quorum: Quorum = NO_QUORUM


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    """What a snapshot is made of. `timestamp_ms` is that of its batches, the other that of the last record."""

    batches: Iterable[Records]
    timestamp_ms: int
    last_contained_log_timestamp: int
    quorum: Quorum = NO_QUORUM


def snapshot_path(log_folder: Path, end_offset: int, leader_epoch: int) -> Path:
    """The path of the snapshot with this end offset."""
    return log_folder / f"{end_offset:0{_OFFSET_DIGITS}}-{leader_epoch:0{_EPOCH_DIGITS}}{SUFFIX}"


def list_snapshots(log_folder: Path) -> list[SnapshotFile]:
    """The snapshots of a log, the newest last. That of offset 0 stands for nothing: Kafka keeps its voters in it."""
    found = [named_snapshot(path) for path in log_folder.glob(f"*{SUFFIX}")]
    return sorted(one for one in found if one is not None and one.end_offset > 0)


def named_snapshot(path: Path) -> SnapshotFile | None:
    """The snapshot that a file is by its name; None: it has the name of none."""
    offset, _, epoch = path.name.removesuffix(SUFFIX).partition("-")
    if not (_is_number(offset, _OFFSET_DIGITS) and _is_number(epoch, _EPOCH_DIGITS)):
        return None
    return SnapshotFile(int(offset), int(epoch), path)


def remove_parts(log_folder: Path) -> None:
    """Delete incomplete snapshots of a process that died."""
    for path in log_folder.glob(f"*{PART_SUFFIX}"):
        with os_errors_as_log_errors("remove", path):
            path.unlink()


def check_snapshot(snapshot: SnapshotFile) -> WholeSnapshot:
    """Read every byte, without a look at what the metadata means; CorruptSnapshot if it is not as it was written."""
    end_offset, closed_at, quorum = 0, -1, Quorum()
    for position, (header, controls) in _walk(snapshot.path, checked_batch):
        reason, control = None, controls[0] if controls else None
        quorum = quorum.after(controls)
        if header.base_offset != end_offset or header.last_offset < header.base_offset:
            reason = f"it has offsets {header.base_offset} to {header.last_offset}"
        elif header.leader_epoch != snapshot.leader_epoch:
            reason = f"it has leader epoch {header.leader_epoch}"
        elif (end_offset == 0) != isinstance(control, SnapshotHeaderRecord):
            reason = "it is no header" if end_offset == 0 else "it is a second header"
        elif closed_at >= 0:
            reason = f"the footer at byte {closed_at} is the last"
        if reason is not None:
            raise CorruptSnapshot(snapshot.path, position, reason)
        end_offset = header.last_offset + 1
        if isinstance(control, SnapshotFooterRecord):
            closed_at = position
    if closed_at < 0:
        with os_errors_as_log_errors("read", snapshot.path):
            size = snapshot.path.stat().st_size
        raise CorruptSnapshot(snapshot.path, size, "it ends without a footer")
    return WholeSnapshot(snapshot, end_offset, quorum)


def read_snapshot(snapshot: SnapshotFile) -> Iterator[Batch]:
    """Every batch of a whole snapshot, header and footer among them. Raises CorruptSnapshot for one that is not."""
    for _, batch in _walk(snapshot.path, decoded_batch):
        yield batch


def write_snapshot(snapshot: SnapshotFile, content: SnapshotContent) -> WholeSnapshot:
    """Write a snapshot such that a crash leaves all of it or none. Raises LogError, and leaves nothing then."""
    part = snapshot.path.with_name(snapshot.path.name.removesuffix(SUFFIX) + PART_SUFFIX)
    try:
        with os_errors_as_log_errors("write", part):
            with part.open("wb") as file:
                record_count = synced = 0
                for batch, count in encode_snapshot(snapshot.leader_epoch, content):
                    file.write(batch)
                    record_count += count
                    if file.tell() >= synced + SYNC_BYTES:
                        file.flush()
                        os.fsync(file.fileno())
                        synced = file.tell()
                file.flush()
                os.fsync(file.fileno())
            part.replace(snapshot.path)
            sync_dir(snapshot.path.parent)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    return WholeSnapshot(snapshot, record_count, content.quorum)


def encode_snapshot(leader_epoch: int, content: SnapshotContent) -> Iterator[tuple[bytes, int]]:
    """Each batch of a snapshot, the control batches included, with the number of its records."""
    timestamp_ms = content.timestamp_ms
    header = SnapshotHeaderRecord(last_contained_log_timestamp=content.last_contained_log_timestamp)
    controls = [header, *content.quorum.records]
    yield encode_control_batch(0, leader_epoch, timestamp_ms, controls), len(controls)
    offset, metadata_version = len(controls), LATEST_METADATA_VERSION
    for records in content.batches:
        count = count_records(records)
        metadata_version = _metadata_version(records, metadata_version)
        yield encode_batch(offset, leader_epoch, timestamp_ms, records, metadata_version), count
        offset += count
    yield encode_control_batch(offset, leader_epoch, timestamp_ms, [SnapshotFooterRecord()]), 1


def _metadata_version(records: Records, before: int) -> int:
    """The metadata.version in which these records are written: that of their own record, which is the first."""
    first = next(iter(records), None)
    if isinstance(first, FeatureLevelRecord) and first.name == METADATA_VERSION:
        return first.feature_level
    return before


def _walk(path: Path, decode: Callable[[bytes, int], tuple[T, int]]) -> Iterator[tuple[int, T]]:
    with os_errors_as_log_errors("read", path), path.open("rb", buffering=0) as file:
        try:
            yield from walk_batches(file.fileno(), os.fstat(file.fileno()).st_size, decode)
        except CorruptBatch as error:
            raise CorruptSnapshot(path, error.position, error.reason) from error


def checked_batch(data: bytes, position: int) -> tuple[tuple[BatchHeader, Sequence[Message]], int]:
    """For `walk_batches`: the header of each batch, and the records of a control batch."""
    end = check_batch(data, position)
    header = decode_batch_header(data, position)
    return (header, decode_batch(data, position).records if header.is_control else ()), end


def _is_number(text: str, digits: int) -> bool:
    return len(text) == digits and text.isascii() and text.isdigit()
