"""Rows of bytes, built all at once: what every row has in common, and columns of numbers between.

A `Piece` is a few bytes of each row: a constant, or a NumPy column; `keep` says which of its bytes a row really has,
for rows of unequal length. Without any `keep` all rows have one width and are filled as one structured array; else
they are filled as wide as the widest, and what is not kept is dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.errors import ProtocolError

Mask = NDArray[np.bool_]
Column = NDArray[Any]
Sizes = int | NDArray[np.int64]
"""Bytes per row: one number for all, or an array."""


@dataclass(frozen=True, slots=True)
class Piece:
    """`width` bytes of each row: constant `content`, or a column of `code` (a NumPy dtype), (n,) or (n, k)."""

    width: int
    content: bytes | Column
    code: str = ""
    keep: Mask | None = None

    def kept(self, rows: Mask) -> "Piece":
        """This piece in these rows only."""
        keep = rows if self.keep is None else _byte_mask(self.keep, self.width) & rows[:, None]
        return Piece(self.width, self.content, self.code, keep)

    def rows(self, first: int, end: int) -> "Piece":
        """This piece in the rows from `first` to before `end`."""
        content = self.content if isinstance(self.content, bytes) else self.content[first:end]
        return Piece(self.width, content, self.code, None if self.keep is None else self.keep[first:end])

    def sizes(self) -> Sizes:
        if self.keep is None:
            return self.width
        keep = self.keep[:, None] if self.keep.ndim == 1 else self.keep
        elements: NDArray[np.int64] = keep.sum(axis=1, dtype=np.int64)
        element_bytes = np.int64(self.width // max(keep.shape[1], 1))
        return elements * element_bytes


def constant(content: bytes) -> Piece:
    return Piece(len(content), content)


def total_sizes(pieces: Sequence[Piece]) -> Sizes:
    """How many bytes each row has in all these pieces."""
    total: Sizes = 0
    for piece in pieces:
        total = total + piece.sizes()
    return total


def number_column(column: Column, code: str) -> Piece:
    """Numbers (n,) or (n, k) as `code`; ProtocolError for one that does not fit."""
    check_range(column, code)
    per_row = 1 if column.ndim == 1 else column.shape[1]
    return Piece(np.dtype(code).itemsize * per_row, column, code)


def fits_always(column: Column, code: str) -> bool:
    """Whether every number that the column's type can hold has its value in `code`, too."""
    target = np.dtype(code)
    return target.kind == "b" or np.can_cast(column.dtype, target)


def check_range(column: Column, code: str) -> None:
    """Refuse numbers that would change their value in `code`."""
    if fits_always(column, code):
        return
    target = np.dtype(code)
    if column.dtype.kind not in "iub" or target.kind not in "iu":
        raise ProtocolError(f"a column of {column.dtype} cannot be written as {target}")
    limits = np.iinfo(target)
    if column.size and (int(column.min()) < limits.min or int(column.max()) > limits.max):
        raise ProtocolError(f"a number of the column is out of range for {target}")


def uvarint_column(values: Sizes | Column) -> Piece:
    """Each row's value as an unsigned varint."""
    if isinstance(values, int):
        values = np.array([values])
        only_one = True
    else:
        only_one = False
    groups = np.arange(10)
    width = 1
    while width < 10 and int(values.max(initial=0)) >> (7 * width):
        width += 1
    shifted = values.astype(np.uint64)[:, None] >> (7 * groups[:width]).astype(np.uint64)
    later = np.zeros_like(shifted, dtype=bool)
    later[:, :-1] = shifted[:, 1:] > 0
    raw = ((shifted & 0x7F) | (later * 0x80).astype(np.uint64)).astype(np.uint8)
    if only_one:
        return constant(raw.tobytes())
    keep = np.ones_like(later)
    keep[:, 1:] = later[:, :-1]
    return Piece(width, raw, "u1", None if keep.all() else keep)


def zigzag_column(values: Sizes) -> Piece:
    """Each row's value, not negative, as a signed varint."""
    return uvarint_column(values * 2)


def fill_rows(pieces: Sequence[Piece], row_count: int) -> bytes | bytearray:
    """The bytes of all rows, one after the other."""
    layout = Layout(pieces)
    filled = layout.fill([piece.content for piece in pieces if not isinstance(piece.content, bytes)], row_count)
    if all(piece.keep is None for piece in pieces):
        return filled
    mask = np.ones((row_count, layout.width), dtype=bool)
    offset = 0
    for piece in pieces:
        if piece.keep is not None:
            keep = piece.keep
            mask[:, offset : offset + piece.width] = keep[:, None] if keep.ndim == 1 else _byte_mask(keep, piece.width)
        offset += piece.width
    return np.frombuffer(filled, dtype=np.uint8).reshape(row_count, layout.width)[mask].tobytes()


class Layout:
    """Where the columns stand in a row, and what all rows have around them."""

    __slots__ = ("dtype", "names", "template", "width")

    def __init__(self, pieces: Sequence[Piece]) -> None:
        template = bytearray()
        offsets, formats = [], []
        for piece in pieces:
            if isinstance(piece.content, bytes):
                template += piece.content
                continue
            offsets.append(len(template))
            formats.append((piece.code, piece.content.shape[1:]))
            template += bytes(piece.width)
        self.template = bytes(template)
        self.width = len(template)
        self.names = [f"f{index}" for index in range(len(formats))]
        described = {"names": self.names, "formats": formats, "offsets": offsets, "itemsize": self.width}
        self.dtype = np.dtype(described) if formats else None  # type: ignore[call-overload]

    def fill(self, columns: Sequence[Column], row_count: int) -> bytearray:
        """All rows, with these columns where the layout has columns."""
        filled = bytearray(self.template) * row_count
        if self.dtype is not None and row_count:
            rows = np.frombuffer(filled, dtype=self.dtype)
            for name, column in zip(self.names, columns, strict=True):
                rows[name] = column
        return filled


def _byte_mask(keep: Mask, width: int) -> Mask:
    """A mask of elements as a mask of bytes."""
    return keep[:, None] if keep.ndim == 1 else np.repeat(keep, width // max(keep.shape[1], 1), axis=1)
