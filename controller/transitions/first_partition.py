"""Which partition says how many replicas the new partitions of a topic get.

KIP-195 speaks of the topic's replication factor, as if all partitions had one. Apache Kafka's controller takes the
first partition of a hash table, which is often not partition 0; so does the profile `kafka`. That matters only if the
partitions of the topic have different numbers of replicas, as during a reassignment.
"""

from typing import Final

import numpy as np

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.topic import Topic

_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: the table spreads consecutive numbers with it."""
_SMALLEST_TABLE: Final = 2
_LARGEST_LOAD: Final = 0.75


def replication_factor_of(image: MetadataImage, topic: Topic, *, like_kafka: bool) -> int:
    """The number of replicas of new partitions, which includes replicas that a reassignment is adding."""
    first = len(image.partitions.read(topic.row, 0).replicas)
    if not like_kafka:
        return first
    ranges = image.partitions.topic_ranges(topic.row)
    if all((table.replica_count[owned.rows] == first).all() for owned, table in ranges):
        return first
    count_at_change = image.topics.counts_at_change.get(topic.row, 0)
    found = first_partition(image.partition_count(topic), count_at_change)
    return len(image.partitions.read(topic.row, found).replicas)


def first_partition(count: int, count_at_change: int = 0) -> int:
    """The index of the partition that Apache Kafka finds first among `count`: the last one of the first slot, which has
    those whose product with the multiplier begins with zeros.

    The table has room for one partition more than the `count_at_change` that the topic had when a partition of it last
    changed, because Apache Kafka makes room before it finds that the partition is in the table already."""
    most = max(count, count_at_change + 1 if count_at_change else 0)
    slots = _SMALLEST_TABLE
    while most * _LARGEST_LOAD > slots:
        slots *= 2
    shift = np.uint64(65 - slots.bit_length())
    in_first_slot = (np.arange(count, dtype=np.uint64) * _MULTIPLIER) >> shift == 0
    return int(np.flatnonzero(in_first_slot)[-1])
