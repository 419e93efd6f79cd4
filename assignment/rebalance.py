"""Makes an existing placement even again and brings it within the limits, with few moves.

The purpose is that of `kafka-reassign-partitions --generate`, but a replica moves only if its broker is gone, fenced,
not among the chosen ones, over its limit (KIP-578) or above its share, or if its row gains a rack. Shares come from
`limited.quotas`, moves from `limited.moves` and `limited.exchange`. Placeholders (KIP-409) are not changed.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from klamm.assignment.cluster_view import BoolArray, ClusterView, Int32Array, Int64Array
from klamm.assignment.errors import CannotPlace, CannotPlaceReason
from klamm.assignment.limited.exchange import (
    fill_vacant_and_even,
    move_along_chains,
    move_through_others,
    repair_racks,
    return_to_origin,
)
from klamm.assignment.limited.existing_rows import check_distinct, validated_rows
from klamm.assignment.limited.leaders import balance_leaders
from klamm.assignment.limited.moves import Cells, move_singly, vacate_repeated_racks
from klamm.assignment.limited.quotas import rack_numbers, widest_quotas
from klamm.assignment.random_source import RandomSource, Rng, random_source
from klamm.assignment.wording import counted, first_few
from klamm.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Rebalanced:
    """The new placement, and what changes compared with the old one."""

    placement: Int32Array
    """int32[partitions, replication_factor], as the argument; column 0 leads."""
    moves: int
    """The number of replicas to copy: brokers that are new in their row, summed over rows."""
    fewest_moves: int
    """A lower bound on the moves of any placement as even and with as many racks (see `_fewest_moves`)."""
    leaders_moved: int
    """Rows with another broker in column 0."""
    racks_before: int
    """Distinct racks, summed over rows, before. Only replicas on usable brokers count. If any broker has no rack, every
    broker is a rack of its own."""
    racks_after: int
    """Distinct racks, summed over rows, of the new placement."""


_MOST_HELD: Final = 1 << 62  # counts may be as large as the largest int64; this bound avoids an overflow of sums


class _UsableBrokers(NamedTuple):
    """The brokers that may hold replicas: parallel arrays of length n. Rows hold indexes into them; the index n is any
    other broker, n + 1 a placeholder."""

    broker_ids: Int32Array
    rack_of: Int64Array
    held: Int64Array
    """Replicas on the broker that are not in the placement."""
    room: Int64Array
    """The most replicas of the placement that the limit allows; at most one per row."""
    limit: int

    def racks_of(self, rows: Int64Array) -> Int64Array:
        """The rack of each cell, shaped like the rows. Cells without a usable broker have one more rack, after the
        last."""
        no_rack = int(self.rack_of.max(initial=-1)) + 1
        return np.append(self.rack_of, (no_rack, no_rack))[rows]

    def counts(self, rows: Int64Array) -> Int64Array:
        """int64[n]: the number of cells of each broker."""
        return np.bincount(rows.ravel(), minlength=len(self.held) + 2)[: len(self.held)]

    def racks(self, rows: Int64Array) -> int:
        """Distinct racks, summed over rows."""
        no_rack = int(self.rack_of.max(initial=-1)) + 1
        racks = self.racks_of(rows)
        distinct = 0
        for column in range(racks.shape[1]):
            again = (racks[:, :column] == racks[:, column, None]).any(axis=1)
            distinct += int((~again & (racks[:, column] < no_rack)).sum())
        return distinct


class _Shares(NamedTuple):
    """The number of cells that each broker is to fill, int64[n]."""

    quotas: Int64Array
    most: Int64Array
    """The most cells of each broker: its room below the limit, or what it has if it is over the limit."""
    closed: BoolArray
    """Brokers that gain nothing, because they are over their limit and may stay so."""


def rebalance(view: ClusterView, placement: Int32Array, rng: Rng, brokers: Sequence[int] | None = None) -> Rebalanced:
    """Rebalance `placement`, int32[partitions, replication_factor].

    `view.replica_counts` include the placement. `brokers` are the ids of those that may hold replicas afterwards, by
    default all; fenced ones never may. The goals, in this order: replicas are on brokers that may hold them; no broker
    is over its limit, or by as little as possible if the others have no room; rows have as many racks as possible;
    replicas per broker, including other topics', are as even as possible; moves are few; leaders are even. A broker
    that stays over its limit gains no replica. A placement that meets all goals is returned unchanged. Rows keep their
    placeholders. With placeholders, or without room below the limits, the number of racks may not be the largest.

    Raises ValueError for an invalid placement (shape, ids, a broker twice in a row), for `brokers` that the view
    does not have, and for counts lower than the placement itself has. Raises CannotPlace: INVALID_REPLICATION_FACTOR
    where a row has more replicas than there are brokers, POLICY_VIOLATION where replicas that must move find no room.
    """
    placement = _validated(placement)
    usable, before = _indexed(view, placement, view.live if brokers is None else view.live & _chosen(view, brokers))
    after = _evened(usable, before, random_source(rng)) if before.size else before
    return _rebalanced(usable, placement, before, _with_even_leaders(after, len(usable.held)))


def _evened(usable: _UsableBrokers, rows: Int64Array, source: RandomSource) -> Int64Array:
    shortcomings, better, done = _shortcomings(usable, rows), True, False
    # One pass is enough, unless limits or placeholders prevent what the shares ask for. Then further passes follow, so
    # that a second call of `rebalance` does not find an improvement that the first one missed.
    while better and not done:
        moved, done = _with_shares(usable, rows, source)
        reached = _shortcomings(usable, moved)
        better = reached < shortcomings
        if better:
            rows, shortcomings = moved, reached
    return rows


def _validated(placement: Int32Array) -> Int32Array:
    rows = validated_rows(placement)
    if not rows.shape[1]:
        raise ValueError(f"a placement has one replica in each row or more, not shape {rows.shape}")
    check_distinct(rows)
    negative = rows < 0
    in_front = np.flatnonzero((negative[:, :-1] & ~negative[:, 1:]).any(axis=1))
    if in_front.size:
        raise ValueError(f"{counted(in_front.size, 'row')} with a placeholder before a broker: {first_few(in_front)}")
    return rows


def _chosen(view: ClusterView, brokers: Sequence[int]) -> BoolArray:
    ids = np.asarray(brokers)
    if ids.ndim != 1 or not ids.size or ids.dtype.kind not in "iu":
        raise ValueError(f"the chosen brokers are one broker id or more, not {ids.dtype} of shape {ids.shape}")
    at = view.index_of(ids)
    if (at < 0).any():
        unknown = ids[at < 0]
        raise ValueError(
            f"not in the cluster: {unknown.size} of {counted(ids.size, 'chosen broker')}, {first_few(unknown)}"
        )
    if len(np.unique(at)) < len(at):
        raise ValueError(f"given more than once: {len(at) - len(np.unique(at))} of {counted(len(at), 'chosen broker')}")
    return np.bincount(at, minlength=len(view)) > 0


def _indexed(view: ClusterView, placement: Int32Array, usable: BoolArray) -> tuple[_UsableBrokers, Int64Array]:
    """The brokers that may hold replicas, and the placement in their indexes."""
    chosen = view.only(usable)
    size, partitions = len(chosen), len(placement)
    widest = int((placement >= 0).sum(axis=1).max(initial=0))
    if widest > size:
        raise CannotPlace(
            CannotPlaceReason.INVALID_REPLICATION_FACTOR,
            f"There are rows of {counted(widest, 'replica')}, but only {size} of "
            f"{counted(len(view), 'broker')} may hold any.",
        )
    at = chosen.index_of(placement)
    rows = np.where(placement < 0, size + 1, np.where(at < 0, size, at))
    own = np.bincount(rows.ravel(), minlength=size + 2)[:size]
    held = chosen.replica_counts - own
    short = np.flatnonzero(held < 0)
    if short.size:
        raise ValueError(
            f"{counted(short.size, 'broker')} with fewer replicas by the view's counts than in the placement alone: "
            f"{first_few(chosen.broker_ids[short])}"
        )
    room = np.clip(view.replica_limit - held, 0, partitions)
    return _UsableBrokers(chosen.broker_ids, rack_numbers(chosen.racks), held, room, view.replica_limit), rows


def _with_shares(usable: _UsableBrokers, rows: Int64Array, source: RandomSource) -> tuple[Int64Array, bool]:
    """The rows after moves towards the brokers' shares, and whether they meet the shares and have the most racks."""
    shares = _shares(usable, rows)
    cells = Cells(rows, usable.rack_of, shares.quotas, shares.closed)
    placed = _move(usable, cells, shares.most, source)
    if not placed and not shares.closed.any():
        # Rows of unequal width may need more replicas on a broker than its room. Then brokers over the limit may keep
        # what they have.
        counts = usable.counts(rows)
        cells = Cells(rows, usable.rack_of, shares.quotas, counts > usable.room)
        placed = _move(usable, cells, np.maximum(counts, usable.room), source)
    if not placed:
        raise _no_room(usable, rows, f"no moves bring {int((cells.now == cells.vacant).sum())} of them there")
    in_rack = np.bincount(usable.rack_of, weights=shares.quotas).astype(np.int64)
    widest = int(np.minimum(in_rack, len(rows)).sum())
    return cells.now, not cells.missing.any() and usable.racks(cells.now) == widest


def _move(usable: _UsableBrokers, cells: Cells, most: Int64Array, source: RandomSource) -> bool:
    """Make all kinds of moves, the cheapest first. Returns False if a replica finds no broker."""
    vacate_repeated_racks(cells)
    move_singly(cells, source)
    move_through_others(cells, source)
    move_along_chains(cells, fitting=True)
    return_to_origin(cells)
    move_along_chains(cells, fitting=False)
    if cells.missing.any() and not fill_vacant_and_even(cells, usable.held, most):
        return False
    repair_racks(cells)
    return True


def _shares(usable: _UsableBrokers, rows: Int64Array) -> _Shares:
    size, counts = len(usable.held), usable.counts(rows)
    # Brokers with more replicas come first, so that replicas that cannot be divided evenly stay where they are.
    favoured = np.argsort(-(usable.held + counts), kind="stable")
    room, most, closed = usable.room, usable.room, np.zeros(size, dtype=np.bool_)
    above = int((rows <= size).sum()) - int(room.sum())
    if above > 0:
        closed = counts > room
        kept = np.minimum(np.maximum(counts - room, 0), above)
        if int(kept.sum()) < above:
            but = f"these have room for {int(room.sum())} and may keep {int(kept.sum())} above the limit"
            raise _no_room(usable, rows, but)
        most = np.maximum(counts, room)
        # Brokers over the limit are reduced to one common level, as far as the others have room.
        room = room + widest_quotas(kept, usable.held + room, np.arange(size), above, 1, favoured)
    # Placeholders count as replicas of additional brokers, each in a rack of its own, which are filled completely and
    # first.
    in_row = (rows == size + 1).sum(axis=1)
    standing_in = np.array([int((in_row > nth).sum()) for nth in range(int(in_row.max()))], dtype=np.int64)
    numbers = np.arange(len(standing_in))
    quotas = widest_quotas(
        np.append(room, standing_in),
        np.append(np.minimum(usable.held, _MOST_HELD), -standing_in),
        np.append(usable.rack_of, int(usable.rack_of.max(initial=-1)) + 1 + numbers),
        len(rows),
        rows.shape[1],
        np.append(size + numbers, favoured),
    )
    return _Shares(quotas[:size], most, closed)


def _no_room(usable: _UsableBrokers, rows: Int64Array, but: str) -> CannotPlace:
    size = len(usable.held)
    return CannotPlace(
        CannotPlaceReason.POLICY_VIOLATION,
        f"{counted(int((rows <= size).sum()), 'replica')} of {counted(len(rows), 'partition')}, "
        f"{int((rows == size).sum())} of them on brokers that may hold none, would have to be on "
        f"{counted(size, 'broker')} (max.broker.partitions={usable.limit}), but {but}.",
    )


def _shortcomings(usable: _UsableBrokers, rows: Int64Array) -> tuple[int, int, int, list[int]]:
    """The quantities that `rebalance` minimizes, in this order: replicas that must move, replicas above limits, minus
    the racks, and the loads in descending order."""
    counts = usable.counts(rows)
    above = int(np.maximum(counts - usable.room, 0).sum())
    # The sum of the loads is constant, so a lexicographically smaller list is more even.
    loads = np.sort(usable.held + counts)[::-1].tolist()
    return int((rows == len(usable.held)).sum()), above, -usable.racks(rows), loads


def _with_even_leaders(rows: Int64Array, size: int) -> Int64Array:
    balanced = balance_leaders(np.where(rows > size, -1, rows), size)
    return np.where(balanced < 0, size + 1, balanced)


def _rebalanced(usable: _UsableBrokers, placement: Int32Array, before: Int64Array, after: Int64Array) -> Rebalanced:
    size = len(usable.held)
    moved = after < size
    for column in before.T:
        moved &= after != column[:, None]
    ids = np.append(usable.broker_ids, (-1, -1))[after]
    result = np.where(after > size, placement, ids).astype(np.int32)
    racks_before, racks_after = usable.racks(before), usable.racks(after)
    return Rebalanced(
        placement=result,
        moves=int(moved.sum()),
        fewest_moves=_fewest_moves(usable, before, usable.counts(after), racks_after - racks_before),
        leaders_moved=int((result[:, 0] != placement[:, 0]).sum()),
        racks_before=racks_before,
        racks_after=racks_after,
    )


def _fewest_moves(usable: _UsableBrokers, before: Int64Array, counts_after: Int64Array, gained: int) -> int:
    """A lower bound of the moves to any placement with as many racks and the same loads, in any order of the brokers.

    Loads: a broker whose load goes from a down to b gives up at least a - b replicas. Each of them is a move, and so is
    each replica that was not on a usable broker. Of all ways to assign the new loads to brokers, Σ max(0, a - b) is
    least if both are sorted alike, because it is convex in a - b.
    Racks: a move adds at most one rack to its row, and none if the leaving replica was the only one in its rack. Only
    replicas that were not on a usable broker can add a rack without such a loss. If all replicas of a repeated rack in
    a row are on brokers whose load does not go down, a move for the sake of the rack is not among the moves for loads,
    so it is counted in addition.
    """
    size = len(usable.held)
    loads, sinks_to = usable.held + usable.counts(before), np.sort(usable.held + counts_after)
    nowhere = int((before == size).sum())
    for_loads = nowhere + int(np.maximum(np.sort(loads) - sinks_to, 0).sum())
    may_sink = np.append(loads > sinks_to[:1], (False, False))[before]
    racks = usable.racks_of(before)
    freed = 0
    for column in range(1, before.shape[1]):
        same = (racks == racks[:, column, None]) & (before < size)
        freed += int((same[:, :column].any(axis=1) & (same & may_sink).any(axis=1)).sum())
    return max(for_loads + max(gained - nowhere - freed, 0), gained)
