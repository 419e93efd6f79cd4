"""Gives replicas to rows that lack some: a fast first step, which `augment` completes.

Every round gives at most one broker to each row. Shares per broker are as even as room and racks allow. They are
shuffled; then brokers that do not fit their row are exchanged with other rows'. Those that still do not fit are not
given.
With `new_racks` a row takes only brokers of racks that it does not have.
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
_EXCHANGES: Final = 40  # a share of those that do not fit remains after each; more do not pay


def deal_replicas(flow: RowFlow, held: Int64Array, source: RandomSource, *, new_racks: bool) -> None:
    """Give rows brokers that they lack, so that held + taken, int64[brokers], stays even. May leave rows lacking."""
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
    """int64[brokers]: how many of these rows each broker gets, at most one for each row."""
    rows = members.shape[1]
    in_rows, racks_in_rows = flow.presence(members)
    room = np.minimum(flow.room, rows - in_rows)
    brokers = BrokersToFill(room, held + flow.taken, flow.rack_of[:-1], flow.racks)
    rack_limit = np.bincount(brokers.rack_of, weights=room, minlength=flow.racks).astype(np.int64)
    if new_racks:
        rack_limit = np.minimum(rack_limit, rows - racks_in_rows)
    return even_shares(brokers, rack_limit, rows, favoured)


def even_shares(brokers: BrokersToFill, rack_limit: Int64Array, total: int, favoured: Int64Array) -> Int64Array:
    """int64[n] shares, none above its broker's capacity nor its rack's `rack_limit`: held + share as even as can be.

    They add up to `total`, or to what fits. Who is earlier in `favoured`, a permutation, gets the odd one first.
    """
    total = min(total, int(rack_limit.sum()))
    # All racks rise together; those that would run over stay at a level of their own.
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
    """int64[racks]: the highest levels that fit, those at which nothing is taken being the lowest."""
    low = np.full(brokers.racks, int(brokers.held.min(initial=_FULL)))
    high = np.full(brokers.racks, int((brokers.held + brokers.capacity).max(initial=0)))
    while (low < high).any():
        middle = low + (high - low + 1) // 2
        fit = fits(middle)
        low = np.where(fit, middle, low)
        high = np.where(fit, high, middle - 1)
    return low


class _Offers:
    """The broker that each row may get in this round, or none."""

    def __init__(self, flow: RowFlow, members: Int64Array, *, new_racks: bool) -> None:
        no_offer = flow.no_broker + 1
        self.brokers = np.full(members.shape[1], no_offer, dtype=np.int64)
        # Where no rack may come twice, no broker can; so there is one thing to compare.
        self._kind_of = np.append(flow.rack_of, flow.racks + 1) if new_racks else np.arange(no_offer + 1)
        self._kinds = self._kind_of[members]
        self._no_offer = no_offer

    def deal(self, shares: Int64Array, source: RandomSource) -> None:
        self.brokers[: int(shares.sum())] = np.repeat(np.arange(len(shares)), shares)
        self.brokers = self.brokers[np.argsort(random_words(source, len(self.brokers)), kind="stable")]

    def exchange(self, source: RandomSource) -> None:
        """Let rows whose broker does not fit change it with another row, if both brokers fit then."""
        rows = np.arange(len(self.brokers))
        unfit = self._unfit(rows)
        for turn in range(_EXCHANGES):
            if not unfit.size:
                return
            # Those that do not fit often suit each other, as halves of a swap; the last of them need others.
            among = rows if turn % 2 else unfit
            partner = among[(random_words(source, len(unfit)) % np.uint64(len(among))).astype(np.int64)]
            both = self._fits(self.brokers[partner], unfit) & self._fits(self.brokers[unfit], partner)
            one, other = _disjoint(unfit[both], partner[both])
            self.brokers[one], self.brokers[other] = self.brokers[other], self.brokers[one]
            unfit = self._unfit(unfit)

    def given(self) -> Int64Array:
        """The places of the rows whose broker fits."""
        fit = self._fits(self.brokers, slice(None)) & (self.brokers != self._no_offer)
        return np.flatnonzero(fit)

    def _unfit(self, rows: Int64Array) -> Int64Array:
        return rows[~self._fits(self.brokers[rows], rows)]

    def _fits(self, brokers: Int64Array, rows: Int64Array | slice) -> BoolArray:
        return differ(self._kinds[:, rows], self._kind_of[brokers])


def _disjoint(one: Int64Array, other: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The pairs of which neither side has come up in a pair before."""
    _, first = np.unique(np.concatenate((one, other)), return_index=True)
    new = np.zeros(2 * len(one), dtype=np.bool_)
    new[first] = True
    pairs = new[: len(one)] & new[len(one) :]
    return one[pairs], other[pairs]
