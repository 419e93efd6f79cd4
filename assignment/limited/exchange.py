"""Replicas that change places: along chains, where no single move serves, and between two rows, for their racks.

A chain lets a broker below its quota take a cell of a broker that takes another's cell, and so on, up to one above its
quota or a vacant cell: an augmenting path, found breadth first, so none is missed and none is longer than need be.
An exchange swaps two brokers between two rows; counts stay. While some row has a rack twice and another lacks it, in
rows of equal width, an exchange of the two exists that gains a rack and loses none; so these exchanges alone reach the
widest spread that the quotas allow. Single moves, which are cheaper, are in `moves` and come first.
"""

from collections import deque
from typing import Final

import numpy as np

from klamm.assignment.cluster_view import BoolArray, Int64Array
from klamm.assignment.limited.moves import IDLE_ROUNDS, Cells, Supply, draw_takers
from klamm.assignment.random_source import RandomSource, random_words
from klamm.assignment.ranks import rank_within

_TRIES: Final = 1 << 12  # chains tried at a time
_PAIRINGS: Final = 4  # ways to pair rows that are tried when exchanges fail, which they do in uneven rows only


def return_to_origin(cells: Cells) -> None:
    """Gives vacant cells back to the brokers that had them, where these lack one: that is no move at all."""
    cell = np.flatnonzero((cells.now == cells.vacant) & (cells.origin < cells.vacant))
    for at in cell.tolist():
        one, broker = np.array([at]), cells.origin.reshape(-1)[at : at + 1]
        if cells.missing[broker[0]] > 0 and cells.admits(one, broker)[0]:
            cells.put(one, broker)


def move_through_others(cells: Cells, source: RandomSource) -> None:
    """Chains of two moves that fit, by chance: a third broker takes the cell on offer, and leaves one of its own.

    First it leaves cells that it was only just given: then the chain copies no more than a single move.
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
    # A row takes part once: both checks saw it as it was.
    found = found[rank_within(way[found] // cells.width) == 0]
    found = found[~np.isin(way[found] // cells.width, cell[found] // cells.width)]
    cells.put(np.append(cell[found], way[found]), np.append(broker[found], taker[found]))
    return len(found)


def move_along_chains(cells: Cells, *, fitting: bool) -> None:
    """Chains to brokers below their quotas, of moves that fit, or of any that are allowed, until none is left."""
    while (cells.missing > 0).any():
        givers = cells.missing < 0
        givers[cells.vacant] = (cells.now == cells.vacant).any()
        chains = _Chains(cells, fitting)
        chains.search(np.flatnonzero(givers), cells.missing > 0)
        if not chains.ends.size or not chains.apply(int(chains.ends[0])):
            return


def fill_vacant_and_even(cells: Cells, held: Int64Array, most: Int64Array) -> bool:
    """Where quotas cannot be met, as in rows of unequal width: fills what is vacant, then evens held + cells.

    `most` int64[n] is what no broker may go beyond. False if a cell stays vacant: then no placement exists. Loads are
    even when no chain is left that leads from one broker to another with two less.
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
    # From the most loaded down: whom it reached in vain is of no use to those who have less to give.
    for broker in np.argsort(-loads, kind="stable").tolist():
        if not chains.seen[broker] and cells.counts[broker]:
            targets = np.append((loads <= loads[broker] - 2) & (cells.counts < most), (False, False))
            chains.search(np.array([broker]), targets)
            if chains.ends.size:
                return chains.apply(int(chains.ends[0]))
    return False


class _Chains:
    """A search, breadth first, for chains of moves: who can take a cell of whom. Vacant cells are those of `vacant`."""

    def __init__(self, cells: Cells, fitting: bool) -> None:
        self._cells = cells
        self._fitting = fitting
        self.seen = np.zeros(cells.vacant + 2, dtype=np.bool_)
        self.ends: Int64Array = np.empty(0, dtype=np.int64)
        """The targets that were reached, all with chains of the same, least length."""
        self._giver_of: dict[int, int] = {}

    def search(self, starts: Int64Array, targets: BoolArray) -> None:
        """Searches until targets, bool[n + 2], are reached; brokers seen by an earlier search are left out."""
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
        """Makes the moves of the chain to `end`, the last first; False if one of them was in the way of another.

        Then the broker that gave the last cell lacks one instead of `end`, and nothing is worse than before.
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
        """Of some cells of one broker, the one that the taker may have with least copying; empty if there is none."""
        cells = self._cells
        allowed = cells.fits if self._fitting else cells.admits
        cell = cell[allowed(cell, np.full(len(cell), taker))]
        row, leaving = cell // cells.width, cells.brokers(cell)
        stays = (leaving == cells.vacant) | cells.was_in(row, leaving)
        returns = cells.was_in(row, np.full(len(row), taker))
        return cell[np.argsort(stays.astype(np.int64) - returns, kind="stable")[:1]]


def repair_racks(cells: Cells) -> None:
    """Exchanges between rows until no rack is twice in one row and missing in another, as far as they can."""
    ascending = np.sort(cells.rack_of[cells.now], axis=1)
    repeated = np.unique(ascending[:, 1:][ascending[:, 1:] == ascending[:, :-1]])
    for rack in repeated[repeated < cells.rack_of[cells.vacant]].tolist():
        while any(_exchange(cells, rack, pairing) for pairing in range(_PAIRINGS)):
            pass


def _exchange(cells: Cells, rack: int, pairing: int) -> bool:
    """Exchanges between rows that have the rack twice and rows that lack it; False if nothing changed."""
    racks = cells.rack_of[cells.now]
    times = (racks == rack).sum(axis=1)
    rich, poor = np.flatnonzero(times > 1), np.flatnonzero(times == 0)
    count = min(len(rich), len(poor))
    if not count:
        return False
    # A poor row with too much of another rack may make two rows better at once.
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
    """int64[k, replication_factor]: racks that two rows gain if a cell of `here` goes `there` for the rack that is new.

    Above 0 where its rack is more often here than there: then it is here twice, or new there.
    """
    alone_here = (here[:, :, None] == here[:, None, :]).sum(axis=2) == 1
    new_there = ~(here[:, :, None] == there[:, None, :]).any(axis=2)
    gained: Int64Array = 1 + new_there.astype(np.int64) - alone_here
    return gained


def _best(cells: Cells, row: Int64Array, other: Int64Array, worth: Int64Array) -> Int64Array:
    """int64[k]: of each row the cell of most worth that the other row admits, rather one that has moved; or -1."""
    ranking = np.zeros(worth.shape, dtype=np.int64)
    for column in range(cells.width):
        broker = cells.brokers(row * cells.width + column)
        allowed = (worth[:, column] > 0) & (broker < cells.vacant) & cells.admits(other * cells.width, broker)
        ranking[allowed, column] = (2 * worth[:, column] + ~cells.was_in(row, broker))[allowed]
    # Of equals the last column, which is no leader.
    column = cells.width - 1 - np.argmax(ranking[:, ::-1], axis=1)
    return np.where(ranking.any(axis=1), row * cells.width + column, -1)
