"""Chooses the replica that each row gives up: cells of a placement are ranked, for all rows at once.

Rows depend on each other only through the brokers' limits: once earlier rows have given up enough replicas of a broker,
the broker is no longer over its limit for later rows.
"""

from typing import Final

import numpy as np

from klamm.assignment.cluster_view import BoolArray, ClusterView, Int32Array, Int64Array
from klamm.assignment.limited.quotas import rack_numbers
from klamm.assignment.ranks import rank_within

# The cell with the highest rank is dropped first; of equal ones the last in the row. On a live broker over its limit
# the rank is one higher, which never reaches the next constant. A fenced broker counts as not over its limit, because
# all its replicas rank alike, as those of unregistered brokers do.
_GONE: Final = -4
_LEADS: Final = -2
_LAST_OF_ITS_RACK: Final = 0
_RACK_HELD_TWICE: Final = 2
_NOT_LIVE: Final = 4
_PLACEHOLDER: Final = 6


class Dropping:
    """Rows that lose replicas. `kept`, bool[partitions, replicas], are the cells that are not dropped so far."""

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
        """Drop one cell of every row, row by row from the first."""
        partitions, width = self.kept.shape
        rank = self._ranks_now()
        over_until = np.where(self._excess > 0, partitions, 0)
        # `over_until` starts with the assumption that a broker stays over its limit for all rows. Each pass recomputes
        # it from the drops. The first rows are right at once and more rows with each pass, until nothing changes.
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
        """int64[brokers + 1]: for each broker the first row for which it is not over its limit, if the rows drop these
        brokers in order."""
        over_until = np.where(self._excess > 0, len(dropped), 0)
        rank = rank_within(dropped)
        last = np.flatnonzero(rank == self._excess[dropped] - 1)
        over_until[dropped[last]] = last + 1
        return over_until
