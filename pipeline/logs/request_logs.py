"""Request logs on disk, and their lines as Arrow rows of bronze.request. Malformed lines become rows with a problem.

A request log is FILE with its rotated FILE.1, FILE.2, … (a higher number is older). Pieces are cut after line ends.
Text after the last line end is ignored, because it may be incomplete. Files are identified by inode and first line:
rotation changes their names, and a new file may get the inode of a deleted one.
"""

import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

import pyarrow as pa

from klamm.pipeline.errors import PipelineError

SCHEMA_VERSION: Final = 1
MAX_LINE_BYTES: Final = 16 << 20
"""The most bytes of a line. A longer line is no line of a request log."""
MAX_RAW_CHARACTERS: Final = 65_536
"""The most bytes that a row keeps of a malformed line."""
MAX_REASON_CHARACTERS: Final = 300
_ROWS_AT_ONCE: Final = 10_000
_BLOCK_BYTES: Final = 1 << 20
_FRONT_BYTES: Final = 4096
"""The most bytes of the first line that are read to identify a file."""
_ROTATED: Final = re.compile(r"(.+)\.(\d+)")
_ERROR: Final = pa.struct(
    [
        ("topic_name", pa.string()),
        ("topic_id", pa.string()),
        ("partition_index", pa.int32()),
        ("resource_type", pa.string()),
        ("resource_name", pa.string()),
        ("error_code", pa.int16()),
        ("error_message", pa.string()),
    ]
)
_MEMBERS: Final = {
    "cluster_id": pa.string(),
    "seq": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "broker_id": pa.int32(),
    "listener": pa.string(),
    "listener_name": pa.string(),
    "principal": pa.string(),
    "client_id": pa.string(),
    "client_software_name": pa.string(),
    "client_software_version": pa.string(),
    "api": pa.string(),
    "api_key": pa.int16(),
    "api_version": pa.int16(),
    "correlation_id": pa.int32(),
    "bytes_in": pa.int64(),
    "bytes_out": pa.int64(),
    "microseconds": pa.int64(),
    "throttle_time_ms": pa.int32(),
    "log_end_offset": pa.int64(),
    "first_record_offset": pa.int64(),
    "last_record_offset": pa.int64(),
    "errors": pa.list_(_ERROR),
}
_REQUIRED: Final = frozenset({"cluster_id", "seq", "timestamp", "api", "api_key", "api_version"})
ROW: Final = pa.schema(
    [*_MEMBERS.items(), ("file", pa.string()), ("line", pa.int64()), ("raw", pa.string()), ("problem", pa.string())]
)
"""The columns of bronze.request, for Arrow. `line` is the byte at which the line begins."""


@dataclass(frozen=True, slots=True)
class RequestFile:
    """One file of a request log. Its `key` identifies it, because rotation changes its name."""

    key: str
    path: str
    size: int
    """The size in bytes when the file was found."""


class LinePiece(NamedTuple):
    """Whole lines of one file."""

    file: RequestFile
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def find_request_files(paths: Sequence[str]) -> list[RequestFile]:
    """The files of these request logs, the oldest of each log first. A path is a log or a directory of `*.jsonl`. Files
    without a whole line are left out. Raises PipelineError if there is no file."""
    files: dict[str, RequestFile] = {}
    for path in paths:
        found = sorted(Path(path).glob("*.jsonl")) if Path(path).is_dir() else [Path(path)]
        if not found:
            raise PipelineError(f"{path} holds no request log (*.jsonl)")
        for log in found:
            for file in _rotated(log):
                files.setdefault(file.key, file)
    return list(files.values())


def _rotated(log: Path) -> list[RequestFile]:
    """A log's files, the oldest first."""
    try:
        numbered = [
            (int(m[2]), m[0])
            for m in (_ROTATED.fullmatch(path.name) for path in log.parent.iterdir())
            if m and m[1] == log.name
        ]
        names = [name for _, name in sorted(numbered, reverse=True)]
        # During a rotation the newest file is missing for a moment.
        found = [log.with_name(name) for name in names] + [log] * (log.exists() or not names)
        return [file for path in found if (file := _request_file(str(path))) is not None]
    except OSError as error:
        raise PipelineError(f"cannot read request log {log}: {error.strerror}") from error


def _request_file(path: str) -> RequestFile | None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        key = _key(fd)
        return None if key is None else RequestFile(key, path, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def _key(fd: int) -> str | None:
    """The key of a file; None as long as its first line is incomplete."""
    front = os.pread(fd, _FRONT_BYTES, 0)
    line_end = front.find(b"\n")
    if line_end < 0 and len(front) < _FRONT_BYTES:
        return None
    return f"{os.fstat(fd).st_ino}-{crc32(front[: line_end + 1] if line_end >= 0 else front):08x}"


def cut_lines(file: RequestFile, start: int, piece_bytes: int, end: int | None = None) -> Iterator[LinePiece]:
    """The whole lines of a file from byte `start` on, at most up to `end`, in pieces of about `piece_bytes`."""
    size = file.size if end is None else min(end, file.size)
    with _opened(file) as fd:
        last = _line_end_before(fd, start, size)
        at = start
        while at < last:
            after = last if last - at <= piece_bytes else _line_end_before(fd, at, at + piece_bytes)
            if after == at:  # one line is longer than a piece
                after = _line_end_behind(fd, at + piece_bytes, last)
            yield LinePiece(file, at, after)
            at = after


def _line_end_before(fd: int, start: int, end: int) -> int:
    """The position after the last line end between two positions; `start` if there is none."""
    while end > start:
        begin = max(start, end - _BLOCK_BYTES)
        newline = os.pread(fd, end - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return start


def _line_end_behind(fd: int, start: int, end: int) -> int:
    """The position after the first line end from `start` on; `end` if there is none before it."""
    while start < end:
        newline = os.pread(fd, min(_BLOCK_BYTES, end - start), start).find(b"\n")
        if newline >= 0:
            return start + newline + 1
        start += _BLOCK_BYTES
    return end


@contextmanager
def _opened(file: RequestFile) -> Iterator[int]:
    """The opened file, under its current name, because it may have been rotated since it was found."""
    candidates = [file.path, *(str(path) for path in Path(file.path).parent.iterdir())]
    for path in candidates:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if _key(fd) == file.key:
                yield fd
                return
        finally:
            os.close(fd)
    raise PipelineError(f"request log {file.path} has been rotated away while it was read")


def read_lines(pieces: Collection[LinePiece]) -> Iterator[pa.RecordBatch]:
    """The rows of these pieces, in order. Blank lines give no rows."""
    rows: list[tuple[Any, ...]] = []
    for piece in pieces:
        name = Path(piece.file.path).name
        with _opened(piece.file) as fd:
            for at, size, line in _lines(fd, piece.start, piece.end):
                if size > MAX_LINE_BYTES or line.strip():
                    rows.append(_row(line, size, name, at))
                if len(rows) >= _ROWS_AT_ONCE:
                    yield _arrow(rows)
                    rows = []
    if rows:
        yield _arrow(rows)


def _lines(fd: int, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    """The position of each line, its size in bytes, and its bytes, or the first ones if it is too long."""
    begin, front, dropped = start, b"", 0
    while start < end:
        block = os.pread(fd, min(_BLOCK_BYTES, end - start), start)
        if not block:
            break
        start += len(block)
        *whole, rest = block.split(b"\n")
        for line in whole:
            size = len(front) + dropped + len(line) + 1
            yield begin, size, front + line
            begin, front, dropped = begin + size, b"", 0
        if len(front) + len(rest) > MAX_LINE_BYTES:
            dropped += len(rest)
        else:
            front += rest
    if front or dropped:
        yield begin, len(front) + dropped, front


def _row(line: bytes, size: int, file: str, at: int) -> tuple[Any, ...]:
    try:
        if size > MAX_LINE_BYTES:
            raise ValueError(f"a line of {size} bytes")
        return (*_values(json.loads(line)), file, at, None, None)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raw = line[:MAX_RAW_CHARACTERS].decode("utf-8", "replace")
        reason = f"no line of a request log: {type(error).__name__}: {error}"[:MAX_REASON_CHARACTERS]
        return (*(None for _ in _MEMBERS), file, at, raw, reason)


def _values(given: Any) -> Iterator[Any]:
    """The columns of a line, with checked types. Raises ValueError, TypeError or KeyError for other contents."""
    if not isinstance(given, dict):
        raise TypeError(f"a {type(given).__name__}, not an object")
    if given["v"] != SCHEMA_VERSION:
        raise ValueError(f"version {given['v']!r}, not {SCHEMA_VERSION}")
    first, last = given["record_offsets"] or (None, None)
    known = {
        "listener_name": None,  # lines of Klamm 0.1 do not have it
        **given,
        "timestamp": _time(given["time"]),
        "first_record_offset": first,
        "last_record_offset": last,
        "errors": [_error(error) for error in given["errors"]],
    }
    for name, kind in _MEMBERS.items():
        if known[name] is None and name in _REQUIRED:
            raise ValueError(f"{name} is null")
        yield _checked(name, kind, known[name])


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"time {text!r} has no zone")
    return time.astimezone(UTC)


def _error(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise TypeError(f"an error is a {type(given).__name__}, not an object")
    return {
        _ERROR.field(i).name: _checked(_ERROR.field(i).name, _ERROR.field(i).type, given.get(_ERROR.field(i).name))
        for i in range(_ERROR.num_fields)
    }


def _checked(name: str, kind: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_integer(kind):
        if type(value) is not int or not -(1 << kind.bit_width - 1) <= value < 1 << kind.bit_width - 1:
            raise ValueError(f"{name} is {value!r}")
    elif pa.types.is_string(kind):
        if type(value) is not str:
            raise ValueError(f"{name} is {value!r}")
        value.encode()  # JSON can contain a lone surrogate, which Arrow cannot store
    return value


def _arrow(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, ROW, strict=True)], schema=ROW
    )
