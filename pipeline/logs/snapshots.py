"""Compares snapshots with the log: each must be whole and contain the state after all records below its end offset.

A log is read once, record by record, up to the end of its newest snapshot. The snapshot at the beginning of a log
cannot be compared, and neither can snapshots after a damaged part of the log.
"""

import os
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from klamm.pipeline.errors import PipelineError
from klamm.pipeline.logs.log_state import Entry, LogState
from klamm.pipeline.logs.metadata_logs import LogFile, MetadataLog, list_snapshots
from klamm.pipeline.logs.metadata_pieces import Piece, cut_log
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Message
from klamm.protocol.raw_records import UnknownRecord, decode_control_value, decode_metadata_value, read_record
from klamm.protocol.record_batch import HEADER_BYTES, BatchHeader, check_batch, decode_batch_header
from klamm.protocol.record_versions import load_record_type
from klamm.protocol.records.cluster import NoOpRecord
from klamm.protocol.records.control import SnapshotFooterRecord, SnapshotHeaderRecord
from klamm.protocol.records.facts import KEYS, Key, facts_of, key_of, names_of
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.records.topics import TopicRecord

FOUND: Final = "found"
"""The finding for every snapshot."""
COMPARED: Final = "compared"
"""The finding for every snapshot that was compared with the log."""
DAMAGED: Final = "snapshot_whole"
DIFFERENT: Final = "snapshot_says_what_the_log_says"
AHEAD: Final = "snapshot_within_log"
_PIECE_BYTES: Final = 8 << 20
_MAX_VALUE: Final = 120
"""The most characters of a value in the description of a difference."""


class Finding(NamedTuple):
    """A finding about a snapshot. `kind` is one of the names above. `record_offset` is the offset of the last related
    record of the log. `problem` is a description, or None if there is no problem."""

    kind: str
    record_offset: int
    problem: str | None = None


class _Unreadable(Exception):
    """Records are missing or damaged, so the state after them is not known."""


class _TooNew(_Unreadable):
    """A record of a known type has a version of a newer Kafka, so the state after it is not known."""


def judge_snapshots(log: MetadataLog) -> Iterator[Finding]:
    """The findings about all snapshots of a log. Raises PipelineError for files that cannot be read."""
    whole: list[LogFile] = []
    for snapshot in list_snapshots(log):
        yield Finding(FOUND, snapshot.base_offset - 1)
        problem = _damage(log, snapshot)
        if problem is None:
            whole.append(snapshot)
        else:
            yield _damaged(snapshot, problem)
    start = log.files[0].base_offset if log.files and log.files[0].is_snapshot else 0
    if start and all(snapshot.base_offset != start for snapshot in whole):
        return
    waiting = [snapshot for snapshot in reversed(whole) if snapshot.base_offset > start]
    try:
        for snapshot, state, epoch in _states(log, waiting):
            yield from _compare(log, snapshot, state, epoch)
    except _Unreadable:
        return  # other checks report it
    for snapshot in reversed(waiting):
        problem = f"{snapshot.name}: the log ends before the snapshot does"
        yield Finding(AHEAD, snapshot.base_offset - 1, problem)


def _states(log: MetadataLog, waiting: list[LogFile]) -> Iterator[tuple[LogFile, LogState, int]]:
    """Each of these snapshots, with the state of the log at its end offset and the leader epoch of the record before.
    `snapshots` has the newest first; a snapshot is removed from it when the log reaches its end."""
    state, end = LogState(), 0
    for file, header, records in _batches(log) if waiting else ():
        if file.is_snapshot:
            end = file.base_offset
            for record in records:
                state.apply(end - 1, record)
            continue
        for offset, record in enumerate(records, header.base_offset):
            if offset < end:  # the snapshot at the beginning of the log replaces it
                continue
            state.apply(offset, record)
            end = offset + 1
            while waiting and waiting[-1].base_offset == end:
                yield waiting.pop(), state, header.leader_epoch
        if not waiting:
            return


def _compare(log: MetadataLog, snapshot: LogFile, state: LogState, epoch: int) -> Iterator[Finding]:
    """All differences between a whole snapshot and the state of the log at its end offset."""
    end = snapshot.base_offset
    seen: set[tuple[type[Message], Key]] = set()
    names: dict[Any, str] = {}
    if _epoch(snapshot) != epoch:
        yield Finding(DIFFERENT, end - 1, f"{snapshot.name}: the record before its end is of epoch {epoch}")
    try:
        for record in _records_of(log, snapshot):
            kind = type(record)
            key, facts = key_of(record), facts_of(record)
            if isinstance(record, TopicRecord):
                names[record.topic_id] = record.name
            entry = state.find(kind, key)
            problem = "is twice in it" if (kind, key) in seen else _difference(kind, entry, facts)
            seen.add((kind, key))
            if problem is not None:
                offset = end - 1 if entry is None else entry.record_offset
                yield _told(snapshot, offset, kind, _name(kind, key, names), problem)
    except _TooNew:
        return
    except _Unreadable as error:
        yield _damaged(snapshot, str(error))
        return
    for kind, key, entry in state.entries():
        if (kind, key) not in seen:
            named = {key[0]: state.name_of(key[0])} if kind in (TopicRecord, PartitionRecord) else {}
            yield _told(snapshot, entry.record_offset, kind, _name(kind, key, named), "is not in it")
    yield Finding(COMPARED, end - 1)


def _records_of(log: MetadataLog, snapshot: LogFile) -> Iterator[Message]:
    """The records of a snapshot that have a key."""
    for _, _, records in _batches(_alone(log, snapshot)):
        yield from (record for record in records if type(record) in KEYS)


def _damaged(snapshot: LogFile, problem: str) -> Finding:
    return Finding(DAMAGED, snapshot.base_offset - 1, f"{snapshot.name}: {problem}")


def _told(snapshot: LogFile, offset: int, kind: type[Message], name: str, problem: str) -> Finding:
    return Finding(DIFFERENT, offset, f"{snapshot.name}: {' '.join(filter(None, (kind.__name__, name)))} {problem}")


def _difference(kind: type[Message], entry: Entry | None, facts: tuple[Any, ...]) -> str | None:
    if entry is None:
        return "is in it, and not in the log"
    differing = [
        f"{name} is {_text(found)}, by the log {_text(expected)}"
        for name, found, expected in zip(names_of(kind), facts, entry.facts, strict=True)
        if found != expected
    ]
    return f"has other values: {'; '.join(differing)}" if differing else None


def _name(kind: type[Message], key: Key, names: dict[Any, str]) -> str:
    """The key as text for users. Topics have their names if these are known."""
    if kind is TopicRecord:
        return f"{names.get(key[0], '?')} ({key[0]})"
    if kind is PartitionRecord:
        return f"{names.get(key[0], key[0])}-{key[1]}"
    return " ".join(map(_text, key))


def _text(value: Any) -> str:
    if isinstance(value, bytes) and len(value) != 16:
        return f"{len(value)} bytes"  # secrets, most likely
    if isinstance(value, tuple):
        text = f"[{', '.join(map(_text, value))}]"
    else:
        text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}…"


def _damage(log: MetadataLog, snapshot: LogFile) -> str | None:
    """The problem of a damaged or incomplete snapshot; None if there is none. Its contents are not compared."""
    last: Message | None = None
    is_first = True
    try:
        for piece in cut_log(_alone(log, snapshot), None, _PIECE_BYTES):
            for batch, header in _headers(piece):
                control = list(_records(batch, header)) if header.is_control else [None]
                if header.leader_epoch != _epoch(snapshot):
                    return f"it has a batch of epoch {header.leader_epoch}"
                if isinstance(last, SnapshotFooterRecord):
                    return "it continues after its footer"
                if is_first and not isinstance(control[0], SnapshotHeaderRecord):
                    return "it begins without a header"
                is_first, last = False, control[-1]
    except _Unreadable as error:
        return str(error)
    return None if isinstance(last, SnapshotFooterRecord) else "it ends without a footer"


def _alone(log: MetadataLog, snapshot: LogFile) -> MetadataLog:
    return MetadataLog(log.cluster_id, log.folder, (snapshot,))


def _epoch(snapshot: LogFile) -> int:
    return int(snapshot.name.partition(".")[0].rpartition("-")[2])


def _batches(log: MetadataLog) -> Iterator[tuple[LogFile, BatchHeader, Iterator[Message]]]:
    """The batches of a log, with the file and the records of each."""
    for piece in cut_log(log, None, _PIECE_BYTES):
        for batch, header in _headers(piece):
            yield piece.file, header, _records(batch, header)


def _headers(piece: Piece) -> Iterator[tuple[bytes, BatchHeader]]:
    """Every batch of a piece, checked, with its header."""
    if piece.problem is not None:
        raise _Unreadable(piece.problem)
    try:
        with open(piece.file.path, "rb") as file:  # noqa: PTH123 - a path as a string, as everywhere here
            data = os.pread(file.fileno(), piece.end - piece.start, piece.start)
    except OSError as error:
        raise PipelineError(f"cannot read {piece.file.path}: {error.strerror}") from error
    at = 0
    while at < len(data):
        try:
            end = check_batch(data, at)
        except ProtocolError as error:
            raise _Unreadable(f"at byte {piece.start + at}: {error.reason}") from error
        yield data[at:end], decode_batch_header(data, at)
        at = end


def _records(batch: bytes, header: BatchHeader) -> Iterator[Message]:
    """The records of a batch, one per offset. Records of unknown types are replaced by NoOpRecord."""
    at = HEADER_BYTES
    while at < len(batch):
        try:
            raw, at = read_record(batch, at, len(batch))
            if header.is_control:
                yield decode_control_value(raw.key, raw.value)
            else:
                yield decode_metadata_value(raw.value)[0]
        except UnknownRecord as error:
            if not header.is_control and load_record_type(error.record_id) is not None:
                raise _TooNew(str(error)) from error
            yield NoOpRecord()
        except ProtocolError as error:
            raise _Unreadable(str(error)) from error
