"""Augmenting paths: replicas for rows when no broker with room fits directly, and evenness afterwards.

A row that lacks a replica takes a broker without room; some row that was given this broker takes another in its
place, and so on to a broker with room. Paths are searched over brokers, not over rows: many rows stand behind each
step, and as many units as they and the room allow move at once.
The paths taken are the cheapest there are (successive shortest paths; Ahuja, Magnanti and Orlin, Network Flows),
and of those the shortest. So the flow stays one of least cost for its size, and no cycle of steps has a cost below 0:
everything here relies on that and keeps it.
"""

from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from klamm.assignment.cluster_view import BoolArray, Int64Array
from klamm.assignment.limited.row_flow import IMPOSSIBLE, RowFlow

_ROWS: Final = -1  # what comes before the first broker of a path that begins in rows
_MAX_FAILED_PUSHES: Final = 8  # then it is time to search again


def fill_lacking(flow: RowFlow, max_cost: int = IMPOSSIBLE - 1) -> None:
    """Give rows what they lack, as long as there is a path that costs at most `max_cost`.

    Where rows still lack replicas after a call without `max_cost`, no assignment gives them all.
    """
    least = -1  # what the cheapest path costs never falls from one search to the next
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
    """Make held + taken, int64[brokers], as even as it can be at no cost: the sum of its squares becomes least.

    Rows keep how many replicas they were given. Precondition: `fill_lacking` has found all paths.
    """
    # It is least when no level has a path from above it to below it. Moves that stop at their level open no path
    # across one that was done before, so each level is done once; between two loads one level stands for all.
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
    """Move replicas from brokers above the level to others below it, none beyond it; whether there were any."""
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
    """The cheapest ways to brokers: parallel arrays int64[brokers]."""

    cost: Int64Array
    came_from: Int64Array
    """The broker before each, -1 where a path begins."""

    def to(self, broker: int) -> list[int]:
        path = [broker]
        while (before := int(self.came_from[path[-1]])) >= 0:
            path.append(before)
        return path[::-1]


def _search(flow: RowFlow, start: Int64Array, targets: BoolArray, least: int) -> _Paths:
    """The cheapest paths that begin at brokers at the cost `start`, the shortest of them; IMPOSSIBLE where none exists.

    Ends early when a target is reached at the cost `least`, below which none can be: then only the paths to such
    targets are final.
    """
    cost = start.copy()
    came_from = np.full(flow.no_broker, -1, dtype=np.int64)
    reached = np.flatnonzero(cost < IMPOSSIBLE)
    places = np.arange(flow.no_broker)
    while reached.size and not (cost[targets] <= least).any():
        # All steps of one length at once: what is found later is longer, so it must be cheaper to count. Of equally
        # cheap ways, each broker takes the one that is its turn, so that paths share as little as they can.
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
    """Rows that are given a broker: in the stead of others in these places, or as one more."""

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
    """Moves along the paths of one search, which may be taken together: all cost the least.

    Two steps of a path may be in the same row, but never touch the same rack or the row's own balance: the path would
    be shorter without what lies between them. This holds for the flow that was searched, so a row that one path has
    changed is left alone by the others.
    """

    def __init__(self, flow: RowFlow, paths: _Paths) -> None:
        self.failed_pushes = 0
        """How many of the last pushes found no rows for their path."""
        self._flow = flow
        self._paths = paths
        self._untouched = np.ones(len(flow.lacking), dtype=np.bool_)

    def push(self, end: int, units: int, *, from_rows: bool) -> None:
        """Move up to so many units along the path to `end`. The first call after a search moves one at least."""
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
