"""Augmenting paths: gives replicas to rows if no broker with room fits directly, and evens out the loads afterwards.

A row that lacks a replica takes a broker without room; some row that was given this broker replaces it by another, and
so on to a broker with room. Paths are searched over brokers, not over rows. Many rows can make the same step, so many
replicas move at once, limited by the rows and the room.
Of the cheapest paths the shortest is taken (successive shortest paths; Ahuja, Magnanti and Orlin, Network Flows). So
the flow always has the least cost for its size, and no cycle of steps has a cost below 0. All functions here rely on
this invariant and keep it.
"""

from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from klamm.assignment.cluster_view import BoolArray, Int64Array
from klamm.assignment.limited.row_flow import IMPOSSIBLE, RowFlow

_ROWS: Final = -1  # the element before the first broker of a path that begins in rows
_MAX_FAILED_PUSHES: Final = 8  # after that many in a row, paths are searched again


def fill_lacking(flow: RowFlow, max_cost: int = IMPOSSIBLE - 1) -> None:
    """Give rows the replicas that they lack, as long as there is a path whose cost is at most `max_cost`.

    If rows still lack replicas after a call without `max_cost`, no assignment gives all rows their replicas.
    """
    least = -1  # the cost of the cheapest path never decreases from one search to the next
    while flow.lacking.any():
        targets = flow.room > 0
        paths = _search(flow, flow.give_costs(), targets, least)
        least = int(paths.cost[targets].min(initial=IMPOSSIBLE))
        if least > max_cost:
            return
        moves = _Moves(flow, paths)
        for end in np.flatnonzero(targets & (paths.cost == least)).tolist():
            moves.push(end, int(flow.room[end]), from_rows=True)
            if moves.failed_pushes >= _MAX_FAILED_PUSHES:
                break


def even_out(flow: RowFlow, held: Int64Array) -> None:
    """Minimize the sum of squares of held + taken, int64[brokers], without changing the cost of the flow.

    Rows keep their number of replicas. Precondition: `fill_lacking` has found all paths.
    """
    # The sum is minimal when no level has a path from a broker above it to one below it. Moves across a level create
    # no path across a level that was handled before, so each level is handled once. One level between two neighbouring
    # loads is enough.
    loads = held + flow.taken
    pending = [(int(loads.min(initial=IMPOSSIBLE)), int(loads.max(initial=0)))]
    while pending:
        low, high = pending.pop()
        inside = _loads_within(flow, held, low, high)
        level = int(inside.sum()) // inside.size if inside.size else low
        while _level_out(flow, held, level):
            pass
        if inside.size or _loads_within(flow, held, low, high).size:
            pending += [(first, last) for first, last in ((low, level - 1), (level + 1, high)) if first <= last]


def _loads_within(flow: RowFlow, held: Int64Array, low: int, high: int) -> Int64Array:
    loads = (held + flow.taken)[(flow.taken > 0) | (flow.room > 0)]
    return loads[(loads >= low) & (loads <= high)]


def _level_out(flow: RowFlow, held: Int64Array, level: int) -> bool:
    """Move replicas from brokers above the level to brokers below it, until one of the two is at the level. Returns
    whether a path was found."""
    loads = held + flow.taken
    sources = (loads > level) & (flow.taken > 0)
    targets = (loads < level) & (flow.room > 0)
    if not (sources.any() and targets.any()):
        return False
    paths = _search(flow, np.where(sources, 0, IMPOSSIBLE), targets, least=0)
    ends = np.flatnonzero(targets & (paths.cost <= 0))
    moves = _Moves(flow, paths)
    for end in ends.tolist():
        begin = paths.to(end)[0]
        above, below = held[begin] + flow.taken[begin] - level, level - held[end] - flow.taken[end]
        moves.push(end, int(min(above, below, flow.room[end], flow.taken[begin])), from_rows=False)
        if moves.failed_pushes >= _MAX_FAILED_PUSHES:
            break
    return bool(ends.size)


class _Paths(NamedTuple):
    """The cheapest paths to each broker: parallel arrays int64[brokers]."""

    cost: Int64Array
    came_from: Int64Array
    """The broker before each one on its path, -1 where a path begins."""

    def to(self, broker: int) -> list[int]:
        path = [broker]
        while (before := int(self.came_from[path[-1]])) >= 0:
            path.append(before)
        return path[::-1]


def _search(flow: RowFlow, start: Int64Array, targets: BoolArray, least: int) -> _Paths:
    """The cheapest paths to each broker, the shortest of those; the cost is IMPOSSIBLE where no path exists.

    `start`, int64[brokers], is the cost of beginning a path at each broker. No path costs less than `least`. The search
    ends as soon as a target, bool[brokers], is reached at that cost; then only the paths to such targets are final.
    """
    cost = start.copy()
    came_from = np.full(flow.no_broker, -1, dtype=np.int64)
    reached = np.flatnonzero(cost < IMPOSSIBLE)
    places = np.arange(flow.no_broker)
    while reached.size and not (cost[targets] <= least).any():
        # Each pass adds one step to all paths. A path that is found later is longer, so it replaces an earlier one only
        # if it is cheaper. Among equally cheap paths, `turn` lets brokers take different ones, so that the paths share
        # few brokers.
        turns = len(reached)
        best, before = cost * turns, came_from.copy()
        for turn, broker in enumerate(reached.tolist()):
            via = (flow.swap_costs(broker) + cost[broker]) * turns + (places + turn) % turns
            better = (via < best) & (via < IMPOSSIBLE // 2)
            best[better] = via[better]
            before[better] = broker
        best //= turns
        reached = np.flatnonzero(best < cost)
        cost, came_from = best, before
    return _Paths(cost, came_from)


class _Step(NamedTuple):
    """Rows that are given a broker, in place of the brokers in these `places`, or as one more replica if None."""

    broker: int
    rows: Int64Array
    places: Int64Array | None

    def limited(self, units: int) -> "_Step":
        return _Step(self.broker, self.rows[:units], None if self.places is None else self.places[:units])

    def take(self, flow: RowFlow) -> None:
        if self.places is None:
            flow.give(self.rows, np.full(len(self.rows), self.broker))
        else:
            flow.swap(self.rows, self.places, self.broker)


class _Moves:
    """Moves along the cheapest paths of one search.

    Two steps of one path may be in the same row. They never concern the same rack, because then a shorter path without
    the steps between them would exist. This holds for the flow that was searched, so a row that one path has changed is
    not changed by the others.
    """

    def __init__(self, flow: RowFlow, paths: _Paths) -> None:
        self.failed_pushes = 0
        """The number of consecutive pushes, up to the last one, that found no rows for their path."""
        self._flow = flow
        self._paths = paths
        self._untouched = np.ones(len(flow.lacking), dtype=np.bool_)

    def push(self, end: int, units: int, *, from_rows: bool) -> None:
        """Move up to `units` replicas along the path to `end`. The first call after a search moves at least one."""
        brokers = ([_ROWS] if from_rows else []) + self._paths.to(end)
        steps = [self._step(broker, other) for broker, other in pairwise(brokers)]
        units = min(units, *(len(step.rows) for step in steps))
        # Without a move, a caller that searches until nothing is lacking would never end.
        assert units > 0 or not self._untouched.all(), "the path that was found is not there"
        self.failed_pushes = 0 if units > 0 else self.failed_pushes + 1
        if units > 0:
            for step in steps:
                step.limited(units).take(self._flow)
                self._untouched[step.rows[:units]] = False

    def _step(self, broker: int, other: int) -> _Step:
        cost = int(self._paths.cost[other])
        if broker == _ROWS:
            rows = self._flow.givable(other, cost)
            return _Step(other, rows[self._untouched[rows]], None)
        rows, places = self._flow.swappable(broker, other, cost - int(self._paths.cost[broker]))
        chosen = self._untouched[rows]
        return _Step(other, rows[chosen], places[chosen])
