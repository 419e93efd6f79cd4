"""Counts for KIP-578's limits and KIP-409's placeholders. Replay keeps them up to date without counting again.

A test compares them with a complete count after every step of a simulation. The limits' counts exclude the two topics
that KIP-578 exempts. Placeholders of all topics are counted, because all of them have to be filled.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from klamm.controller.metadata.columns import PADDING, Ints

UNLIMITED_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
"""The topics that the limits neither count nor refuse (KIP-578 names these two and no others)."""
_FEW: Final = 64  # replicas up to which counting one by one is cheaper than an array operation


def count_by_id(replicas: Ints) -> Iterable[tuple[int, int]]:
    """How often each id occurs in a table of replicas, placeholders and padding included."""
    if replicas.size <= _FEW:
        counts: dict[int, int] = {}
        for replica in replicas.ravel().tolist():
            counts[replica] = counts.get(replica, 0) + 1
        return counts.items()
    return zip(*(found.tolist() for found in np.unique(replicas, return_counts=True)), strict=True)


class ReplicaUsage:
    """The number of replicas of each broker and the number of partitions, as far as limits count them."""

    def __init__(self) -> None:
        self.replicas: dict[int, int] = {}
        """By broker id; brokers without replicas are missing or 0."""
        self.partitions = 0
        self.placeholders = 0
        """Placeholders in all partitions of the cluster."""

    def add(self, replicas: Ints, *, limited: bool) -> None:
        """Count new partitions, int32[n, k]. `limited`: whether the limits count their topics; all rows are alike."""
        self._count(replicas, 1, limited=limited)

    def add_one(self, topic_name: str, replicas: Iterable[int]) -> None:
        """Count one new partition."""
        if topic_name not in UNLIMITED_TOPICS:
            self.partitions += 1
        self.change(topic_name, (), replicas)

    def remove(self, topic_name: str, replicas: Ints) -> None:
        """Subtract removed partitions; padding is skipped."""
        self._count(replicas, -1, limited=topic_name not in UNLIMITED_TOPICS)

    def change(self, topic_name: str, before: Iterable[int], after: Iterable[int]) -> None:
        """Count one partition whose replicas have changed."""
        limited = topic_name not in UNLIMITED_TOPICS
        for replicas, sign in ((before, -1), (after, 1)):
            for replica in replicas:
                self._count_one(replica, sign, limited=limited)

    def exchange(self, before: Ints, after: Ints, *, limited: bool) -> None:
        """Count rows of partitions whose replicas have changed. `limited`: as for `add`."""
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
