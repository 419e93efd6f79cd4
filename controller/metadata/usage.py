"""What counts against KIP-578's limits, and the placeholders of KIP-409: kept up to date by replay, never recounted.

A test compares them with a recount after every step of a simulation. The two topics that KIP-578 names are left out
of the limits' counts; placeholders are counted wherever they are, because somebody has to fill them.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np

from klamm.controller.metadata.columns import PADDING, Ints

UNLIMITED_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
"""The topics that the limits neither count nor refuse (KIP-578 names these two and no others)."""
_FEW: Final = 64  # replicas up to which counting one by one is cheaper than an array operation


def count_by_id(replicas: Ints) -> Iterable[tuple[int, int]]:
    """How often each id stands in a table of replicas, placeholders and padding included."""
    if replicas.size <= _FEW:
        return Counter(replicas.ravel().tolist()).items()
    return zip(*(found.tolist() for found in np.unique(replicas, return_counts=True)), strict=True)


class ReplicaUsage:
    """How many replicas each broker holds and how many partitions there are, as far as limits count them."""

    def __init__(self) -> None:
        self.replicas: dict[int, int] = {}
        """By broker id; brokers without replicas are missing or 0."""
        self.partitions = 0
        self.placeholders = 0
        """Placeholders in all partitions of the cluster."""

    def add(self, replicas: Ints, *, limited: bool) -> None:
        """New partitions, int32[n, k], all of topics that the limits count, or of none such."""
        self._count(replicas, 1, limited=limited)

    def add_one(self, topic_name: str, replicas: Iterable[int]) -> None:
        """One new partition."""
        if topic_name not in UNLIMITED_TOPICS:
            self.partitions += 1
        self.change(topic_name, (), replicas)

    def remove(self, topic_name: str, replicas: Ints) -> None:
        """Partitions that are gone; padding is passed over."""
        self._count(replicas, -1, limited=topic_name not in UNLIMITED_TOPICS)

    def change(self, topic_name: str, before: Iterable[int], after: Iterable[int]) -> None:
        """One partition whose replicas are others now."""
        limited = topic_name not in UNLIMITED_TOPICS
        for replicas, sign in ((before, -1), (after, 1)):
            for replica in replicas:
                self._count_one(replica, sign, limited=limited)

    def exchange(self, before: Ints, after: Ints, *, limited: bool) -> None:
        """Rows of partitions whose replicas are others now, all of topics that the limits count, or of none such."""
        for replicas, sign in ((before, -1), (after, 1)):
            for replica, times in count_by_id(replicas):
                self._count_one(replica, sign * times, limited=limited)

    def _count(self, replicas: Ints, sign: int, *, limited: bool) -> None:
        if limited:
            self.partitions += sign * len(replicas)
        for replica, times in count_by_id(replicas):
            self._count_one(replica, sign * times, limited=limited)

    def _count_one(self, replica: int, amount: int, *, limited: bool) -> None:
        if replica >= 0:
            if limited:
                self.replicas[replica] = self.replicas.get(replica, 0) + amount
        elif replica != PADDING:
            self.placeholders += amount
