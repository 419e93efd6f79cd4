"""The rows of a batch, record by record, also of damaged batches. Tests compare `record_blocks` with this reference."""

import json
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from klamm.pipeline.logs.arrow_rows import PARTITION_TYPES, ROW, partition_value
from klamm.protocol.codec.json_form import message_to_json
from klamm.protocol.errors import ProtocolError
from klamm.protocol.raw_records import (
    RawRecord,
    UnknownRecord,
    decode_control_value,
    decode_metadata_value,
    read_record,
)
from klamm.protocol.record_batch import CONTROL_VERSION, HEADER_BYTES, CorruptBatch, check_batch, decode_batch_header

MAX_RAW_BYTES: Final = 1 << 16
"""The most bytes that a row keeps of bytes that are no batch or no record."""
CORRUPT: Final = "corrupt"
"""The `type` of rows with a problem."""
_COMPRESSION_MASK: Final = 0b111
_ATTRIBUTES_END: Final = 23
_TIMESTAMP: Final = slice(35, 43)
_MAX_MILLISECONDS: Final = 253_402_300_799_999
"""The end of the year 9999, in microseconds. Later times cannot be displayed."""
_MAX_VERSION: Final = 32_767


class BatchPlace(NamedTuple):
    """The values that the rows of one batch share."""

    cluster_id: str
    file: str
    base_offset: int
    leader_epoch: int
    timestamp: int | None
    """The time in microseconds."""
    snapshot_end: int | None
    """The end offset of the snapshot; None in a segment."""
    is_control: bool


def batch_place(cluster_id: str, file: str, snapshot_end: int | None, batch: bytes) -> BatchPlace:
    """The place of a batch, from its header."""
    header = decode_batch_header(batch, 0)
    milliseconds = int.from_bytes(batch[_TIMESTAMP], "big", signed=True)
    time = milliseconds * 1000 if 0 <= milliseconds <= _MAX_MILLISECONDS else None
    return BatchPlace(cluster_id, file, header.base_offset, header.leader_epoch, time, snapshot_end, header.is_control)


def check_plain_batch(batch: bytes) -> int:
    """The record count in the header of a batch. Raises CorruptBatch if its checksum is wrong or it is compressed."""
    check_batch(batch, 0)
    if batch[_ATTRIBUTES_END - 1] & _COMPRESSION_MASK:
        raise CorruptBatch("a compressed batch, which no metadata log has", position=0, torn=False)
    return int.from_bytes(batch[HEADER_BYTES - 4 : HEADER_BYTES], "big")


class RecordContent(NamedTuple):
    """The columns of a single record. `type` is "unknown:ID" if the type or the version is not known."""

    type: str
    version: int | None = None
    partition: dict[str, Any] | None = None
    body: str | None = None
    raw: bytes | None = None
    problem: str | None = None


def record_content(record: RawRecord, *, is_control: bool) -> RecordContent:
    """The content of a record, or the problem if it cannot be decoded."""
    try:
        if is_control:
            message, version = decode_control_value(record.key, record.value), CONTROL_VERSION
        else:
            message, version = decode_metadata_value(record.value)
    except UnknownRecord as error:
        known = error.version if error.version <= _MAX_VERSION else None
        return RecordContent(f"unknown:{'control ' if is_control else ''}{error.record_id}", known, raw=record.value)
    except ProtocolError as error:
        return _problem(record.value, str(error))
    kind = type(message).__name__
    if kind in PARTITION_TYPES:
        return RecordContent(kind, version, partition=partition_value(message))
    return RecordContent(kind, version, body=json.dumps(message_to_json(message, version), separators=(",", ":")))


def _problem(raw: bytes, reason: str) -> RecordContent:
    return RecordContent(CORRUPT, raw=raw, problem=reason)


def damage_rows(place: BatchPlace, raw: bytes, reason: str) -> pa.RecordBatch:
    """A row for bytes that are no batch, or for missing offsets."""
    return _rows(place, [_problem(raw[:MAX_RAW_BYTES], reason)])


def rows_one_by_one(place: BatchPlace, batch: bytes, types: Collection[str] | None) -> pa.RecordBatch:
    """The rows of a batch; with `types`, only rows of these types and rows with a problem."""
    contents = _contents(place, batch)
    kept = [types is None or content.type in types or content.problem is not None for content in contents]
    rows = _rows(place, contents)
    return rows if all(kept) else rows.filter(pa.array(kept))


def _contents(place: BatchPlace, batch: bytes) -> list[RecordContent]:
    try:
        count = check_plain_batch(batch)
    except CorruptBatch as error:
        return [_problem(batch[:MAX_RAW_BYTES], error.reason)]
    contents: list[RecordContent] = []
    at = HEADER_BYTES
    while at < len(batch):
        try:
            record, after = read_record(batch, at, len(batch))
        except ProtocolError as error:
            return [*contents, _problem(batch[at : at + MAX_RAW_BYTES], str(error))]
        contents.append(record_content(record, is_control=place.is_control))
        at = after
    header = decode_batch_header(batch, 0)
    if not len(contents) == count == header.last_offset - header.base_offset + 1:
        reason = f"the batch says that it has {count} records, and has {len(contents)}"
        contents.append(_problem(b"", reason))
    return contents


def _rows(place: BatchPlace, contents: Sequence[RecordContent]) -> pa.RecordBatch:
    numbers = range(place.base_offset, place.base_offset + len(contents))
    in_log = place.snapshot_end is None
    last = None if place.snapshot_end is None else place.snapshot_end - 1
    columns: dict[str, Sequence[Any]] = {
        "record_offset": numbers if in_log else [last] * len(contents),
        "snapshot_position": [None] * len(contents) if in_log else numbers,
        **{name: [content[index] for content in contents] for index, name in enumerate(RecordContent._fields)},
    }
    common = {
        "cluster_id": place.cluster_id,
        "leader_epoch": place.leader_epoch,
        "timestamp": place.timestamp,
        "batch_offset": place.base_offset if in_log else last,
        "file": place.file,
    }
    columns |= {name: [value] * len(contents) for name, value in common.items()}
    return pa.RecordBatch.from_arrays([pa.array(columns[field.name], field.type) for field in ROW], schema=ROW)
