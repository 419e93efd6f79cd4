"""Pieces of metadata logs as Parquet files of bronze.metadata_record, and the log of these files that Spark reads.

A table that a stream of Spark writes has a folder `_spark_metadata` with a file for each micro-batch, which lists the
Parquet files that belong to the table. Every tenth of them lists all files so far. Files that a killed process has left
are in no list.
"""

import json
import uuid
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from klamm.pipeline.errors import PipelineError
from klamm.pipeline.logs.arrow_rows import ROW
from klamm.pipeline.logs.metadata_pieces import Piece
from klamm.pipeline.logs.metadata_rows import read_pieces

SINK_LOG: Final = "_spark_metadata"
COMPACT_INTERVAL: Final = 10
"""Spark's default for spark.sql.streaming.fileSink.log.compactInterval."""
KEPT_SECONDS: Final = 600.0
"""A list that a later one contains is deleted after this time, Spark's default: a reader may still use it."""
_COMPACT: Final = ".compact"
_VERSION: Final = "v1"
_ROWS_AT_ONCE: Final = 250_000
_BLOCK_SIZE: Final = 32 << 20


class WrittenFile(NamedTuple):
    """A Parquet file that is complete."""

    path: str
    size: int
    modified_ms: int


def write_pieces(folder: Path, pieces: Collection[Piece]) -> WrittenFile:
    """Write the records of these pieces into a new file. Raises PipelineError if a log cannot be read or the file not
    be written."""
    path = folder / f"part-{uuid.uuid4()}.snappy.parquet"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with pq.ParquetWriter(path, ROW, compression="snappy") as writer:
                for table in _tables(pieces):
                    writer.write_table(table, row_group_size=_ROWS_AT_ONCE)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        status = path.stat()
    except OSError as error:
        raise PipelineError(f"cannot write to {folder}: {error.strerror or error}") from error
    return WrittenFile(str(path), status.st_size, status.st_mtime_ns // 1_000_000)


def _tables(pieces: Collection[Piece]) -> Iterator[pa.Table]:
    """The rows of the pieces, in tables that become row groups."""
    batches: list[pa.RecordBatch] = []
    count = 0
    for rows in read_pieces(pieces):
        batches.append(rows)
        count += rows.num_rows
        if count >= _ROWS_AT_ONCE:
            yield pa.Table.from_batches(batches, ROW)
            batches, count = [], 0
    if batches:
        yield pa.Table.from_batches(batches, ROW)


def add_to_table(folder: Path, batch_id: int, files: Collection[WrittenFile]) -> None:
    """Make the files of a micro-batch part of the table. If the micro-batch is part of it already, do nothing."""
    log = folder / SINK_LOG
    log.mkdir(parents=True, exist_ok=True)
    name = str(batch_id)
    if (log / name).exists() or (log / f"{name}{_COMPACT}").exists():
        return
    lines = [json.dumps(_entry(file), separators=(",", ":")) for file in files]
    if (batch_id + 1) % COMPACT_INTERVAL == 0:
        lines = [*_lines_before(log, batch_id), *lines]
        name += _COMPACT
    part = log / f".{name}.{uuid.uuid4()}.tmp"
    part.write_text("\n".join([_VERSION, *lines]), encoding="utf-8")
    part.replace(log / name)
    if name.endswith(_COMPACT):
        _delete_before(log, batch_id - COMPACT_INTERVAL, (log / name).stat().st_mtime - KEPT_SECONDS)


def _delete_before(log: Path, batch_id: int, modified: float) -> None:
    """Delete the lists of micro-batches before the last but one whole list that were written before this time."""
    for path in log.iterdir():
        number = path.name.removesuffix(_COMPACT)
        if number.isdecimal() and int(number) < batch_id and path.stat().st_mtime < modified:
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Spark writes checksums
            path.unlink()


def _entry(file: WrittenFile) -> dict[str, Any]:
    return {
        "path": Path(file.path).as_uri(),
        "size": file.size,
        "isDir": False,
        "modificationTime": file.modified_ms,
        "blockReplication": 1,
        "blockSize": _BLOCK_SIZE,
        "action": "add",
    }


def _lines_before(log: Path, batch_id: int) -> list[str]:
    """The lines of all files that were added before a micro-batch whose list is a whole one."""
    lines: list[str] = []
    first = batch_id - COMPACT_INTERVAL
    names = [f"{first}{_COMPACT}"] if first >= 0 else []
    names += [str(number) for number in range(first + 1, batch_id) if number >= 0]
    for name in names:
        version, *entries = (log / name).read_text(encoding="utf-8").split("\n")
        if version != _VERSION:
            raise PipelineError(f"{log / name} is of another version of Spark")
        lines += [line for line in entries if line]
    return lines
