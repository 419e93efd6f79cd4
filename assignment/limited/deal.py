"""Gives replicas to rows that lack some. This is a fast first step; `augment` does the rest.

Each round offers at most one broker to each row. The number of offers per broker is as even as room and racks allow.
Offers are shuffled over the rows, then offers that do not fit their row are exchanged with those of other rows. Offers
that still do not fit are dropped. With `new_racks`, a broker fits a row only if the row does not have its rack yet.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from klamm.assignment.cluster_view import BoolArray, Int64Array
from klamm.assignment.limited.quotas import BrokersToFill
from klamm.assignment.limited.row_flow import RowFlow, differ
from klamm.assignment.random_source import RandomSource, random_words
from klamm.assignment.ranks import rank_within

_FULL: Final = 1 << 62  # above every load
_EXCHANGES: Final = 40  # each leaves fewer unfit offers; further ones cost more time than `augment` needs instead


def deal_replicas(flow: RowFlow, held: Int64Array, source: RandomSource, *, new_racks: bool) -> None:
    """Give brokers to rows that lack replicas, and keep held + taken, int64[brokers], even. Some rows may still lack
    replicas afterwards."""
    favoured = np.argsort(random_words(source, len(held)), kind="stable")
    for _ in range(int(flow.lacking.max(initial=0))):
        rows = np.flatnonzero(flow.lacking)
        members = flow.members(rows)
        shares = _shares(flow, held, members, favoured, new_racks=new_racks)
        if not shares.any():
            return
        offers = _Offers(flow, members, new_racks=new_racks)
        offers.deal(shares, source)
        offers.exchange(source)
        given = offers.given()
        flow.give(rows[given], offers.brokers[given])


def _shares(
    flow: RowFlow, held: Int64Array, members: Int64Array, favoured: Int64Array, *, new_racks: bool
) -> Int64Array:
    """int64[brokers]: the number of these rows that each broker is offered to. The sum is at most one per row."""
    rows = members.shape[1]
    in_rows, racks_in_rows = flow.presence(members)
    room = np.minimum(flow.room, rows - in_rows)
    brokers = BrokersToFill(room, held + flow.taken, flow.rack_of[:-1], flow.racks)
    rack_limit = np.bincount(brokers.rack_of, weights=room, minlength=flow.racks).astype(np.int64)
    if new_racks:
        rack_limit = np.minimum(rack_limit, rows - racks_in_rows)
    return even_shares(brokers, rack_limit, rows, favoured)


def even_shares(brokers: BrokersToFill, rack_limit: Int64Array, total: int, favoured: Int64Array) -> Int64Array:
    """Shares, int64[n], with held + share as even as possible.

    No share is above its broker's capacity, and the shares of a rack are at most its `rack_limit`, int64[racks]. The
    sum is `total`, or as much as fits. Replicas that cannot be divided evenly go to the brokers that come first in
    `favoured`, a permutation.
    """
    total = min(total, int(rack_limit.sum()))
    # All racks are filled up to one level; a rack whose limit is reached earlier stays at a level of its own.
    level = _highest(brokers, lambda level: np.minimum(brokers.in_racks(level), rack_limit).sum() <= total)
    level = np.minimum(level, _highest(brokers, lambda level: brokers.in_racks(level) <= rack_limit))
    shares = brokers.taken(level)
    rising = favoured[(brokers.taken(level + 1) > shares)[favoured]]
    rising = rising[np.argsort(level[brokers.rack_of[rising]], kind="stable")]
    rack = brokers.rack_of[rising]
    rising = rising[rank_within(rack) < (rack_limit - brokers.in_racks(level))[rack]]
    shares[rising[: total - int(shares.sum())]] += 1
    return shares


def _highest(brokers: BrokersToFill, fits: Callable[[Int64Array], npt.ArrayLike]) -> Int64Array:
    """int64[racks]: the highest levels for which `fits` is true. The lowest level is that at which no broker takes any
    replica."""
    low = np.full(brokers.racks, int(brokers.held.min(initial=_FULL)))
    high = np.full(brokers.racks, int((brokers.held + brokers.capacity).max(initial=0)))
    while (low < high).any():
        middle = low + (high - low + 1) // 2
        fit = fits(middle)
        low = np.where(fit, middle, low)
        high = np.where(fit, high, middle - 1)
    return low


class _Offers:
    """The broker that is offered to each row in this round, or none."""

    def __init__(self, flow: RowFlow, members: Int64Array, *, new_racks: bool) -> None:
        no_offer = flow.no_broker + 1
        self.brokers = np.full(members.shape[1], no_offer, dtype=np.int64)
        # With `new_racks` racks are compared instead of brokers: rows without a rack twice have no broker twice.
        self._kind_of = np.append(flow.rack_of, flow.racks + 1) if new_racks else np.arange(no_offer + 1)
        self._kinds = self._kind_of[members]
        self._no_offer = no_offer

    def deal(self, shares: Int64Array, source: RandomSource) -> None:
        self.brokers[: int(shares.sum())] = np.repeat(np.arange(len(shares)), shares)
        self.brokers = self.brokers[np.argsort(random_words(source, len(self.brokers)), kind="stable")]

    def exchange(self, source: RandomSource) -> None:
        """Swap the offers of two rows where an offer does not fit its row and both offers fit after the swap."""
        rows = np.arange(len(self.brokers))
        unfit = self._unfit(rows)
        for turn in range(_EXCHANGES):
            if not unfit.size:
                return
            # Two unfit offers often fit after a swap with each other. Every second turn tries all rows instead.
            among = rows if turn % 2 else unfit
            partner = among[(random_words(source, len(unfit)) % np.uint64(len(among))).astype(np.int64)]
            both = self._fits(self.brokers[partner], unfit) & self._fits(self.brokers[unfit], partner)
            one, other = _disjoint(unfit[both], partner[both])
            self.brokers[one], self.brokers[other] = self.brokers[other], self.brokers[one]
            unfit = self._unfit(unfit)

    def given(self) -> Int64Array:
        """int64[k]: the positions of the rows whose offer fits."""
        fit = self._fits(self.brokers, slice(None)) & (self.brokers != self._no_offer)
        return np.flatnonzero(fit)

    def _unfit(self, rows: Int64Array) -> Int64Array:
        return rows[~self._fits(self.brokers[rows], rows)]

    def _fits(self, brokers: Int64Array, rows: Int64Array | slice) -> BoolArray:
        return differ(self._kinds[:, rows], self._kind_of[brokers])


def _disjoint(one: Int64Array, other: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The pairs of which neither element is in an earlier pair."""
    _, first = np.unique(np.concatenate((one, other)), return_index=True)
    new = np.zeros(2 * len(one), dtype=np.bool_)
    new[first] = True
    pairs = new[: len(one)] & new[len(one) :]
    return one[pairs], other[pairs]
