"""An index of a log's batches: their offsets, and their positions in bytes.

One thread appends while others search. Both columns only grow, and an entry's end is written before its offset. Readers
use the entries whose offsets are there, so they always see a beginning of the index.
"""

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from klamm.protocol.record_batch import BatchHeader


class Extent(NamedTuple):
    """Consecutive batches: their numbers from 0 on, where their bytes lie, and the offset behind them, None if that is
    not known because the index ends with them."""

    first: int
    stop: int
    position: int
    size_bytes: int
    next_offset: int | None


class BatchIndex:
    """The batches of one file, or of a part of it, in the order of offsets. An entry takes 16 bytes."""

    __slots__ = ("_begin", "_ends", "_epochs", "_offsets")

    def __init__(self, position: int = 0) -> None:
        """`position` is where the first batch begins in its file."""
        self._begin = position
        self._offsets = array("q")
        self._ends = array("q")
        self._epochs: list[tuple[int, int]] = []

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """Each leader epoch of these batches with the first offset that it has among them."""
        return list(self._epochs)

    def append(self, header: BatchHeader, end_position: int) -> None:
        """A batch behind the others, which ends at that byte of the file."""
        if not self._epochs or self._epochs[-1][0] != header.leader_epoch:
            self._epochs.append((header.leader_epoch, header.base_offset))
        self._ends.append(end_position)
        self._offsets.append(header.base_offset)

    def find(self, offset: int, end_offset: int, max_bytes: int, *, at_least_one: bool) -> Extent:
        """The batches from the one that holds `offset` on, as far as they begin below `end_offset`, which is the end of
        one, and come to at most `max_bytes` together; with `at_least_one` the first one in any case."""
        limit = bisect_left(self._offsets, end_offset)
        first = limit if offset >= end_offset else max(0, bisect_right(self._offsets, offset) - 1)
        position = self._ends[first - 1] if first else self._begin
        stop = bisect_right(self._ends, position + max_bytes, first, max(first, limit))
        if at_least_one and stop == first < limit:
            stop += 1
        size_bytes = self._ends[stop - 1] - position if stop > first else 0
        next_offset = self._offsets[stop] if stop < len(self._offsets) else None
        return Extent(first, stop, position, size_bytes, next_offset)
