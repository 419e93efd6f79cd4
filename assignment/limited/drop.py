"""Which replica a row gives up: an order of preference over the cells of a placement, for all rows at once.

The only thing that rows have to do with each other is how far brokers are over their limit: a broker that earlier
rows have brought back under it is a broker like any other for later ones. Nothing moves, nothing is added.
"""

from typing import Final

import numpy as np

from klamm.assignment.cluster_view import BoolArray, ClusterView, Int32Array, Int64Array
from klamm.assignment.limited.quotas import rack_numbers
from klamm.assignment.ranks import rank_within

# The higher goes first; cells of equal rank go from the end of the row. Being on a live broker over its limit raises a
# cell's rank by one, which is never enough for the next reason. A fenced broker counts as not over its limit: its
# replicas are all as dispensable as those of brokers that are gone.
_GONE: Final = -4
_LEADS: Final = -2
_LAST_OF_ITS_RACK: Final = 0
_RACK_HELD_TWICE: Final = 2
_NOT_LIVE: Final = 4
_PLACEHOLDER: Final = 6


class Dropping:
    """Rows that lose replicas: which cells, bool[partitions, replicas], are `kept` so far."""

    def __init__(self, view: ClusterView, rows: Int32Array, leading: BoolArray) -> None:
        self.kept: Final[BoolArray] = np.ones(rows.shape, dtype=np.bool_)
        index = view.index_of(rows)
        self._broker = np.where(index < 0, len(view), index)
        self._rack = np.append(rack_numbers(view.racks), -1)[self._broker]
        self._rank = np.where(np.append(view.fenced, True)[self._broker], _NOT_LIVE, _LAST_OF_ITS_RACK)
        self._rank[rows < 0] = _PLACEHOLDER
        self._rank[leading] = _LEADS
        self._excess = np.append(np.where(view.fenced, 0, view.replica_counts - view.replica_limit), 0)

    def drop_one_of_each(self) -> None:
        """Let every row, in its order, give up one cell."""
        partitions, width = self.kept.shape
        rank = self._ranks_now()
        over_until = np.where(self._excess > 0, partitions, 0)
        # Believing brokers to be over their limit for longer than they are only makes them seem so for longer: every
        # pass brings the rows where they stop being so closer to the truth, and the first ones are right at once.
        while True:
            over = np.arange(partitions)[:, None] < over_until[self._broker]
            column = width - 1 - np.argmax((rank + over)[:, ::-1], axis=1)
            dropped = self._broker[np.arange(partitions), column]
            known, over_until = over_until, self._over_until(dropped)
            if (known == over_until).all():
                break
        self.kept[np.arange(partitions), column] = False
        self._rank[np.arange(partitions), column] = _GONE
        self._excess -= np.bincount(dropped, minlength=len(self._excess))

    def _ranks_now(self) -> Int64Array:
        rank = self._rank.copy()
        for one in range(rank.shape[1]):
            for other in range(rank.shape[1]):
                if one != other:
                    same = (self._rack[:, one] == self._rack[:, other]) & self.kept[:, other]
                    rank[same & (rank[:, one] == _LAST_OF_ITS_RACK), one] = _RACK_HELD_TWICE
        return rank

    def _over_until(self, dropped: Int64Array) -> Int64Array:
        """int64[brokers + 1]: the first row for which each broker is not over its limit, if these go in order."""
        over_until = np.where(self._excess > 0, len(dropped), 0)
        rank = rank_within(dropped)
        last = np.flatnonzero(rank == self._excess[dropped] - 1)
        over_until[dropped[last]] = last + 1
        return over_until
