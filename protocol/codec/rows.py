"""Builds the bytes of many rows at once, from constant bytes and columns of numbers.

A `Piece` is a few bytes of each row: a constant or a NumPy column. For rows of unequal length, `keep` is a mask of the
bytes that each row has. Without `keep` all rows have one width and are filled as one structured array. Otherwise all
rows are filled to the largest width, and the bytes outside the mask are dropped. `Chunks`, such as strings, have any
length: the pieces between them are filled as described, then everything is cut and joined.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from klamm.protocol.errors import ProtocolError

Mask = NDArray[np.bool_]
Column = NDArray[Any]
Sizes = int | NDArray[np.int64]
"""Bytes per row: one number for all, or an array."""
Cut = Callable[[int, int], list[bytes]]
"""A function of (first, end): the bytes of each of these rows."""
ROWS_CUT_AT_ONCE = 1024
BYTES_CUT_AT_ONCE = 1 << 20
"""The most bytes of a block of rows that is cut into objects before these are joined: small blocks stay in the
processor's cache."""


@dataclass(frozen=True, slots=True)
class Piece:
    """`width` bytes of each row: a constant `content`, or a column (n,) or (n, k) with `code`, a NumPy dtype."""

    width: int
    content: bytes | Column
    code: str = ""
    keep: Mask | None = None

    def kept(self, rows: Mask) -> "Piece":
        """This piece, only in the rows of a mask, bool[n]."""
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


@dataclass(frozen=True, slots=True)
class Chunks:
    """Bytes of any number in each row."""

    lengths: NDArray[np.int64]
    cut: Cut

    def kept(self, _rows: Mask) -> "Chunks":
        """The same chunks: the other rows have the default of a tagged field, which is empty."""
        return self

    def rows(self, first: int, end: int) -> "Chunks":
        """These bytes in the rows from `first` to before `end`."""
        return Chunks(self.lengths[first:end], lambda from_row, to_row: self.cut(first + from_row, first + to_row))

    def sizes(self) -> Sizes:
        return self.lengths


def chunks(content: memoryview, bounds: NDArray[np.int64]) -> Chunks:
    """Chunks of `content`: row i has the bytes from bound i to before bound i + 1."""

    def cut(first: int, end: int) -> list[bytes]:
        inside = bounds[first : end + 1]
        some = bytes(content[int(inside[0]) : int(inside[-1])])  # to slice bytes is much faster than a view
        return [some[begin:after] for begin, after in pairwise((inside - inside[0]).tolist())]

    return Chunks(np.diff(bounds), cut)


def constant(content: bytes) -> Piece:
    return Piece(len(content), content)


def bounds_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[n + 1]: the bounds of consecutive pieces of these sizes, int64[n]."""
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return bounds


def total_sizes(pieces: Sequence[Piece | Chunks]) -> Sizes:
    """The sum of the sizes of all these pieces, per row."""
    total: Sizes = 0
    for piece in pieces:
        total = total + piece.sizes()
    return total


def number_column(column: Column, code: str) -> Piece:
    """Numbers (n,) or (n, k) as `code`. Raises ProtocolError if one is out of range."""
    check_range(column, code)
    per_row = 1 if column.ndim == 1 else column.shape[1]
    return Piece(np.dtype(code).itemsize * per_row, column, code)


def fits_always(column: Column, code: str) -> bool:
    """Whether `code` can hold every number of the column's type."""
    target = np.dtype(code)
    return target.kind == "b" or np.can_cast(column.dtype, target)


def check_range(column: Column, code: str) -> None:
    """Raise ProtocolError for numbers that `code` cannot hold."""
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
    if width == 1 and not only_one:
        return Piece(1, values.astype(np.uint8), "u1")
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
    """Each row's value, which must not be negative, as a signed varint."""
    return uvarint_column(values * 2)


def append_rows(out: bytearray, pieces: Sequence[Piece | Chunks], row_count: int) -> None:
    """Append the bytes of all rows, one after the other."""
    cuts: list[Cut] = []
    together: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, Piece):
            together.append(piece)
            continue
        if together:
            cuts.append(_cut_of(together, row_count))
            together = []
        cuts.append(piece.cut)
    if not cuts:
        out += _fill_rows(together, row_count)
        return
    if together:
        cuts.append(_cut_of(together, row_count))
    total_bytes = int(np.sum(total_sizes(pieces)))
    at_once = min(ROWS_CUT_AT_ONCE, 1 + BYTES_CUT_AT_ONCE * row_count // max(1, total_bytes))
    for first in range(0, row_count, at_once):
        end = min(first + at_once, row_count)
        parts = [b""] * ((end - first) * len(cuts))
        for place, cut in enumerate(cuts):
            parts[place :: len(cuts)] = cut(first, end)
        out += b"".join(parts)


def _cut_of(pieces: Sequence[Piece], row_count: int) -> Cut:
    filled, sizes = _fill_rows(pieces, row_count), total_sizes(pieces)
    if not isinstance(sizes, int):
        return chunks(memoryview(filled), bounds_of(sizes)).cut
    if all(isinstance(piece.content, bytes) for piece in pieces):
        same = bytes(filled[:sizes])
        return lambda first, end: [same] * (end - first)
    rows = np.frombuffer(filled, f"V{sizes}")
    return lambda first, end: rows[first:end].tolist()


def _fill_rows(pieces: Sequence[Piece], row_count: int) -> bytes | bytearray:
    """The bytes of all rows. The pieces contain no chunks."""
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
    """The positions of the columns in a row, and the constant bytes around them."""

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
        """The bytes of all rows, with these columns at the positions of the layout's columns."""
        filled = bytearray(self.template) * row_count
        if self.dtype is not None and row_count:
            rows = np.frombuffer(filled, dtype=self.dtype)
            for name, column in zip(self.names, columns, strict=True):
                rows[name] = column
        return filled


def _byte_mask(keep: Mask, width: int) -> Mask:
    """A mask of elements as a mask of bytes."""
    return keep[:, None] if keep.ndim == 1 else np.repeat(keep, width // max(keep.shape[1], 1), axis=1)
