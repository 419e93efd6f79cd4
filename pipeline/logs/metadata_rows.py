"""Batches of a metadata log as Arrow rows of bronze.metadata_record: every record gets a row, come what may.

What cannot be decoded keeps its bytes: a record type or version that is not known is that of a newer Kafka, and no
problem; anything else says what is wrong with it.
"""

import json
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pipeline.errors import PipelineError
from pipeline.logs.arrow_rows import PARTITION_TYPES, ROW, partition_run, partition_value
from pipeline.logs.metadata_pieces import Piece
from protocol.codec.column_records import decode_runs
from protocol.codec.json_form import message_to_json
from protocol.columns import Columns
from protocol.errors import ProtocolError
from protocol.fields import Message
from protocol.raw_records import RawRecord, UnknownRecord, decode_control_value, decode_metadata_value, read_record
from protocol.record_batch import (
    CONTROL_VERSION,
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    check_batch,
    decode_batch_header,
)

MAX_RAW_BYTES: Final = 1 << 16
"""Of bytes that are no batch, so many are kept."""
MIN_RUN_RECORDS: Final = 32
"""In smaller batches runs are not looked for."""
_MAX_MILLISECONDS: Final = 253_402_300_799_999
"""The end of the year 9999; other times are none that people can read."""
_MAX_VERSION: Final = 32_767
_COMPRESSION_MASK: Final = 0b111
_READ_BYTES: Final = 8 << 20
_ROWS_AT_ONCE: Final = 20_000


@dataclass(frozen=True, slots=True)
class _Place:
    """What the rows of one batch have in common."""

    cluster_id: str
    file: str
    header: BatchHeader
    timestamp: int | None
    """In microseconds."""
    snapshot_end: int | None

    def offset(self, index: int) -> int:
        """Of a record in the log: those of a snapshot have the last offset that it holds."""
        return self.header.base_offset + index if self.snapshot_end is None else self.snapshot_end - 1

    def snapshot_position(self, index: int) -> int | None:
        return None if self.snapshot_end is None else self.header.base_offset + index


def read_pieces(pieces: Collection[Piece], types: Collection[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of these pieces, in order. With `types` only those of these record types; rows with a problem come
    in any case. PipelineError if a file cannot be read."""
    rows = _Rows(types)
    for piece in pieces:
        if piece.problem is not None:
            rows.add_damage(piece, _read(piece.file.path, piece.start, min(piece.end, piece.start + MAX_RAW_BYTES)))
            continue
        for data in _whole_batches(piece):
            at = 0
            while at < len(data):
                at = rows.add_batch(piece, data, at)
                yield from rows.take(_ROWS_AT_ONCE)
    yield from rows.take(1)


def _whole_batches(piece: Piece) -> Iterator[bytes]:
    """The bytes of a piece, some megabytes at a time, cut between batches."""
    at = piece.start
    while at < piece.end:
        data = _read(piece.file.path, at, min(piece.end, at + _READ_BYTES))
        whole = _whole(data)
        if not whole:  # a batch larger than what is read at a time
            size = int.from_bytes(data[8:12], "big") + 12
            data = _read(piece.file.path, at, min(piece.end, at + size))
            whole = len(data)
        yield data[:whole]
        at += whole


def _whole(data: bytes) -> int:
    at = 0
    while at + HEADER_BYTES <= len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        if end > len(data):
            break
        at = end
    return at


def _read(path: str, start: int, end: int) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path as a string, as everywhere here
            data = os.pread(file.fileno(), end - start, start)
    except OSError as error:
        raise PipelineError(f"cannot read {path}: {error.strerror}") from error
    if len(data) < end - start:
        raise PipelineError(f"{path} has become shorter while it was read")
    return data


class _Rows:
    """Rows on their way to Arrow: runs of partitions as columns, all others one by one."""

    def __init__(self, types: Collection[str] | None) -> None:
        self._types = types
        self._single: list[tuple[Any, ...]] = []
        self._whole: list[pa.RecordBatch] = []
        self._count = 0

    def take(self, least: int) -> Iterator[pa.RecordBatch]:
        """What has come together, in order, if it is as many rows."""
        if self._count < least:
            return
        self._close_single()
        yield from pa.Table.from_batches(self._whole, ROW).combine_chunks().to_batches()
        self._whole, self._count = [], 0

    def _close_single(self) -> None:
        if self._single:
            columns = zip(*self._single, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, ROW, strict=True)]
            self._whole.append(pa.RecordBatch.from_arrays(arrays, schema=ROW))
            self._single = []

    def add_damage(self, piece: Piece, data: bytes) -> None:
        """Bytes that are no batch, or none where some should be."""
        snapshot_end = piece.file.base_offset if piece.file.is_snapshot else None
        header = BatchHeader(piece.offset, piece.offset, piece.behind.epoch, False)
        place = _Place(piece.cluster_id, piece.file.name, header, None, snapshot_end)
        self._problem(place, 0, "corrupt", data, piece.problem or "")

    def add_batch(self, piece: Piece, data: bytes, position: int) -> int:
        """The records of the batch at `position`; returns where it ends."""
        end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        milliseconds = int.from_bytes(data[position + 35 : position + 43], "big", signed=True)
        place = _Place(
            piece.cluster_id,
            piece.file.name,
            decode_batch_header(data, position),
            milliseconds * 1000 if 0 <= milliseconds <= _MAX_MILLISECONDS else None,
            piece.file.base_offset if piece.file.is_snapshot else None,
        )
        try:
            check_batch(data, position)
            self._add_records(place, data, position, end)
        except CorruptBatch as error:
            self._problem(place, 0, "corrupt", data[position : min(end, position + MAX_RAW_BYTES)], error.reason)
        return end

    def _add_records(self, place: _Place, data: bytes, position: int, end: int) -> None:
        at, index = position + HEADER_BYTES, 0
        count = int.from_bytes(data[at - 4 : at], "big")
        if data[position + 22] & _COMPRESSION_MASK:
            raise CorruptBatch("a compressed batch, which no metadata log has", position=position, torn=False)
        runs: dict[int, tuple[Columns[Any], int]] = {}
        if not place.header.is_control and count >= MIN_RUN_RECORDS and self._wants_partitions:
            runs = decode_runs(data, at, end, count)
        while at < end:
            try:
                record, after = read_record(data, at, end)
            except ProtocolError as error:
                self._problem(place, index, "corrupt", data[at : min(end, at + MAX_RAW_BYTES)], str(error))
                return
            if index in runs:
                columns, after = runs[index]
                self._add_run(place, index, columns, record.value[2])
                index += len(columns)
            else:
                self._add_record(place, index, record)
                index += 1
            at = after
        if not index == count == place.header.last_offset - place.header.base_offset + 1:
            self._problem(place, index, "corrupt", b"", f"the batch says that it has {count} records, and has {index}")

    @property
    def _wants_partitions(self) -> bool:
        return self._types is None or not PARTITION_TYPES.keys().isdisjoint(self._types)

    def _wants(self, kind: str) -> bool:
        return self._types is None or kind in self._types

    def _add_run(self, place: _Place, index: int, columns: Columns[Any], version: int) -> None:
        kind = columns.message_class.__name__
        if not self._wants(kind):
            return
        count = len(columns)
        numbers = pa.array(np.arange(place.header.base_offset + index, place.header.base_offset + index + count))
        nothing = pa.nulls(count, pa.int64())
        in_log = place.snapshot_end is None
        common = {
            "cluster_id": place.cluster_id,
            "leader_epoch": place.header.leader_epoch,
            "timestamp": place.timestamp,
            "batch_offset": place.header.base_offset if in_log else place.offset(0),
            "file": place.file,
            "type": kind,
            "version": version,
            "body": None,
            "raw": None,
            "problem": None,
        }
        arrays = {name: pa.repeat(pa.scalar(value, ROW.field(name).type), count) for name, value in common.items()}
        arrays["record_offset"] = numbers if in_log else pa.repeat(pa.scalar(place.offset(0), pa.int64()), count)
        arrays["snapshot_position"] = nothing if in_log else numbers
        arrays["partition"] = partition_run(columns)
        self._close_single()
        self._whole.append(pa.RecordBatch.from_arrays([arrays[name] for name in ROW.names], schema=ROW))
        self._count += count

    def _add_record(self, place: _Place, index: int, record: RawRecord) -> None:
        try:
            if place.header.is_control:
                message, version = decode_control_value(record.key, record.value), CONTROL_VERSION
            else:
                message, version = decode_metadata_value(record.value)
        except UnknownRecord as error:
            kind = f"unknown:{'control ' if place.header.is_control else ''}{error.record_id}"
            if self._wants(kind):
                known = error.version if error.version <= _MAX_VERSION else None
                self._append(place, index, kind, known, raw=record.value)
            return
        except ProtocolError as error:
            self._problem(place, index, "corrupt", record.value, str(error))
            return
        kind = type(message).__name__
        if not self._wants(kind):
            return
        if kind in PARTITION_TYPES:
            self._append(place, index, kind, version, partition=partition_value(message))
        else:
            self._append(place, index, kind, version, body=_json(message, version))

    def _problem(self, place: _Place, index: int, kind: str, raw: bytes, reason: str) -> None:
        self._append(place, index, kind, None, raw=raw, problem=reason)

    def _append(
        self,
        place: _Place,
        index: int,
        kind: str,
        version: int | None,
        *,
        partition: dict[str, Any] | None = None,
        body: str | None = None,
        raw: bytes | None = None,
        problem: str | None = None,
    ) -> None:
        in_log = place.snapshot_end is None
        self._count += 1
        self._single.append(
            (
                place.cluster_id,
                place.offset(index),
                place.snapshot_position(index),
                place.header.leader_epoch,
                place.timestamp,
                place.header.base_offset if in_log else place.offset(index),
                place.file,
                kind,
                version,
                partition,
                body,
                raw,
                problem,
            )
        )


def _json(message: Message, version: int) -> str:
    return json.dumps(message_to_json(message, version), separators=(",", ":"))
