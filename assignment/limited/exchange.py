"""Moves replicas along chains if no single move is possible, and exchanges brokers between two rows to gain racks.

In a chain, a broker below its quota takes a cell of a second broker, which takes a cell of a third one, and so on up to
a broker above its quota or a vacant cell. Chains are augmenting paths. A breadth-first search finds them, so each is as
short as possible, and one is found if any exists.
An exchange swaps two brokers between two rows and does not change the number of cells per broker. In rows of equal
width, if one row has a rack twice and another lacks it, there is an exchange that gains a rack and loses none. So
exchanges alone reach the largest number of racks that the quotas allow. Single moves are cheaper; they are in `moves`
and come first.
"""

from collections import deque
from typing import Final

import numpy as np

from klamm.assignment.cluster_view import BoolArray, Int64Array
from klamm.assignment.limited.moves import IDLE_ROUNDS, Cells, Supply, draw_takers
from klamm.assignment.random_source import RandomSource, random_words
from klamm.assignment.ranks import rank_within

_TRIES: Final = 1 << 12  # chains tried at a time
_PAIRINGS: Final = 4  # ways to pair rows that are tried if exchanges fail; they fail only if rows have unequal widths


def return_to_origin(cells: Cells) -> None:
    """Give vacant cells back to the brokers that had them before, if these are below their quota. Nothing is copied."""
    cell = np.flatnonzero((cells.now == cells.vacant) & (cells.origin < cells.vacant))
    for at in cell.tolist():
        one, broker = np.array([at]), cells.origin.reshape(-1)[at : at + 1]
        if cells.missing[broker[0]] > 0 and cells.admits(one, broker)[0]:
            cells.put(one, broker)


def move_through_others(cells: Cells, source: RandomSource) -> None:
    """Try random chains of two moves that fit: a third broker takes the offered cell and gives up one of its own.

    Cells that the third broker was given in this rebalance are tried first. Such a chain copies no more than a single
    move.
    """
    if not cells.missing.any():
        return
    supply = Supply(cells, source)
    row = np.arange(cells.now.size) // cells.width
    real = np.flatnonzero(cells.now < cells.vacant)
    moved = real[~cells.was_in(row[real], cells.brokers(real))]
    for ways in (moved, real):
        idle = 0
        while ways.size and idle < IDLE_ROUNDS and (offered := supply.next_cells()).size:
            idle = 0 if _by_way_of(cells, offered, ways, source) else idle + 1


def _by_way_of(cells: Cells, offered: Int64Array, ways: Int64Array, source: RandomSource) -> int:
    takers = draw_takers(cells, source)[: len(offered)]
    tries = max(1, _TRIES // len(takers))
    pair = np.tile(np.arange(len(takers)), tries)
    cell, taker = offered[pair], takers[pair]
    way = ways[(random_words(source, len(pair)) % np.uint64(len(ways))).astype(np.int64)]
    broker = cells.brokers(way)
    found = np.flatnonzero(
        cells.fits(cell, broker) & cells.fits(way, taker) & (cell // cells.width != way // cells.width)
    )
    found = found[rank_within(pair[found]) == 0]
    # A row takes part in one chain only, because both checks saw the row without the others' changes.
    found = found[rank_within(way[found] // cells.width) == 0]
    found = found[~np.isin(way[found] // cells.width, cell[found] // cells.width)]
    cells.put(np.append(cell[found], way[found]), np.append(broker[found], taker[found]))
    return len(found)


def move_along_chains(cells: Cells, *, fitting: bool) -> None:
    """Move along chains to brokers below their quotas until no chain is left. With `fitting` every move of a chain must
    fit its row (`Cells.fits`), otherwise it must be admitted (`Cells.admits`)."""
    while (cells.missing > 0).any():
        givers = cells.missing < 0
        givers[cells.vacant] = (cells.now == cells.vacant).any()
        chains = _Chains(cells, fitting)
        chains.search(np.flatnonzero(givers), cells.missing > 0)
        if not chains.ends.size or not chains.apply(int(chains.ends[0])):
            return


def fill_vacant_and_even(cells: Cells, held: Int64Array, most: Int64Array) -> bool:
    """Fill vacant cells, then even out held + cells, if the quotas cannot be met, as in rows of unequal width.

    `most`, int64[n], is the largest number of cells of each broker. Returns False if a cell stays vacant; then no
    placement exists. Loads are even when no chain leads from one broker to another with at least two fewer replicas.
    """
    no_targets = np.zeros(cells.vacant + 2, dtype=np.bool_)
    while (cells.now == cells.vacant).any():
        chains = _Chains(cells, fitting=False)
        chains.search(np.array([cells.vacant]), no_targets)
        ends = np.flatnonzero(chains.seen[: cells.vacant] & (cells.counts < most))
        if not ends.size or not chains.apply(int(ends[0])):
            return False
    while _even_by_one_chain(cells, held, most):
        pass
    return True


def _even_by_one_chain(cells: Cells, held: Int64Array, most: Int64Array) -> bool:
    loads = held + cells.counts
    chains = _Chains(cells, fitting=False)
    # The search starts at the most loaded broker. Brokers that it reached without success need not be searched again
    # from brokers with lower loads.
    for broker in np.argsort(-loads, kind="stable").tolist():
        if not chains.seen[broker] and cells.counts[broker]:
            targets = np.append((loads <= loads[broker] - 2) & (cells.counts < most), (False, False))
            chains.search(np.array([broker]), targets)
            if chains.ends.size:
                return chains.apply(int(chains.ends[0]))
    return False


class _Chains:
    """A breadth-first search for chains of moves. Vacant cells count as cells of a broker with the index `vacant`."""

    def __init__(self, cells: Cells, fitting: bool) -> None:
        self._cells = cells
        self._fitting = fitting
        self.seen = np.zeros(cells.vacant + 2, dtype=np.bool_)
        self.ends: Int64Array = np.empty(0, dtype=np.int64)
        """The targets that were reached, all by chains of the same, shortest length."""
        self._giver_of: dict[int, int] = {}

    def search(self, starts: Int64Array, targets: BoolArray) -> None:
        """Search until targets, bool[n + 2], are reached. Brokers that an earlier search has seen are left out."""
        self.seen[starts] = True
        waiting = deque(starts.tolist())
        while waiting and not self.ends.size:
            giver = waiting.popleft()
            cell = self._cells_of(giver)
            new = np.flatnonzero(self._cells.takers_of(cell, fitting=self._fitting) & ~self.seen[:-2])
            self.seen[new] = True
            self._giver_of.update(dict.fromkeys(new.tolist(), giver))
            self.ends = new[targets[new]]
            waiting += new.tolist()

    def _cells_of(self, broker: int) -> Int64Array:
        return np.flatnonzero(self._cells.now == broker)

    def apply(self, end: int) -> bool:
        """Make the moves of the chain to `end`, the last one first. Returns False if an earlier move made a later one
        impossible. Then another broker of the chain lacks a cell instead of `end`, and the placement is no worse than
        before.
        """
        taker = end
        while taker in self._giver_of:
            giver = self._giver_of[taker]
            cell = self._cheapest(self._cells_of(giver), taker)
            if not cell.size:
                return False
            self._cells.put(cell, np.array([taker]))
            taker = giver
        return True

    def _cheapest(self, cell: Int64Array, taker: int) -> Int64Array:
        """int64[0 or 1]: of these cells of one broker, the one that the taker may have with the least copying."""
        cells = self._cells
        allowed = cells.fits if self._fitting else cells.admits
        cell = cell[allowed(cell, np.full(len(cell), taker))]
        row, leaving = cell // cells.width, cells.brokers(cell)
        stays = (leaving == cells.vacant) | cells.was_in(row, leaving)
        returns = cells.was_in(row, np.full(len(row), taker))
        return cell[np.argsort(stays.astype(np.int64) - returns, kind="stable")[:1]]


def repair_racks(cells: Cells) -> None:
    """Exchange brokers between rows until no rack is twice in one row and missing in another, or no exchange is
    possible."""
    ascending = np.sort(cells.rack_of[cells.now], axis=1)
    repeated = np.unique(ascending[:, 1:][ascending[:, 1:] == ascending[:, :-1]])
    for rack in repeated[repeated < cells.rack_of[cells.vacant]].tolist():
        while any(_exchange(cells, rack, pairing) for pairing in range(_PAIRINGS)):
            pass


def _exchange(cells: Cells, rack: int, pairing: int) -> bool:
    """Exchange brokers between rows that have the rack twice and rows that lack it. Returns False if nothing
    changed."""
    racks = cells.rack_of[cells.now]
    times = (racks == rack).sum(axis=1)
    rich, poor = np.flatnonzero(times > 1), np.flatnonzero(times == 0)
    count = min(len(rich), len(poor))
    if not count:
        return False
    # Poor rows with few distinct racks come first: an exchange with such a row may gain a rack for both rows.
    ascending = np.sort(racks[poor], axis=1)
    distinct = (ascending[:, 1:] != ascending[:, :-1]).sum(axis=1)
    poor = np.roll(poor[np.argsort(distinct, kind="stable")], -pairing)[:count]
    rich = np.roll(rich, pairing)[:count]
    gives = _best(cells, rich, poor, (racks[rich] == rack).astype(np.int64))
    takes = _best(cells, poor, rich, _gain(racks[poor], racks[rich]))
    done = (gives >= 0) & (takes >= 0)
    rich_cell, poor_cell = gives[done], takes[done]
    coming, leaving = cells.brokers(poor_cell), cells.brokers(rich_cell)
    cells.put(rich_cell, coming)
    cells.put(poor_cell, leaving)
    return bool(done.any())


def _gain(here: Int64Array, there: Int64Array) -> Int64Array:
    """int64[k, replication_factor]: the racks that two rows gain if a cell of `here` goes `there` in exchange for the
    repeated rack, which is new here.

    It is above 0 if the cell's rack is in this row twice, or not in the other row.
    """
    alone_here = (here[:, :, None] == here[:, None, :]).sum(axis=2) == 1
    new_there = ~(here[:, :, None] == there[:, None, :]).any(axis=2)
    gained: Int64Array = 1 + new_there.astype(np.int64) - alone_here
    return gained


def _best(cells: Cells, row: Int64Array, other: Int64Array, worth: Int64Array) -> Int64Array:
    """int64[k]: in each row the cell of highest worth that the other row admits, or -1. Of equal ones, a cell that was
    already moved is preferred."""
    ranking = np.zeros(worth.shape, dtype=np.int64)
    for column in range(cells.width):
        broker = cells.brokers(row * cells.width + column)
        allowed = (worth[:, column] > 0) & (broker < cells.vacant) & cells.admits(other * cells.width, broker)
        ranking[allowed, column] = (2 * worth[:, column] + ~cells.was_in(row, broker))[allowed]
    # Of equal cells the last column is taken, because column 0 leads.
    column = cells.width - 1 - np.argmax(ranking[:, ::-1], axis=1)
    return np.where(ranking.any(axis=1), row * cells.width + column, -1)
