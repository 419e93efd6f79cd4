"""Computes the quota of each broker under limits: the number of new replicas that the broker gets.

The quotas maximize the number of racks per row first, and the evenness of the brokers' loads second. A row has a broker
at most once, so a quota is at most the number of rows. A second replica in the same rack adds no rack to its row.
Therefore the racks of all rows together are at most Σ min(quota of the rack, rows), and `fill_rows` reaches this bound
for any quotas. This module finds the quotas with the largest bound, and the most even of those: brokers are filled up
to a common level (replicas held + quota), or to their capacity if that is lower.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from klamm.assignment.cluster_view import Int64Array
from klamm.assignment.kafka.rack_order import number_racks
from klamm.assignment.ranks import rank_within
from klamm.assignment.wording import counted


class BrokersToFill(NamedTuple):
    """Brokers that get quotas: parallel arrays int64[n]."""

    capacity: Int64Array
    """The largest quota of each broker."""
    held: Int64Array
    """The replicas that each broker has already."""
    rack_of: Int64Array
    """The rack number of each broker."""
    racks: int
    """The number of racks."""

    def in_racks(self, level: Int64Array) -> Int64Array:
        """int64[racks]: the replicas that each rack takes if its brokers are filled up to `level`, int64[racks]."""
        taken = self.taken(level)
        # Sums stay far below 2^53, where the weights of bincount are exact.
        return np.bincount(self.rack_of, weights=taken, minlength=self.racks).astype(np.int64)

    def taken(self, level: Int64Array) -> Int64Array:
        """int64[n]: the replicas that each broker takes if its rack is filled up to `level`, int64[racks]."""
        taken: Int64Array = np.minimum(np.maximum(level[self.rack_of] - self.held, 0), self.capacity)
        return taken


def rack_numbers(racks: Sequence[str | None]) -> Int64Array:
    """int64[n]: the number of each broker's rack, counted in the order of Java's strings.

    If any broker has no rack, racks are ignored, as in KIP-36's safe mode: every broker is a rack of its own.
    """
    if None in racks:
        return np.arange(len(racks), dtype=np.int64)
    return number_racks([rack for rack in racks if rack is not None])


def widest_quotas(
    capacity: Int64Array,
    held: Int64Array,
    rack_of: Int64Array,
    rows: int,
    replication_factor: int,
    favoured: Int64Array,
    least: Int64Array | None = None,
) -> Int64Array:
    """Quotas, int64[n], whose sum is `rows` × `replication_factor`. Each is between `least` (default 0) and `capacity`.

    Of all such quotas, these have the largest Σ over racks of min(quota of the rack, rows), and among those the most
    even held + quota. Replicas that cannot be divided evenly go to the brokers that come first in `favoured`, a
    permutation of 0..n-1. Precondition: 0 ≤ least ≤ capacity ≤ rows, and the total is between the sums of `least` and
    `capacity`. Raises ValueError if `capacity` is too small for the total, or above `rows`.
    """
    total = rows * replication_factor
    if (places := int(capacity.sum())) < total or int(capacity.max(initial=0)) > rows:
        raise ValueError(
            f"no room for {counted(total, 'replica')} in {counted(places, 'place')}, at most {rows} on a broker"
        )
    racks = int(rack_of.max(initial=-1)) + 1
    least = np.zeros_like(capacity) if least is None else least
    brokers = BrokersToFill(capacity - least, held + least, rack_of, racks)
    met = np.bincount(rack_of, weights=least, minlength=racks).astype(np.int64)
    targets = _rack_targets(brokers, np.maximum(rows - met, 0), total - int(least.sum()), favoured)
    level = _level_below(brokers, targets)
    quotas = brokers.taken(level)
    short = targets - brokers.in_racks(level)
    rising = favoured[(brokers.taken(level + 1) > quotas)[favoured]]
    quotas[rising[rank_within(rack_of[rising]) < short[rack_of[rising]]]] += 1
    return least + quotas


def _rack_targets(brokers: BrokersToFill, unmet: Int64Array, total: int, favoured: Int64Array) -> Int64Array:
    """int64[racks]: the number of replicas of each rack. `unmet`, int64[racks], is the number of rows without it."""
    rack_limit = np.minimum(_rack_capacity(brokers), unmet)
    spare = int(rack_limit.sum()) >= total
    # If the racks can take all replicas, each adding a rack to its row, no rack gets more than that. Otherwise every
    # rack gets at least that many.
    bound = np.minimum if spare else np.maximum

    def at(level: int) -> Int64Array:
        return bound(brokers.in_racks(np.full(brokers.racks, level)), rack_limit)

    low, high = int(brokers.held.min()), int((brokers.held + brokers.capacity).max())
    while low < high:
        middle = (low + high + 1) // 2
        if int(at(middle).sum()) <= total:
            low = middle
        else:
            high = middle - 1
    targets = at(low)
    left = total - int(targets.sum())
    if left:
        level = np.full(brokers.racks, low)
        rising = favoured[(brokers.taken(level + 1) > brokers.taken(level))[favoured]]
        may_rise = (at(low + 1) - targets)[brokers.rack_of[rising]]
        chosen = rising[rank_within(brokers.rack_of[rising]) < may_rise][:left]
        targets += np.bincount(brokers.rack_of[chosen], minlength=brokers.racks)
    return targets


def _level_below(brokers: BrokersToFill, targets: Int64Array) -> Int64Array:
    """int64[racks]: the highest level at which no rack takes more than its target."""
    low = np.full(brokers.racks, int(brokers.held.min()))
    high = np.full(brokers.racks, int((brokers.held + brokers.capacity).max()))
    while (low < high).any():
        middle = low + (high - low + 1) // 2
        fits = brokers.in_racks(middle) <= targets
        low = np.where(fits, middle, low)
        high = np.where(fits, high, middle - 1)
    return low


def _rack_capacity(brokers: BrokersToFill) -> Int64Array:
    return np.bincount(brokers.rack_of, weights=brokers.capacity, minlength=brokers.racks).astype(np.int64)
