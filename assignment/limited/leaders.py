"""Chooses the leader of each row, so that leaders per broker are as even as possible.

Making another broker of a row its leader costs nothing, because no replica moves. Leaders are as even as possible
exactly when no chain of such moves ends at a broker with at least two fewer leaders than the broker where it began
(optimal semi-matching: Harvey, Ladner, Lovász and Tamir, 2006). Chains of one move are found for all rows at once.
Longer chains are few and are found one by one.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from klamm.assignment.cluster_view import Int64Array
from klamm.assignment.ranks import rank_within, stable_order


def balance_leaders(rows: Int64Array, brokers: int) -> Int64Array:
    """The same rows, int64[partitions, replication_factor], each with the broker that leads it in column 0.

    Rows hold indexes 0 to `brokers` - 1, and -1 for placeholders, which never lead. The order of the other replicas of
    a row is kept. The largest number of leaders on a broker is as small, and the smallest as large, as possible.
    """
    if not rows.size:
        return rows
    (balanced,) = balance_leaders_together([rows], [brokers])
    return balanced


def balance_leaders_together(clusters: Sequence[Int64Array], sizes: Sequence[int]) -> list[Int64Array]:
    """The result of `balance_leaders` for the rows of each of several clusters with these numbers of brokers. All rows
    have the same width, and no cluster is without rows."""
    # The brokers of all clusters are numbered one after the other. Placeholders become one more broker, which has so
    # many leaders that it never gets another one.
    width, brokers = clusters[0].shape[1], sum(sizes)
    ends = np.cumsum([len(rows) for rows in clusters])
    members = np.empty((width, int(ends[-1])), dtype=np.int64).T  # columns are contiguous in memory, as they are read
    first, begin, parts = 0, 0, []
    for rows, size, end in zip(clusters, sizes, ends.tolist(), strict=True):
        np.copyto(members[begin:end], np.where(rows < 0, brokers, rows + first))
        parts.append(_Part(slice(begin, end), slice(first, first + size)))
        first, begin = first + size, end
    leader = members[:, 0].copy()
    loads = np.bincount(leader, minlength=brokers + 1)
    loads[brokers] = np.iinfo(np.int64).max // 2
    _even_by_moves(members, leader, loads, parts)
    for part in parts:
        while _even_by_one_chain(members, leader, loads, part):
            _even_by_moves(members[part.rows], leader[part.rows], loads, [part])
    return [
        leaders_first(rows, leader[part.rows] - part.brokers.start) for rows, part in zip(clusters, parts, strict=True)
    ]


class _Part(NamedTuple):
    """One of several clusters."""

    rows: slice
    brokers: slice


def _even_by_moves(members: Int64Array, leader: Int64Array, loads: Int64Array, parts: Sequence[_Part]) -> None:
    """Move leaders within rows until no such move makes the leaders more even. The rows are those of `parts`."""
    while _even_by_single_moves(members, leader, loads, parts):
        pass


def _even_by_single_moves(members: Int64Array, leader: Int64Array, loads: Int64Array, parts: Sequence[_Part]) -> bool:
    """Make the member with the fewest leaders the leader of its row, wherever the difference is two or more. Returns
    False if no row changed."""
    crowded = np.ones(len(loads), dtype=np.bool_)  # the placeholder always gives a row up
    for _, brokers in parts:
        np.greater_equal(loads[brokers], loads[brokers].min() + 2, out=crowded[brokers])
    rows = np.flatnonzero(crowded.take(leader))  # after a few turns these are few
    least, fewest = _least_loaded(rows, members, loads)
    gap = loads.take(leader.take(rows)) - fewest
    pays = gap >= 2
    if not pays.any():
        return False
    rows, least, gap = rows[pays], least[pays], gap[pays]
    # Only moves that still pay after all earlier moves from the same broker and to the same broker.
    order = stable_order(gap.max() - gap)
    rows, target = rows[order], least[order]
    source = leader[rows]
    pays = loads[source] - rank_within(source) - (loads[target] + rank_within(target)) >= 2
    _lead(rows[pays], target[pays], leader, loads)
    return True


def _least_loaded(rows: Int64Array, members: Int64Array, loads: Int64Array) -> tuple[Int64Array, Int64Array]:
    """int64[rows] twice: the first member with the fewest leaders in each of the rows, and this number."""
    least = members[:, 0].take(rows)
    fewest = loads.take(least)
    for column in members.T[1:]:
        member = column.take(rows)
        number = loads.take(member)
        fewer = number < fewest
        least, fewest = np.where(fewer, member, least), np.where(fewer, number, fewest)
    return least, fewest


def _lead(rows: Int64Array, target: Int64Array, leader: Int64Array, loads: Int64Array) -> None:
    np.subtract.at(loads, leader[rows], 1)
    np.add.at(loads, target, 1)
    leader[rows] = target


def _even_by_one_chain(members: Int64Array, leader: Int64Array, loads: Int64Array, part: _Part) -> bool:
    """Move leaders of one cluster along one chain that ends at a broker with at least two fewer leaders than its first
    broker has. Returns False if there is no such chain."""
    real = loads[part.brokers]
    if real.max() - real.min() <= 1:
        return False
    first = part.brokers.start
    by_leader: Int64Array = part.rows.start + stable_order(leader[part.rows] - first)
    starts = np.searchsorted(leader[by_leader], np.arange(first, part.brokers.stop + 1))

    def led_by(broker: int) -> Int64Array:
        return by_leader[starts[broker - first] : starts[broker - first + 1]]

    came_from = np.full(len(loads), -1, dtype=np.int64)
    came_from[-1] = len(loads)  # no chain goes through the placeholder
    # From the most loaded broker down: the first one that reaches another has the most to give.
    for beginning in (first + np.argsort(-real, kind="stable")).tolist():
        if came_from[beginning] >= 0:
            continue
        came_from[beginning] = beginning
        waiting = deque([beginning])
        while waiting:
            broker = waiting.popleft()
            met = np.zeros(len(loads), dtype=np.bool_)
            met[members[led_by(broker)]] = True
            new = np.flatnonzero(met & (came_from < 0))
            came_from[new] = broker
            if new.size and loads[beginning] - loads[least := new[np.argmin(loads[new])]] >= 2:
                _move_along(_chain(came_from, int(least)), members, leader, loads, led_by)
                return True
            waiting += new.tolist()
    return False


def _chain(came_from: Int64Array, end: int) -> list[int]:
    chain = [end]
    while came_from[chain[-1]] != chain[-1]:
        chain.append(int(came_from[chain[-1]]))
    return chain[::-1]


def _move_along(
    chain: list[int],
    members: Int64Array,
    leader: Int64Array,
    loads: Int64Array,
    led_by: Callable[[int], Int64Array],
) -> None:
    """Move leaders along the chain: as many as every step has rows for, and at most half the difference of the loads
    at its ends."""
    steps = [led_by(giver)[(members[led_by(giver)] == taker).any(axis=1)] for giver, taker in pairwise(chain)]
    amount = min(int(loads[chain[0]] - loads[chain[-1]]) // 2, *(len(step) for step in steps))
    for step, taker in zip(steps, chain[1:], strict=True):
        _lead(step[:amount], np.full(amount, taker), leader, loads)


def leaders_first(rows: Int64Array, leader: Int64Array) -> Int64Array:
    """The same rows, each with its `leader`, int64[rows], in column 0, followed by the others in their order."""
    ordered = rows.copy()
    column = np.argmax(rows == leader[:, None], axis=1)
    for at in range(1, rows.shape[1]):
        moved = np.flatnonzero(column == at)
        ordered[moved, 0] = rows[moved, at]
        ordered[moved, 1 : at + 1] = rows[moved, :at]
    return ordered
