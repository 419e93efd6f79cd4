"""Moves replicas to brokers below their quota: cells of brokers above their quota, and vacant cells.

A placement is a table of cells, and a quota is the number of cells that a broker is to fill. Single moves are found in
rounds, for all rows at once: cells and brokers that take them (takers) are paired at random, and the moves that fit are
made. A move fits if it leaves the row valid and the row does not lose a rack that the quotas allow it.
Chains of moves and exchanges between rows are in `exchange`. Broker ids, limits and errors are not used here.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from klamm.assignment.cluster_view import BoolArray, Int64Array
from klamm.assignment.random_source import RandomSource, random_words
from klamm.assignment.ranks import rank_within, stable_order

IDLE_ROUNDS: Final = 6
"""After this many random rounds in a row in which no move fits, no further rounds are tried."""

_LOWEST: Final = -(1 << 62)
_TRIES_PER_SUCCESS: Final = 64  # if fewer than one in 64 tries succeeds, it is not tried again


class Cells:
    """The cells of a placement while they are changed to meet quotas.

    A cell holds a broker, 0..n-1, or `vacant` (n), or `placeholder` (n + 1). Cells are numbered row by row:
    cell = row * replication_factor + column.
    """

    def __init__(self, rows: Int64Array, rack_of: Int64Array, quotas: Int64Array, closed: BoolArray) -> None:
        """`rows` is the placement [rows, replication_factor]; `rack_of`, `quotas` and `closed` are per broker [n]."""
        self.vacant, self.placeholder = len(quotas), len(quotas) + 1
        self.width = rows.shape[1]
        self.origin = rows
        self.now = rows.copy()
        self._flat = self.now.reshape(-1)
        self.quotas = quotas.copy()
        self.closed = np.append(closed, (False, False))
        """bool[n + 2]: brokers that may only be in rows that had them at first."""
        self._filled = np.bincount(self._flat, minlength=len(quotas) + 2)
        racks = int(rack_of.max(initial=-1)) + 1
        self.rack_of = np.append(rack_of, (racks, racks))
        """int64[n + 2]: the rack of each broker. `vacant` and `placeholder` have one more rack, after the last."""
        in_rack = np.bincount(rack_of, weights=quotas, minlength=racks).astype(np.int64)
        self.may_repeat = np.append(in_rack > len(rows), True)
        """bool[racks + 1]: racks with more replicas than there are rows, so that some rows must have them twice."""
        self.everywhere = np.flatnonzero(in_rack >= len(rows))
        """Racks with enough replicas to be in every row."""

    @property
    def counts(self) -> Int64Array:
        """int64[n]: the number of cells of each broker."""
        return self._filled[: self.vacant]

    @property
    def missing(self) -> Int64Array:
        """int64[n + 2]: the quota of each broker minus its cells; 0 for `vacant` and `placeholder`."""
        return np.append(self.quotas - self.counts, (0, 0))

    def brokers(self, cell: Int64Array) -> Int64Array:
        """int64[k]: the contents of the cells."""
        brokers: Int64Array = self._flat[cell]
        return brokers

    def vacant_cells(self) -> Int64Array:
        """int64[k]: the first vacant cell of each row that has one."""
        return self.one_per_row(np.flatnonzero(self._flat == self.vacant))

    def one_per_row(self, cell: Int64Array) -> Int64Array:
        """int64[k]: of these cells, the first one of each row."""
        first: Int64Array = cell[rank_within(cell // self.width) == 0]
        return first

    def put(self, cell: Int64Array, broker: Int64Array) -> None:
        """Give each of these distinct cells to a broker, or make it vacant."""
        self._filled -= np.bincount(self._flat[cell], minlength=len(self._filled))
        self._filled += np.bincount(broker, minlength=len(self._filled))
        self._flat[cell] = broker

    def admits(self, cell: Int64Array, broker: Int64Array) -> BoolArray:
        """bool[k]: whether the broker may be in the cell's row and is not in it yet."""
        row = cell // self.width
        admitted: BoolArray = ~(self.now[row] == broker[:, None]).any(axis=1)
        if self.closed.any():
            admitted &= ~self.closed[broker] | self.was_in(row, broker)
        return admitted

    def was_in(self, row: Int64Array, broker: Int64Array) -> BoolArray:
        """bool[k]: whether the broker was in the row at first, so that nothing has to be copied."""
        was: BoolArray = (self.origin[row] == broker[:, None]).any(axis=1)
        return was

    def fits(self, cell: Int64Array, broker: Int64Array) -> BoolArray:
        """bool[k]: whether the row admits the broker, does not repeat its rack unless it may, and can still get every
        rack that must be in all rows."""
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
        """bool[n]: the brokers that at least one of the cells admits, or with `fitting`, that fit at least one of them.

        The result is found by counting, without a test of each pair. If some brokers are closed, it may contain brokers
        that fit no cell.
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
        """bool[n]: the brokers that are absent from at least one of these rows."""
        absent: BoolArray = np.bincount(rows.ravel(), minlength=self.vacant + 2)[:-2] < len(rows)
        return absent

    def _others(self, cell: Int64Array) -> Int64Array:
        """The rows of the cells, int64[k, replication_factor], as if these were vacant."""
        others: Int64Array = self.now[cell // self.width]
        others[np.arange(len(others)), cell % self.width] = self.vacant
        return others

    def lacking(self, racks: Int64Array) -> BoolArray:
        """bool[k, len(everywhere)]: whether each row, given by its racks, lacks each rack that must be in all rows."""
        lacks = np.empty((len(racks), len(self.everywhere)), dtype=np.bool_)
        for number, wanted in enumerate(self.everywhere.tolist()):
            lacks[:, number] = ~(racks == wanted).any(axis=1)
        return lacks

    def put_fitting(self, cell: Int64Array, broker: Int64Array) -> int:
        """Give those of the cells, at most one per row, to their brokers where these fit. Returns their number."""
        fitting = self.fits(cell, broker)
        self.put(cell[fitting], broker[fitting])
        return int(fitting.sum())


def _times(rows: Int64Array, value: int) -> Int64Array:
    """int64[rows]: how often `value` is in each row."""
    times: Int64Array = np.count_nonzero(rows == value, axis=1)
    return times


def vacate_repeated_racks(cells: Cells) -> None:
    """Make cells vacant whose rack is also elsewhere in the row, if the quotas allow the row another rack instead.

    As long as possible, replicas of brokers above their quota are chosen, because these have to move anyway.
    """
    rows = np.arange(len(cells.now))
    only_above_quota = True
    while rows.size:
        leaving = _repeated_racks(cells, rows)
        above = -cells.missing[cells.now[rows]]
        leaving &= ~cells.closed[cells.now[rows]] | (only_above_quota & (above > 0))
        chosen = leaving.any(axis=1)
        rows = rows[chosen]
        # Of equal cells the last column is taken, because column 0 leads.
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
    """Give vacant cells back to brokers that are now below their quota, and vacate instead a cell of the same row and
    rack whose broker is above its quota."""
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
    """bool[k, replication_factor]: the cells of these rows with a rack that the row has twice without need."""
    racks = cells.rack_of[cells.now[rows]]
    repeated = np.zeros(racks.shape, dtype=np.bool_)
    for column in range(1, cells.width):
        same = racks[:, :column] == racks[:, column, None]
        repeated[:, :column] |= same
        repeated[:, column] |= same.any(axis=1)
    repeated &= racks < cells.rack_of[cells.vacant]
    needless: BoolArray = repeated & ~cells.may_repeat[racks]
    # A cell of a rack that may be repeated is vacated only for a rack that must be in all rows and is not in this one.
    makes_room = ~needless.any(axis=1) & (cells.lacking(racks).sum(axis=1) > _times(cells.now[rows], cells.vacant))
    needless |= repeated & makes_room[:, None]
    return needless


def move_singly(cells: Cells, source: RandomSource) -> None:
    """Make single moves that fit, into vacant cells and from brokers above their quota, until random pairing finds no
    more."""
    _pair_at_random(cells, source, cells.vacant_cells)
    supply = Supply(cells, source)
    _pair_at_random(cells, source, supply.next_cells)


class Supply:
    """The cells on offer: vacant ones, and those of brokers above their quota in random order, followers first."""

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
        """The next cells on offer, at most one per row: vacant ones first, then of each broker as many as it has above
        its quota, not the same as last time."""
        amount = np.minimum(np.maximum(-self._cells.missing[:-2], 0), self._sizes)
        broker = np.repeat(np.arange(len(amount)), amount)
        turn = np.arange(len(broker)) - np.repeat(np.cumsum(amount) - amount, amount)
        cell = self._offered[self._starts[broker] + (self._next[broker] + turn) % self._sizes[broker]]
        self._next += amount
        cell = cell[self._cells.brokers(cell) == broker]
        return self._cells.one_per_row(np.append(self._cells.vacant_cells(), cell))


def draw_takers(cells: Cells, source: RandomSource) -> Int64Array:
    """int64[k]: every broker below its quota, as often as it lacks cells, in random order."""
    missing = np.maximum(cells.missing, 0)
    return _shuffled(np.repeat(np.arange(len(missing)), missing), source)


def _shuffled(array: Int64Array, source: RandomSource) -> Int64Array:
    return array[np.argsort(random_words(source, len(array)), kind="stable")]


def _pair_at_random(cells: Cells, source: RandomSource, offered: Callable[[], Int64Array]) -> None:
    idle = 0
    while idle < IDLE_ROUNDS and (cell := offered()).size:
        takers = draw_takers(cells, source)[: len(cell)]
        idle = 0 if cells.put_fitting(cell[: len(takers)], takers) else idle + 1
