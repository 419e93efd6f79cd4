"""Segment files: their names, and their batches one after the other, however large the file.

A segment is named by the offset of its first record; a batch lies in one segment. Reading takes a window of the
file at a time, and a larger one only for a batch that does not fit.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from klamm.protocol.record_batch import Batch, CorruptBatch, check_batch, decode_batch, decode_batch_header

_WINDOW_BYTES: Final = 1 << 20
_OFFSET_DIGITS: Final = 20

T = TypeVar("T")


class SegmentFile(NamedTuple):
    """A segment on disk."""

    base_offset: int
    path: Path


def segment_path(log_folder: Path, base_offset: int) -> Path:
    """Where the segment whose first record has this offset lies."""
    return log_folder / f"{base_offset:0{_OFFSET_DIGITS}}.log"


def list_segments(log_folder: Path) -> list[SegmentFile]:
    """The segments of a log in offset order; other files, such as Apache Kafka's indexes, are not looked at."""
    return sorted(
        SegmentFile(int(path.stem), path)
        for path in log_folder.glob("*.log")
        if len(path.stem) == _OFFSET_DIGITS and path.stem.isascii() and path.stem.isdigit()
    )


def decoded_batch(data: bytes, position: int) -> tuple[Batch, int]:
    """For `walk_batches`: whole batches."""
    batch = decode_batch(data, position)
    return batch, position + batch.size_bytes


def walk_batches(fd: int, size: int, decode: Callable[[bytes, int], tuple[T, int]]) -> Iterator[tuple[int, T]]:
    """What `decode` makes of each batch in the first `size` bytes, with the byte at which the batch begins.

    `decode` takes a buffer and a position, and returns its result and the batch's end in the buffer. The
    CorruptBatch it raises is raised on with the position in the file.
    """
    position, window = 0, _WINDOW_BYTES
    while position < size:
        data = os.pread(fd, min(window, size - position), position)
        if not data:
            raise CorruptBatch(f"the file ends {size - position} bytes too early", position=position, torn=True)
        at = 0
        while at < len(data):
            try:
                found, end = decode(data, at)
            except CorruptBatch as error:
                if error.torn and position + len(data) < size:
                    break  # not the file's end, only the window's
                raise CorruptBatch(error.reason, position=position + at, torn=error.torn) from error
            yield position + at, found
            at = end
        window = _WINDOW_BYTES if at else 2 * window
        position += at


def decoded_from(first_offset: int) -> Callable[[bytes, int], tuple[Batch | None, int]]:
    """For `walk_batches`: whole batches, None for those below an offset."""

    def decode(data: bytes, position: int) -> tuple[Batch | None, int]:
        end = check_batch(data, position)
        if decode_batch_header(data, position).last_offset < first_offset:
            return None, end
        return decoded_batch(data, position)

    return decode
