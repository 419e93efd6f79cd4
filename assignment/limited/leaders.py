"""Chooses the leader of each row, so that leaders per broker are as even as possible.

Making another broker of a row its leader costs nothing, because no replica moves. Leaders are as even as possible
exactly when no chain of such moves ends at a broker with at least two fewer leaders than the broker where it began
(optimal semi-matching: Harvey, Ladner, Lovász and Tamir, 2006). Chains of one move are found for all rows at once.
Longer chains are few and are found one by one.
"""

from collections import deque
from collections.abc import Callable
from itertools import pairwise

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
    # Placeholders become one more broker, which has so many leaders that it never gets another one.
    members = np.where(rows < 0, brokers, rows).T.copy().T  # columns are contiguous in memory, as they are read
    leader = members[:, 0].copy()
    loads = np.bincount(leader, minlength=brokers + 1)
    loads[brokers] = np.iinfo(np.int64).max // 2
    while True:
        while _even_by_single_moves(members, leader, loads):
            pass
        if not _even_by_one_chain(members, leader, loads):
            return leaders_first(rows, leader)


def _even_by_single_moves(members: Int64Array, leader: Int64Array, loads: Int64Array) -> bool:
    """Make the member with the fewest leaders the leader of its row, wherever the difference is two or more. Returns
    False if no row changed."""
    led = loads[leader]
    rows = np.flatnonzero(led >= loads.min() + 2)  # after a few turns these are few
    least = _least_loaded(members[rows], loads)
    gap = led[rows] - loads[least]
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


def _least_loaded(members: Int64Array, loads: Int64Array) -> Int64Array:
    least = members[:, 0]
    for member in members.T[1:]:
        least = np.where(loads[member] < loads[least], member, least)
    return least


def _lead(rows: Int64Array, target: Int64Array, leader: Int64Array, loads: Int64Array) -> None:
    np.subtract.at(loads, leader[rows], 1)
    np.add.at(loads, target, 1)
    leader[rows] = target


def _even_by_one_chain(members: Int64Array, leader: Int64Array, loads: Int64Array) -> bool:
    """Move leaders along one chain that ends at a broker with at least two fewer leaders than its first broker has.
    Returns False if there is no such chain."""
    real = loads[:-1]
    if real.max() - real.min() <= 1:
        return False
    by_leader = stable_order(leader)
    starts = np.searchsorted(leader[by_leader], np.arange(len(loads) + 1))

    def led_by(broker: int) -> Int64Array:
        return by_leader[starts[broker] : starts[broker + 1]]

    came_from = np.full(len(loads), -1, dtype=np.int64)
    came_from[-1] = len(loads)  # no chain goes through the placeholder
    # From the most loaded broker down: the first one that reaches another has the most to give.
    for beginning in np.argsort(-real, kind="stable").tolist():
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
            if new.size and real[beginning] - real[least := new[np.argmin(real[new])]] >= 2:
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
