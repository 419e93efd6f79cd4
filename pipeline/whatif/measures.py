"""Measures many placements at once, because each one is small and each call of NumPy has a fixed cost."""

import hashlib
from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from klamm.assignment import NO_LIMIT
from klamm.pipeline.whatif.shapes import Shape

DIGEST_BYTES: Final = 8
_RACKS_AT_ONCE: Final = 62
"""The most racks that fit as bits into one number."""

Placement = NDArray[np.int32]
Counts = NDArray[np.int64]


class ToMeasure(NamedTuple):
    """A placement on a cluster."""

    shape: Shape
    held: Counts
    """int64[brokers]: replicas of other topics."""
    placement: Placement
    moves: int
    live: int
    """The number of live brokers, which are the first ones."""


def measured(placements: Sequence[ToMeasure]) -> list[dict[str, Any]]:
    """The measures of each placement. All of them have the same replication factor."""
    if not placements:
        return []
    cells = _Cells(placements)
    limit = np.repeat([NO_LIMIT if one.shape.limit is None else one.shape.limit for one in placements], cells.widths)
    # A broker that does not exist holds nothing.
    held = np.concatenate([part for one in placements for part in (_NONE, one.held)])
    own, leads = cells.counted(cells.numbers), cells.counted(cells.numbers[0])
    loads = held + own
    judged = (
        cells.spread(loads),
        cells.spread(leads),
        cells.rack_violations(),
        cells.placeholders(),
        np.add.reduceat((loads > limit) & (own > 0) & cells.exists, cells.begins, dtype=np.int64),
    )
    return [
        {
            "replica_spread": replica_spread,
            "leader_spread": leader_spread,
            "rack_violations": rack_violations,
            "placeholders": placeholders,
            "over_limit": over_limit,
            "moves": one.moves,
            "digest": _digest(one.placement),
        }
        for one, replica_spread, leader_spread, rack_violations, placeholders, over_limit in zip(
            placements, *(numbers.tolist() for numbers in judged), strict=True
        )
    ]


_NONE: Final = np.zeros(1, np.int64)


def _digest(placement: Placement) -> str:
    ids = placement.astype("<i4").tobytes()
    return hashlib.blake2b(ids, digest_size=DIGEST_BYTES).hexdigest()


class _Cells:
    """The replicas of all placements. Each placement has a range of broker numbers of its own, which begins with the
    number of placeholders: a broker that does not exist."""

    def __init__(self, placements: Sequence[ToMeasure]) -> None:
        self._shapes = [one.shape for one in placements]
        self.widths = [shape.brokers + 1 for shape in self._shapes]
        self.begins = np.array([0, *accumulate(self.widths[:-1])])
        self._rows = [len(one.placement) for one in placements]
        self._first_rows = np.array([0, *accumulate(self._rows[:-1])])
        columns = np.concatenate([one.placement for one in placements]).T
        self._real = columns >= 0 if columns.min() < 0 else None
        self.numbers = np.empty(columns.shape, np.int64)
        np.add(
            columns if self._real is None else np.maximum(columns, 0), np.repeat(self.begins, self._rows), self.numbers
        )
        """int64[columns, rows]: the number of each replica's broker."""
        number = np.arange(sum(self.widths)) - np.repeat(self.begins, self.widths)
        self.exists = number > 0
        self._live = self.exists & (number <= np.repeat([one.live for one in placements], self.widths))
        self._broker = number - 1

    def counted(self, numbers: Counts) -> Counts:
        """int64[broker numbers]: how often each one occurs."""
        return np.bincount(numbers.ravel(), minlength=len(self.exists))

    def spread(self, counts: Counts) -> Counts:
        """int64[placements]: the largest count of a live broker minus the smallest one."""
        most = np.maximum.reduceat(np.where(self._live, counts, 0), self.begins)
        spread: Counts = most - np.minimum.reduceat(np.where(self._live, counts, NO_LIMIT), self.begins)
        return spread

    def placeholders(self) -> Counts:
        """int64[placements]: the number of placeholders."""
        if self._real is None:
            return np.zeros(len(self._rows), np.int64)
        return self._in_rows(np.count_nonzero(~self._real, axis=0))

    def rack_violations(self) -> Counts:
        """int64[placements]: the number of rows with two replicas in one rack while another rack has none."""
        rack_counts = [min(shape.racks, shape.brokers) for shape in self._shapes]
        rack_of = self._broker % np.repeat(np.maximum(rack_counts, 1), self.widths)
        racks_of_row = np.zeros(sum(self._rows), np.int64)
        for first in range(0, max(rack_counts), _RACKS_AT_ONCE):
            here = self.exists & (rack_of >= first) & (rack_of < first + _RACKS_AT_ONCE)
            bits = np.where(here, 1 << np.where(here, rack_of - first, 0), 0)
            racks_of_row += np.bitwise_count(reduce(np.bitwise_or, (bits.take(column) for column in self.numbers)))
        real = len(self.numbers) if self._real is None else np.count_nonzero(self._real, axis=0)
        return self._in_rows(racks_of_row < np.minimum(real, np.repeat(rack_counts, self._rows)))

    def _in_rows(self, numbers: NDArray[Any]) -> Counts:
        """int64[placements]: the sums of numbers of rows."""
        sums: Counts = np.add.reduceat(numbers, self._first_rows, dtype=np.int64)
        return sums
