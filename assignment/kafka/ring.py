"""The ring of brokers that round robin walks: positions of followers, for many leaders at once.

A leader stands on a position; its followers are found by walking on from a position behind it. Positions are
indexes into an order of brokers, nothing here knows ids, errors or partitions. Two rings: without racks
(followers are neighbours) and with racks in turn (KIP-36).
"""

from typing import Protocol

import numpy as np

from klamm.assignment.kafka.rack_order import IndexArray


class Ring(Protocol):
    """An order of brokers, and who follows a leader in it."""

    order: IndexArray
    """Index into the view, per position."""

    def followers(self, leader: IndexArray, shift: IndexArray, count: int) -> IndexArray:
        """Positions [rows, count] of those who follow `leader` [rows] after `shift` [rows] turns."""
        ...


class PlainRing:
    """Brokers as they were given: followers are neighbours of each other."""

    def __init__(self, size: int) -> None:
        self.order = np.arange(size, dtype=np.int64)

    def followers(self, leader: IndexArray, shift: IndexArray, count: int) -> IndexArray:
        size = len(self.order)
        # The leader itself is no step of the walk, which therefore closes after size - 1 steps.
        steps = (shift[:, None] + np.arange(count)) % (size - 1)
        return _within(leader[:, None] + 1 + steps, size)


class RackedRing:
    """Brokers with racks in turn: round 0 is the first broker of every rack, round 1 the second, and so on.

    Racks only drop out from round to round. So the walk from any position meets new racks step by step until a
    rack repeats (`_run_end`), and whichever racks it has not met by then it meets next in round 0, in the order
    of racks, where the position of a rack is its number. This makes the first meeting with each rack a
    formula instead of a search.
    """

    def __init__(self, order: IndexArray, rack_of: IndexArray) -> None:
        self.order = order
        self._rack_of = rack_of
        self._sizes = np.bincount(rack_of)
        self._racks = len(self._sizes)
        new_round = np.empty(len(order), dtype=np.int64)
        new_round[0] = 0
        np.less_equal(rack_of[1:], rack_of[:-1], out=new_round[1:], casting="unsafe")
        self._round_of = np.cumsum(new_round)
        visits = self._round_of * self._racks + rack_of  # ascending along the ring
        self._run_end = np.searchsorted(visits, visits + self._racks)
        self._kept_walks = np.empty((len(order), 0), dtype=np.int64)

    def followers(self, leader: IndexArray, shift: IndexArray, count: int) -> IndexArray:
        size = len(self.order)
        start = _within(leader + 1 + shift * self._racks % (size - 1), size)
        one_per_rack = min(count, self._racks - 1)
        spread = self._first_in_other_racks(start, leader, one_per_rack)
        if one_per_rack == count:
            return spread
        behind = _within(spread[:, -1] + 1, size) if one_per_rack else start
        taken = np.concatenate((leader[:, None], spread), axis=1)
        return np.concatenate((spread, self._next_free(behind, taken, count - one_per_rack)), axis=1)

    def _first_in_other_racks(self, start: IndexArray, leader: IndexArray, count: int) -> IndexArray:
        """The first `count` racks met from `start` on, the leader's not among them: positions [rows, count]."""
        if len(start) > len(self.order):
            met = np.take(self._walks(count + 1), start, axis=0)
        else:
            met = self._walked(start, count + 1)
        # A rack is met first once, so the leader's is in one column at most: what stands right of it moves up.
        of_leader = self._rack_of[met] == self._rack_of[leader][:, None]
        passed = np.logical_or.accumulate(of_leader[:, :-1], axis=1)
        return np.where(passed, met[:, 1:], met[:, :-1])

    def _walks(self, count: int) -> IndexArray:
        """What is walked from each position on: kept, for whoever places many partitions on few brokers."""
        if self._kept_walks.shape[1] != count:
            self._kept_walks = self._walked(np.arange(len(self.order)), count)
        return self._kept_walks

    def _walked(self, start: IndexArray, count: int) -> IndexArray:
        """The first `count` positions from `start` on with a rack that was not met since: positions [rows, count]."""
        met: IndexArray = start[:, None] + np.arange(count)
        self._finish_in_round_0(met, start)
        return met

    def _finish_in_round_0(self, met: IndexArray, start: IndexArray) -> None:
        width = met.shape[1]
        run = self._run_end[start] - start
        short = np.flatnonzero(run < width)
        if not short.size:
            return
        # What is still to be met depends on the round only through the racks that have dropped out by then.
        sizes_in_order = np.sort(self._sizes)
        first_round = self._round_of[start[short]]
        gone = np.searchsorted(sizes_in_order, first_round, side="right")
        gone_next = np.searchsorted(sizes_in_order, first_round + 1, side="right")
        kinds = (gone * (self._racks + 1) + gone_next) * self._racks + self._rack_of[start[short]]
        _, examples, kind_of = np.unique(kinds, return_index=True, return_inverse=True)
        for kind, example in enumerate(examples):
            rows = short[kind_of == kind]
            position = start[short[example]]
            met[rows, run[rows[0]] :] = self._not_met(position)[: width - run[rows[0]]]

    def _not_met(self, start: np.int64) -> IndexArray:
        """Racks, in order, that a walk from `start` does not meet before it is back in round 0."""
        first_round, rack = self._round_of[start], self._rack_of[start]
        left_before = self._sizes <= first_round
        passed_before = (self._sizes == first_round + 1) & (np.arange(self._racks) < rack)
        return np.flatnonzero(left_before | passed_before)

    def _next_free(self, start: IndexArray, taken: IndexArray, count: int) -> IndexArray:
        """The next `count` positions from `start` on that are not `taken` [rows, k]: positions [rows, count]."""
        size, rows = len(self.order), len(start)
        distances = np.sort((taken - start[:, None]) % size, axis=1)
        # Ahead of a taken one at distance d, the i-th taken, lie d - i free ones: those from number d - i on move up.
        moved_from = np.minimum(distances - np.arange(distances.shape[1]), count)
        flat = (moved_from + np.arange(rows)[:, None] * (count + 1)).ravel()
        moves = np.bincount(flat, minlength=rows * (count + 1)).reshape(rows, count + 1)
        steps = np.arange(count) + np.cumsum(moves, axis=1)[:, :-1]
        return _within(start[:, None] + steps, size)


def _within(position: IndexArray, size: int) -> IndexArray:
    """Positions below twice the ring's size, brought back into it: cheaper than a division."""
    return np.where(position >= size, position - size, position)
