"""Pieces of metadata logs as Arrow rows of bronze.metadata_record. Every record gets a row, also damaged ones.

A row keeps the bytes of a record that cannot be decoded. An unknown record type or version is from a newer Kafka and is
no problem; otherwise `problem` describes the damage.
"""

import os
from collections.abc import Collection, Iterator
from typing import Final

import pyarrow as pa

from klamm.pipeline.errors import PipelineError
from klamm.pipeline.logs.metadata_pieces import Piece
from klamm.pipeline.logs.record_blocks import Block
from klamm.pipeline.logs.record_rows import MAX_RAW_BYTES, BatchPlace, batch_place, damage_rows, rows_one_by_one
from klamm.protocol.errors import ProtocolError
from klamm.protocol.record_batch import HEADER_BYTES

_READ_BYTES: Final = 8 << 20
_ROWS_AT_ONCE: Final = 20_000
_LENGTH: Final = slice(8, 12)


def read_pieces(pieces: Collection[Piece], types: Collection[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of these pieces, in order. With `types`, only rows of these record types and all rows with a problem.
    Raises PipelineError if a file cannot be read."""
    block = Block()
    for piece in pieces:
        if piece.problem is not None:
            yield from _block_rows(block, types)
            block = Block()
            raw = _read(piece.file.path, piece.start, min(piece.end, piece.start + MAX_RAW_BYTES))
            yield damage_rows(_damage_place(piece), raw, piece.problem)
            continue
        snapshot_end = piece.file.base_offset if piece.file.is_snapshot else None
        for batch in _batches(piece):
            place = batch_place(piece.cluster_id, piece.file.name, snapshot_end, batch)
            is_taken = block.add(place, batch)
            if not is_taken or block.size >= _READ_BYTES:
                yield from _block_rows(block, types)
                block = Block()
            if not is_taken:
                yield rows_one_by_one(place, batch, types)
    yield from _block_rows(block, types)


def _block_rows(block: Block, types: Collection[str] | None) -> Iterator[pa.RecordBatch]:
    if not block.size:
        return
    try:
        rows = block.rows(types)
    except ProtocolError:  # a record is damaged although checksums, counts and lengths are right
        yield from (rows_one_by_one(place, batch, types) for place, batch in block.batches)
        return
    for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
        yield rows.slice(start, _ROWS_AT_ONCE)


def _damage_place(piece: Piece) -> BatchPlace:
    snapshot_end = piece.file.base_offset if piece.file.is_snapshot else None
    return BatchPlace(
        piece.cluster_id, piece.file.name, piece.offset, piece.behind.epoch, None, snapshot_end, is_control=False
    )


def _batches(piece: Piece) -> Iterator[bytes]:
    """The batches of a piece. A few megabytes are read at a time."""
    at = piece.start
    while at < piece.end:
        data = _read(piece.file.path, at, min(piece.end, at + _READ_BYTES))
        if _batch_size(data, 0) > len(data):
            data = _read(piece.file.path, at, min(piece.end, at + _batch_size(data, 0)))
        position = 0
        while 0 < (size := _batch_size(data, position)) <= len(data) - position:
            yield data[position : position + size]
            position += size
        if not position:
            raise PipelineError(f"{piece.file.path} has changed while it was read")
        at += position


def _batch_size(data: bytes, position: int) -> int:
    """The size in bytes in the header of the batch; 0 if there is no complete or valid header."""
    if len(data) - position < HEADER_BYTES:
        return 0
    size = _LENGTH.stop + int.from_bytes(data[position + _LENGTH.start : position + _LENGTH.stop], "big")
    return size if size >= HEADER_BYTES else 0


def _read(path: str, start: int, end: int) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path as a string, as everywhere here
            data = os.pread(file.fileno(), end - start, start)
    except OSError as error:
        raise PipelineError(f"cannot read {path}: {error.strerror}") from error
    if len(data) < end - start:
        raise PipelineError(f"{path} has become shorter while it was read")
    return data
