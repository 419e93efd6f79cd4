"""The ring of brokers for round robin: computes the positions of followers for many leaders at once.

Positions are indexes into an order of brokers. The followers of a leader are found by a walk along the ring that
starts after the leader's position. There are two rings: without racks (followers are neighbours) and with alternating
racks (KIP-36). Broker ids, errors and partitions are not used here.
"""

from typing import Protocol

import numpy as np

from klamm.assignment.kafka.rack_order import IndexArray


class Ring(Protocol):
    """An order of brokers, and a rule for the followers of a leader."""

    order: IndexArray
    """int64[n]: the index into the view of each position."""

    def followers(self, leader: IndexArray, shift: IndexArray, count: int) -> IndexArray:
        """int64[rows, count]: the positions of the followers, given the positions of leaders and the shift, both
        int64[rows]."""
        ...


class PlainRing:
    """Brokers in the order given; followers are neighbours of each other."""

    def __init__(self, size: int) -> None:
        self.order = np.arange(size, dtype=np.int64)

    def followers(self, leader: IndexArray, shift: IndexArray, count: int) -> IndexArray:
        size = len(self.order)
        # The walk skips the leader, so it returns to its start after size - 1 steps.
        steps = (shift[:, None] + np.arange(count)) % (size - 1)
        return _within(leader[:, None] + 1 + steps, size)


class RackedRing:
    """Brokers with alternating racks: round 0 has the first broker of every rack, round 1 the second, and so on.

    A rack that is absent from a round is absent from all later rounds. So a walk from any position finds a new rack
    with every step until a rack repeats (`_run_end`). The remaining racks follow in round 0, in the order of racks,
    where the position of a rack is its number. Therefore the first position of each rack is a formula and needs no
    search.
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
        """int64[rows, count]: the first positions from `start` on that are in new racks other than the leader's."""
        if len(start) > len(self.order):
            met = np.take(self._walks(count + 1), start, axis=0)
        else:
            met = self._walked(start, count + 1)
        # The leader's rack is in one column at most. The columns to the right of it move left by one.
        of_leader = self._rack_of[met] == self._rack_of[leader][:, None]
        passed = np.logical_or.accumulate(of_leader[:, :-1], axis=1)
        return np.where(passed, met[:, 1:], met[:, :-1])

    def _walks(self, count: int) -> IndexArray:
        """`_walked` from every position. It is cached, because many partitions on few brokers need it repeatedly."""
        if self._kept_walks.shape[1] != count:
            self._kept_walks = self._walked(np.arange(len(self.order)), count)
        return self._kept_walks

    def _walked(self, start: IndexArray, count: int) -> IndexArray:
        """int64[rows, count]: the first positions from `start` on, each in a rack that is new on this walk."""
        met: IndexArray = start[:, None] + np.arange(count)
        self._finish_in_round_0(met, start)
        return met

    def _finish_in_round_0(self, met: IndexArray, start: IndexArray) -> None:
        width = met.shape[1]
        run = self._run_end[start] - start
        short = np.flatnonzero(run < width)
        if not short.size:
            return
        # The remaining racks depend on the round only through the racks that are absent from it.
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
        """The racks, ascending, that a walk from `start` does not find before it is back in round 0."""
        first_round, rack = self._round_of[start], self._rack_of[start]
        left_before = self._sizes <= first_round
        passed_before = (self._sizes == first_round + 1) & (np.arange(self._racks) < rack)
        return np.flatnonzero(left_before | passed_before)

    def _next_free(self, start: IndexArray, taken: IndexArray, count: int) -> IndexArray:
        """int64[rows, count]: the next positions from `start` on that are not in `taken`, int64[rows, k]."""
        size, rows = len(self.order), len(start)
        distances = np.sort((taken - start[:, None]) % size, axis=1)
        # Before the i-th taken position, at distance d, there are d - i free ones. Free positions from number d - i on
        # are one step further.
        moved_from = np.minimum(distances - np.arange(distances.shape[1]), count)
        flat = (moved_from + np.arange(rows)[:, None] * (count + 1)).ravel()
        moves = np.bincount(flat, minlength=rows * (count + 1)).reshape(rows, count + 1)
        steps = np.arange(count) + np.cumsum(moves, axis=1)[:, :-1]
        return _within(start[:, None] + steps, size)


def _within(position: IndexArray, size: int) -> IndexArray:
    """Positions modulo the ring's size. They are below twice the size, so a subtraction replaces the division."""
    return np.where(position >= size, position - size, position)
