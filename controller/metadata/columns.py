"""Columns that grow: the rows of all partitions whose replica lists fit one width.

One Python object per partition would make a simulator slow. Here a partition is a row of NumPy columns. Replica lists
are padded with PADDING, which is neither a broker id nor a placeholder (-1, -2, …), and their lengths are columns of
their own. Of topics, this module knows only the number of the row that owns a partition.
"""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

PADDING = -(2**31)
DEAD = -1
"""The topic row of a partition that was deleted; its row waits for compaction."""

Ints = NDArray[np.int32]
INITIAL_ROWS = 16
MAX_REPLICAS_PER_PARTITION = 32767
_NARROW_WIDTHS = 4
TOUCHED_ROWS = 1 << 16
"""Rows whose memory is touched at a time; then other threads get a turn."""


def width_class(replica_count: int) -> int:
    """The width of the table that holds `replica_count` replicas: exact up to 4, then powers of two."""
    if replica_count <= _NARROW_WIDTHS:
        return max(1, replica_count)
    return 1 << (replica_count - 1).bit_length()


def packed(rows: Ints, kept: NDArray[np.bool_]) -> tuple[Ints, NDArray[np.int64]]:
    """The kept ids of each row moved to the left, in order, followed by the others; and the number of kept ids."""
    counts = kept.sum(axis=1)
    if not counts.any():
        return rows, counts
    order = np.argsort(~kept, axis=1, kind="stable")
    return np.take_along_axis(rows, order, axis=1), counts


def among(ids: Ints, few: Collection[int] | Ints) -> NDArray[np.bool_]:
    """For each id of an array of any shape, whether it is in `few`. `np.isin` is not used, because for many numbers and
    an empty array it imports numpy.ma: 2 MB, and up to 90 ms in which no request is served."""
    if not ids.size or not len(few):
        return np.zeros(ids.shape, dtype=np.bool_)
    return np.isin(ids, few if isinstance(few, np.ndarray) else list(few))


class ColumnTable:
    """Rows of one width. `count` rows are in use, including dead ones; the arrays may be longer."""

    SCALARS = ("topic_row", "partition_index", "leader", "leader_epoch", "partition_epoch")
    LENGTHS = ("replica_count", "isr_count")
    LISTS = ("replicas", "isr", "directories")

    topic_row: Ints
    partition_index: Ints
    leader: Ints
    leader_epoch: Ints
    partition_epoch: Ints
    replica_count: NDArray[np.int16]
    isr_count: NDArray[np.int16]
    leader_recovery_state: NDArray[np.int8]
    sparse: NDArray[np.bool_]
    """Whether a sparse table has an entry for the partition: a reassignment, or eligible leader replicas."""
    replicas: Ints
    isr: Ints
    directories: Ints

    def __init__(self, width: int) -> None:
        self.width = width
        self.count = 0
        self.dead = 0
        self.compactions = 0
        """The number of compactions, which move rows. The row count cannot show it, because new rows may follow."""
        for name, dtype, shape in self._layout(INITIAL_ROWS):
            setattr(self, name, np.empty(shape, dtype))

    def _layout(self, rows: int) -> Iterator[tuple[str, type, tuple[int, ...]]]:
        for name in self.SCALARS:
            yield name, np.int32, (rows,)
        for name in self.LENGTHS:
            yield name, np.int16, (rows,)
        yield "leader_recovery_state", np.int8, (rows,)
        yield "sparse", np.bool_, (rows,)
        for name in self.LISTS:
            yield name, np.int32, (rows, self.width)

    def make_room(self, rows: int) -> None:
        """Allocate memory for `rows` more rows and touch it, because the first touch of memory is slow."""
        first = self.count
        self.reserve(rows)
        for name, _, _ in self._layout(0):
            for row in range(first, self.count, TOUCHED_ROWS):
                getattr(self, name)[row : row + TOUCHED_ROWS] = 0
        self.count = first

    def copy_into(self, other: "ColumnTable") -> None:
        """Copy all rows into an empty table of the same width."""
        other.reserve(self.count)
        other.dead = self.dead
        for name, _, _ in self._layout(0):
            getattr(other, name)[: self.count] = getattr(self, name)[: self.count]

    def reserve(self, rows: int) -> range:
        """Take `rows` new rows at the end and return their numbers; their content is undefined."""
        first, needed = self.count, self.count + rows
        if needed > len(self.topic_row):
            capacity = max(needed, 2 * len(self.topic_row))
            for name, dtype, shape in self._layout(capacity):
                grown: NDArray[Any] = np.empty(shape, dtype)
                grown[:first] = getattr(self, name)[:first]
                setattr(self, name, grown)
        self.count = needed
        return range(first, needed)

    def copy_rows(self, rows: NDArray[np.int64], source: "ColumnTable", source_rows: NDArray[np.int64]) -> None:
        """Copy `source_rows` of a narrower table into `rows`."""
        for name in (*self.SCALARS, *self.LENGTHS, "leader_recovery_state", "sparse"):
            getattr(self, name)[rows] = getattr(source, name)[source_rows]
        for name in self.LISTS:
            getattr(self, name)[rows, : source.width] = getattr(source, name)[source_rows]
            getattr(self, name)[rows, source.width :] = PADDING

    def kill(self, rows: slice | NDArray[np.int64]) -> None:
        """Mark rows as deleted: no column operation finds them again."""
        self.dead += len(self.topic_row[rows])
        self.topic_row[rows] = DEAD
        self.leader[rows] = PADDING
        self.replicas[rows] = PADDING
        self.isr[rows] = PADDING

    def compact(self) -> NDArray[np.int64]:
        """Drop the dead rows and return, for each old row, its new number (meaningless for dead ones)."""
        alive = self.topic_row[: self.count] != DEAD
        moved = np.cumsum(alive) - 1
        kept = int(alive.sum())
        for name, dtype, shape in self._layout(max(INITIAL_ROWS, kept)):
            packed: NDArray[Any] = np.empty(shape, dtype)
            packed[:kept] = getattr(self, name)[: self.count][alive]
            setattr(self, name, packed)
        self.count, self.dead = kept, 0
        self.compactions += 1
        return moved
