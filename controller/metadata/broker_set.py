"""A set of broker ids, to test whole arrays of ids for membership."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from klamm.controller.metadata.columns import Ints, among

# Up to this id, membership is one look-up in a table of bools; higher ids need a search.
MAX_TABLE_ID = 1 << 20


class BrokerSet:
    """Broker ids, ascending, with membership for whole arrays. Placeholders and padding are never members."""

    __slots__ = ("_last", "_members", "_table", "ids")

    def __init__(self, broker_ids: Iterable[int]) -> None:
        self.ids: Ints = np.array(sorted(broker_ids), dtype=np.int32)
        self._members = frozenset(self.ids.tolist())
        self._table: NDArray[np.bool_] | None = None
        largest = int(self.ids[-1]) if len(self.ids) else -1
        if largest <= MAX_TABLE_ID:
            self._table = np.zeros(largest + 2, dtype=np.bool_)
            self._table[self.ids] = True
            # An id below 0 is a huge number if read as unsigned. It and every id above the largest read this last
            # entry, False.
            self._last = np.uint32(largest + 1)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, broker_id: object) -> bool:
        return broker_id in self._members

    def without(self, *broker_ids: int) -> "BrokerSet":
        return BrokerSet(self._members.difference(broker_ids))

    def holds(self, ids: Ints) -> NDArray[np.bool_]:
        """For each id of an array of any shape, whether it is a member."""
        if self._table is None:
            return among(ids, self.ids)
        found: NDArray[np.bool_] = self._table[np.minimum(np.ascontiguousarray(ids).view(np.uint32), self._last)]
        return found
