"""Replicas moved from brokers that hold too many, and into vacant cells, to brokers that hold too few.

The rows of a placement are cells; quotas say how many of them each broker shall fill. Single moves are found in
rounds, for all rows at once: as many cells and takers as the quotas ask for are paired by chance, and what fits is
kept. A move that fits leaves the row valid and costs it no rack that the quotas allow it.
Chains of moves and exchanges between rows are in `exchange`. Nothing here knows ids, limits or errors.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from klamm.assignment.cluster_view import BoolArray, Int64Array
from klamm.assignment.random_source import RandomSource, random_words
from klamm.assignment.ranks import rank_within, stable_order

IDLE_ROUNDS: Final = 6
"""Rounds by chance in which nothing fits, after which chance is given up."""

_LOWEST: Final = -(1 << 62)
_TRIES_PER_SUCCESS: Final = 64  # one success in so many is too few to try on


class Cells:
    """Rows on their way to quotas. A cell holds a broker, 0..n-1, or `vacant` (n), or `placeholder` (n + 1).

    Cells are numbered row by row: cell = row * replication_factor + column.
    """

    def __init__(self, rows: Int64Array, rack_of: Int64Array, quotas: Int64Array, closed: BoolArray) -> None:
        """`rows` [rows, replication_factor] as they stand; of each broker [n] its rack, its quota, and `closed`."""
        self.vacant, self.placeholder = len(quotas), len(quotas) + 1
        self.width = rows.shape[1]
        self.origin = rows
        self.now = rows.copy()
        self._flat = self.now.reshape(-1)
        self.quotas = quotas.copy()
        self.closed = np.append(closed, (False, False))
        """bool[n + 2]: brokers that may be in no row but those that they were in at first."""
        self._filled = np.bincount(self._flat, minlength=len(quotas) + 2)
        racks = int(rack_of.max(initial=-1)) + 1
        self.rack_of = np.append(rack_of, (racks, racks))
        """int64[n + 2]; what is no broker is in a rack behind the last."""
        in_rack = np.bincount(rack_of, weights=quotas, minlength=racks).astype(np.int64)
        self.may_repeat = np.append(in_rack > len(rows), True)
        """bool[racks + 1]: racks with more replicas than there are rows: some rows must have them twice."""
        self.everywhere = np.flatnonzero(in_rack >= len(rows))
        """Racks with enough replicas to be in every row."""

    @property
    def counts(self) -> Int64Array:
        """int64[n]: cells that each broker fills."""
        return self._filled[: self.vacant]

    @property
    def missing(self) -> Int64Array:
        """int64[n + 2]: cells that each broker lacks to its quota, below 0 if it has too many; 0 for no broker."""
        return np.append(self.quotas - self.counts, (0, 0))

    def brokers(self, cell: Int64Array) -> Int64Array:
        """int64[k]: what stands in the cells."""
        brokers: Int64Array = self._flat[cell]
        return brokers

    def vacant_cells(self) -> Int64Array:
        """The cells that are vacant, of each row the first only."""
        return self.one_per_row(np.flatnonzero(self._flat == self.vacant))

    def one_per_row(self, cell: Int64Array) -> Int64Array:
        """Of the cells in each row the one that is named first."""
        first: Int64Array = cell[rank_within(cell // self.width) == 0]
        return first

    def put(self, cell: Int64Array, broker: Int64Array) -> None:
        """Gives each cell to a broker, or makes it vacant. No cell is named twice."""
        self._filled -= np.bincount(self._flat[cell], minlength=len(self._filled))
        self._filled += np.bincount(broker, minlength=len(self._filled))
        self._flat[cell] = broker

    def admits(self, cell: Int64Array, broker: Int64Array) -> BoolArray:
        """bool[k]: whether the broker may be in the cell's row at all, and is not yet."""
        row = cell // self.width
        admitted: BoolArray = ~(self.now[row] == broker[:, None]).any(axis=1)
        if self.closed.any():
            admitted &= ~self.closed[broker] | self.was_in(row, broker)
        return admitted

    def was_in(self, row: Int64Array, broker: Int64Array) -> BoolArray:
        """bool[k]: whether the broker was in the row at first, so that nothing need be copied."""
        was: BoolArray = (self.origin[row] == broker[:, None]).any(axis=1)
        return was

    def fits(self, cell: Int64Array, broker: Int64Array) -> BoolArray:
        """bool[k]: whether, besides, the row may repeat the broker's rack, and can still get all that it must have."""
        others = self._others(cell)
        racks = self.rack_of[others]
        rack = self.rack_of[broker]
        fitting: BoolArray = self.may_repeat[rack] | ~(racks == rack[:, None]).any(axis=1)
        if self.everywhere.size:
            lacks = self.lacking(racks)
            is_lacking = (lacks & (rack[:, None] == self.everywhere)).any(axis=1)
            fitting &= is_lacking | (_times(others, self.vacant) > lacks.sum(axis=1))
        return fitting & self.admits(cell, broker)

    def takers_of(self, cell: Int64Array, *, fitting: bool) -> BoolArray:
        """bool[n]: who is admitted to one of the cells at least, or fits there. Counted, not tried one by one.

        Where some are closed, those that fit may be too many.
        """
        row = cell // self.width
        rows = self.now[row]
        takers = self._somewhere_absent(rows)
        if fitting:
            others = self._others(cell)
            racks = self.rack_of[others]
            lacks = self.lacking(racks)
            free = _times(others, self.vacant) > lacks.sum(axis=1)
            racks_of_row = np.sort(racks[free], axis=1)
            first = np.ones(racks_of_row.shape, dtype=np.bool_)
            first[:, 1:] = racks_of_row[:, 1:] != racks_of_row[:, :-1]
            new_somewhere = np.bincount(racks_of_row[first], minlength=len(self.may_repeat)) < len(racks_of_row)
            new_somewhere[self.everywhere[lacks[~free].any(axis=0)]] = True
            takers &= new_somewhere[self.rack_of[:-2]] | (
                self.may_repeat[self.rack_of[:-2]] & self._somewhere_absent(rows[free])
            )
        if self.closed.any():
            origin = self.origin[row]
            gone = origin[~(origin[:, :, None] == rows[:, None, :]).any(axis=2)]
            takers &= ~self.closed[:-2] | (np.bincount(gone, minlength=self.vacant + 2)[:-2] > 0)
        return takers

    def _somewhere_absent(self, rows: Int64Array) -> BoolArray:
        """bool[n]: who is not in all of these rows."""
        absent: BoolArray = np.bincount(rows.ravel(), minlength=self.vacant + 2)[:-2] < len(rows)
        return absent

    def _others(self, cell: Int64Array) -> Int64Array:
        """The rows of the cells, int64[k, replication_factor], as if these were vacant."""
        others: Int64Array = self.now[cell // self.width]
        others[np.arange(len(others)), cell % self.width] = self.vacant
        return others

    def lacking(self, racks: Int64Array) -> BoolArray:
        """bool[k, racks that are everywhere]: which of them rows with these racks lack."""
        lacks = np.empty((len(racks), len(self.everywhere)), dtype=np.bool_)
        for number, wanted in enumerate(self.everywhere.tolist()):
            lacks[:, number] = ~(racks == wanted).any(axis=1)
        return lacks

    def put_fitting(self, cell: Int64Array, broker: Int64Array) -> int:
        """Gives those of the cells, no two of a row, to brokers that fit there; says how many."""
        fitting = self.fits(cell, broker)
        self.put(cell[fitting], broker[fitting])
        return int(fitting.sum())


def _times(rows: Int64Array, value: int) -> Int64Array:
    """int64[rows]: how often a value is in each row."""
    times: Int64Array = np.count_nonzero(rows == value, axis=1)
    return times


def vacate_repeated_racks(cells: Cells) -> None:
    """Makes cells vacant whose rack stands elsewhere in the row, where the quotas let the row have another instead.

    Of the replicas in a rack those leave that would have to leave anyway, as long as there are such.
    """
    rows = np.arange(len(cells.now))
    only_above_quota = True
    while rows.size:
        leaving = _repeated_racks(cells, rows)
        above = -cells.missing[cells.now[rows]]
        leaving &= ~cells.closed[cells.now[rows]] | (only_above_quota & (above > 0))
        chosen = leaving.any(axis=1)
        rows = rows[chosen]
        # Of equals the last column, which is no leader.
        last_first = np.where(leaving, above, _LOWEST)[chosen][:, ::-1]
        cell = rows * cells.width + cells.width - 1 - np.argmax(last_first, axis=1)
        if only_above_quota:
            broker = cells.brokers(cell)
            surplus = rank_within(broker) < -cells.missing[broker]
            only_above_quota = bool(_TRIES_PER_SUCCESS * surplus.sum() > len(cell))
            cell = cell[surplus]
        cells.put(cell, np.full(len(cell), cells.vacant))
    _swap_leavers(cells)


def _swap_leavers(cells: Cells) -> None:
    """Takes brokers that now lack cells back to vacant ones, where another of their rack in the row has too many."""
    changed = True
    while changed:
        changed = False
        for column in range(cells.width):
            back = np.flatnonzero((cells.now == cells.vacant) & (cells.missing > 0)[cells.origin])
            row, origin = back // cells.width, cells.origin.reshape(-1)[back]
            cell = row * cells.width + column
            broker = cells.brokers(cell)
            fair = (cells.missing[broker] < 0) & (cells.rack_of[broker] == cells.rack_of[origin])
            fair[fair] = rank_within(row[fair]) == 0
            fair[fair] = rank_within(origin[fair]) < cells.missing[origin[fair]]
            fair[fair] = rank_within(broker[fair]) < -cells.missing[broker[fair]]
            cells.put(np.append(cell[fair], back[fair]), np.append(np.full(fair.sum(), cells.vacant), origin[fair]))
            changed |= bool(fair.any())


def _repeated_racks(cells: Cells, rows: Int64Array) -> BoolArray:
    """bool[k, replication_factor]: cells of these rows with a rack that the row has twice, and need not have twice."""
    racks = cells.rack_of[cells.now[rows]]
    repeated = np.zeros(racks.shape, dtype=np.bool_)
    for column in range(1, cells.width):
        same = racks[:, :column] == racks[:, column, None]
        repeated[:, :column] |= same
        repeated[:, column] |= same.any(axis=1)
    repeated &= racks < cells.rack_of[cells.vacant]
    needless: BoolArray = repeated & ~cells.may_repeat[racks]
    # A rack that may be repeated makes room only for a rack that must be in the row and is not.
    makes_room = ~needless.any(axis=1) & (cells.lacking(racks).sum(axis=1) > _times(cells.now[rows], cells.vacant))
    needless |= repeated & makes_room[:, None]
    return needless


def move_singly(cells: Cells, source: RandomSource) -> None:
    """Single moves that fit, into vacant cells and from brokers above their quota, until hardly one is left."""
    _pair_at_random(cells, source, cells.vacant_cells)
    supply = Supply(cells, source)
    _pair_at_random(cells, source, supply.next_cells)


class Supply:
    """What is on offer: cells of brokers above their quota, in an order by chance, followers first, and vacant ones."""

    def __init__(self, cells: Cells, source: RandomSource) -> None:
        self._cells = cells
        rows = np.flatnonzero((cells.missing < 0)[cells.now].any(axis=1))
        first = _shuffled(rows, source) * cells.width
        offered = np.append((first[:, None] + np.arange(1, cells.width)).ravel(), first)
        offered = offered[(cells.missing < 0)[cells.brokers(offered)]]
        broker = cells.brokers(offered)
        self._offered = offered[stable_order(broker)]
        self._sizes = np.bincount(broker, minlength=cells.vacant)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._next = np.zeros(cells.vacant, dtype=np.int64)

    def next_cells(self) -> Int64Array:
        """As many cells of each broker as it has too many, others than last time, behind vacant ones; one of a row."""
        amount = np.minimum(np.maximum(-self._cells.missing[:-2], 0), self._sizes)
        broker = np.repeat(np.arange(len(amount)), amount)
        turn = np.arange(len(broker)) - np.repeat(np.cumsum(amount) - amount, amount)
        cell = self._offered[self._starts[broker] + (self._next[broker] + turn) % self._sizes[broker]]
        self._next += amount
        cell = cell[self._cells.brokers(cell) == broker]
        return self._cells.one_per_row(np.append(self._cells.vacant_cells(), cell))


def draw_takers(cells: Cells, source: RandomSource) -> Int64Array:
    """Every broker below its quota as often as it lacks a cell, in an order by chance."""
    missing = np.maximum(cells.missing, 0)
    return _shuffled(np.repeat(np.arange(len(missing)), missing), source)


def _shuffled(array: Int64Array, source: RandomSource) -> Int64Array:
    return array[np.argsort(random_words(source, len(array)), kind="stable")]


def _pair_at_random(cells: Cells, source: RandomSource, offered: Callable[[], Int64Array]) -> None:
    idle = 0
    while idle < IDLE_ROUNDS and (cell := offered()).size:
        takers = draw_takers(cells, source)[: len(cell)]
        idle = 0 if cells.put_fitting(cell[: len(takers)], takers) else idle + 1
