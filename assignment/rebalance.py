"""Makes an existing placement even again and brings it within the limits, with few moves.

This is for the same purpose as `kafka-reassign-partitions --generate`. But a replica moves only if its broker is gone,
fenced, not among the chosen ones, over its limit (KIP-578) or above its share, or if its row gains a rack. Shares come
from `limited.quotas`, moves from `limited.moves` and `limited.exchange`. Placeholders (KIP-409) are not changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
    """Distinct racks, summed over rows, of the replicas that were on brokers which may hold some. Where a broker has no
    rack, every broker counts as one."""
    racks_after: int
    """Distinct racks, summed over rows, of the placement."""


_MOST_HELD: Final = 1 << 62  # counts may be as large as the largest int64, and are added to here


class _UsableBrokers(NamedTuple):
    """Those that may hold replicas: parallel arrays of length n. Rows hold indexes into them; n is any other broker,
    n + 1 a placeholder."""

    broker_ids: Int32Array
    rack_of: Int64Array
    held: Int64Array
    """Replicas that are not in the placement."""
    room: Int64Array
    """Most replicas of the placement that the limit allows, one in each row."""
    limit: int

    def racks_of(self, rows: Int64Array) -> Int64Array:
        """The rack of each cell, shaped like the rows; what is none of these brokers is in a rack behind the last."""
        no_rack = int(self.rack_of.max(initial=-1)) + 1
        return np.append(self.rack_of, (no_rack, no_rack))[rows]

    def counts(self, rows: Int64Array) -> Int64Array:
        """int64[n]: cells that each broker fills."""
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
    """How many cells each broker shall fill, int64[n]."""

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
    # One pass does it, unless limits or placeholders keep rows from what the shares ask for: then the result is looked
    # at again, so that a second call finds nothing that the first has not.
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
            f"not in the view: {unknown.size} of {counted(ids.size, 'chosen broker')}, {first_few(unknown)}"
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
    """The rows moved towards the brokers' shares, and whether nothing is left to be wished for."""
    shares = _shares(usable, rows)
    cells = Cells(rows, usable.rack_of, shares.quotas, shares.closed)
    placed = _move(usable, cells, shares.most, source)
    if not placed and not shares.closed.any():
        # Rows of unequal width may need more of a broker than its room: then those over the limit keep what they must.
        counts = usable.counts(rows)
        cells = Cells(rows, usable.rack_of, shares.quotas, counts > usable.room)
        placed = _move(usable, cells, np.maximum(counts, usable.room), source)
    if not placed:
        raise _no_room(usable, rows, f"there is no way there for {int((cells.now == cells.vacant).sum())} of them")
    in_rack = np.bincount(usable.rack_of, weights=shares.quotas).astype(np.int64)
    widest = int(np.minimum(in_rack, len(rows)).sum())
    return cells.now, not cells.missing.any() and usable.racks(cells.now) == widest


def _move(usable: _UsableBrokers, cells: Cells, most: Int64Array, source: RandomSource) -> bool:
    """All kinds of moves, the cheapest first; False if a replica finds no place."""
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
    # Earlier in it stand those who have more: an odd replica stays where it is.
    favoured = np.argsort(-(usable.held + counts), kind="stable")
    room, most, closed = usable.room, usable.room, np.zeros(size, dtype=np.bool_)
    above = int((rows <= size).sum()) - int(room.sum())
    if above > 0:
        closed = counts > room
        kept = np.minimum(np.maximum(counts - room, 0), above)
        if int(kept.sum()) < above:
            raise _no_room(usable, rows, f"these have room for {int(room.sum())}, and keep {int(kept.sum())} above it")
        most = np.maximum(counts, room)
        # Those over the limit come down to one level, as far as the others have room.
        room = room + widest_quotas(kept, usable.held + room, np.arange(size), above, 1, favoured)
    # Placeholders become replicas of brokers in racks of their own, who are filled first and to the rack_limit.
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
    """What is to become less, the weightiest first: replicas without a place, above limits, racks, unevenness."""
    counts = usable.counts(rows)
    above = int(np.maximum(counts - usable.room, 0).sum())
    # The same replicas on as many brokers: lists that descend later are more even.
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
    """A bound from below on the moves to any placement with the same loads, whoever bears them, and as many racks.

    Loads: a broker that sinks from load a to load b gives up a - b replicas or more; each of them is a move, and so is
    each replica that was on no broker of ours. Of all ways to hand out the loads after, Σ max(0, a - b) is least where
    both are sorted alike, since it is convex in a - b.
    Racks: a move gains its row a rack at most, and none if the replica that leaves was alone in its rack; only filling
    the place of one that was nowhere gains one for nothing. Where every replica of a rack in a row is on brokers that
    are below all loads after, it is no broker's sinking that makes one leave: what racks need of these comes on top.
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
