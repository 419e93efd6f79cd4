"""Rack-alternated round robin (KIP-36): the placement of Apache Kafka's AdminUtils, id for id, for whole topics.

Brokers form a ring. The leader advances by one position per partition. Followers start one position after the leader,
plus a shift that grows with each full turn of the leaders, so that no two brokers share all their partitions. With
racks, the ring alternates them, the shift counts in multiples of the number of racks, and a follower is the next broker
in a rack without a replica; once all racks have one, the next broker without a replica.
There are no limits, placeholders and random numbers here: the caller gives the start index and the shift.
"""

from functools import lru_cache
from typing import Final

import numpy as np

from klamm.assignment.cluster_view import ClusterView, Int32Array
from klamm.assignment.errors import CannotPlace, CannotPlaceReason
from klamm.assignment.kafka.few_rows import FewRing, few_ring, place_few_rows
from klamm.assignment.kafka.rack_order import IndexArray, rack_alternated_order
from klamm.assignment.kafka.ring import PlainRing, RackedRing, Ring
from klamm.assignment.placement_size import validate_size

FEW_REPLICAS: Final = 48
"""Up to this many replicas are placed one by one, which is faster than arrays (measured)."""
FEW_BROKERS: Final = 256
"""With more brokers than this, arrays are always used, because the search for a broker of a small rack is slow."""

_MAX_CHUNK_CELLS: Final = 1 << 18  # replicas placed at a time: temporaries stay near 2 MB each, in the cache
_MAX_TABLE_CELLS: Final = 1 << 14
"""The most replicas in a table of rows: 64 kB."""
_MAX_TABLES: Final = 512
_TABLE_ROWS_PER_PARTITION: Final = 16
"""A table is made if it has at most so many rows for each partition to be placed. Making it then costs less than 1 ms,
and further topics on the same brokers are copied from it in a quarter of the time (measured)."""


def place_round_robin(
    view: ClusterView,
    partitions: int,
    replication_factor: int,
    start_index: int,
    shift: int,
    first_partition: int = 0,
) -> Int32Array:
    """The brokers of `partitions` partitions, int32[partitions, replication_factor]; column 0 leads.

    The index of the first partition is `first_partition` (below 0 counts as 0). Partition p is led by the broker at
    position `start_index` + p of the ring. `shift` is the value of the shift at the first partition. Racks alternate if
    every broker has one; if none has, the ring is the view's order. Raises CannotPlace before it allocates anything,
    and ValueError for a negative start index or shift.
    """
    validate_round_robin(view, partitions, replication_factor, first_partition)
    if start_index < 0 or shift < 0:
        raise ValueError(f"start index {start_index} and shift {shift} must not be negative")
    return place_validated(view, partitions, replication_factor, start_index, shift, first_partition)


def place_validated(
    view: ClusterView, partitions: int, replication_factor: int, start_index: int, shift: int, first_partition: int
) -> Int32Array:
    """The result of `place_round_robin` for arguments that have passed its checks."""
    first_partition = max(first_partition, 0)
    if partitions * replication_factor <= FEW_REPLICAS and len(view) <= FEW_BROKERS:
        numbers = range(first_partition, first_partition + partitions)
        rows = place_few_rows(_few_ring_of(view), numbers, replication_factor, start_index, shift)
        return np.array(rows, dtype=np.int32)
    count, shape = len(view), (partitions, replication_factor)
    # The shift grows before each partition whose index is a multiple of the number of brokers, except partition 0.
    first_shift = shift % max(count - 1, 1) - max(first_partition - 1, 0) // count
    if _has_table(count, shape):
        return _copied_from_table(view, shape, start_index % count, first_shift, first_partition)
    placed = np.empty(shape, dtype=np.int32)
    rows_at_once = max(1, _MAX_CHUNK_CELLS // replication_factor)
    for begin in range(0, partitions, rows_at_once):
        end = min(begin + rows_at_once, partitions)
        partition = np.arange(first_partition + begin, first_partition + end, dtype=np.int64)
        leader = (partition + start_index % count) % count
        placed[begin:end] = _rows(view, leader, partition // count + first_shift, replication_factor)
    return placed


def _rows(view: ClusterView, leader: IndexArray, shift: IndexArray, replication_factor: int) -> Int32Array:
    """The rows with the given positions of leaders and the given shifts, both int64[rows]."""
    ring = _ring_of(view)
    ids = view.broker_ids[ring.order]
    rows = np.empty((len(leader), replication_factor), dtype=np.int32)
    rows[:, 0] = ids[leader]
    if replication_factor > 1:
        rows[:, 1:] = ids[ring.followers(leader, shift, replication_factor - 1)]
    return rows


def _has_table(brokers: int, shape: tuple[int, int]) -> bool:
    rows = brokers * (brokers - 1)
    return 0 < rows <= shape[0] * _TABLE_ROWS_PER_PARTITION and rows * shape[1] <= _MAX_TABLE_CELLS


def _copied_from_table(
    view: ClusterView, shape: tuple[int, int], start_index: int, first_shift: int, first_partition: int
) -> Int32Array:
    """The placement, in which each full turn of the leaders is copied at once. `start_index` is below the number of
    brokers."""
    partitions, replication_factor = shape
    count = len(view)
    table = _table_of(view.broker_ids.tobytes(), view.racks, replication_factor)
    turns = np.concatenate((table[:, start_index:], table[:, :start_index]), axis=1)
    first_turn, skipped = divmod(first_partition, count)
    turn = np.arange(first_turn, (first_partition + partitions - 1) // count + 1)
    placed = turns.take((turn + first_shift) % (count - 1), axis=0).reshape(-1, replication_factor)
    return placed[skipped : skipped + partitions]


@lru_cache(maxsize=_MAX_TABLES)
def _table_of(broker_ids: bytes, racks: tuple[str | None, ...], replication_factor: int) -> Int32Array:
    """int32[brokers - 1, brokers, replication_factor]: the row for each shift and each position of the leader. Shifts
    that differ by a multiple of brokers - 1 give the same rows."""
    count = len(racks)
    shift, leader = np.divmod(np.arange(count * (count - 1)), count)
    view = ClusterView(np.frombuffer(broker_ids, dtype=np.int32), racks)
    return _rows(view, leader, shift, replication_factor).reshape(count - 1, count, replication_factor)


# Views are immutable and are compared by identity. The cache halves the time for small topics on the same view. Views
# with the same brokers and racks, but other counts or limits, share a ring.
@lru_cache(maxsize=8)
def _ring_of(view: ClusterView) -> Ring:
    return PlainRing(len(view)) if view.racks[0] is None else _racked_ring(view.broker_ids.tobytes(), view.racks)


@lru_cache(maxsize=8)
def _racked_ring(broker_ids: bytes, racks: tuple[str | None, ...]) -> RackedRing:
    return RackedRing(*rack_alternated_order(ClusterView(np.frombuffer(broker_ids, dtype=np.int32), racks)))


@lru_cache(maxsize=8)
def _few_ring_of(view: ClusterView) -> FewRing:
    return few_ring(list(zip(view.broker_ids.tolist(), view.racks, strict=True)))


def validate_round_robin(view: ClusterView, partitions: int, replication_factor: int, first_partition: int = 0) -> None:
    """Raise CannotPlace as AdminUtils does, in its order and words, then above `MAX_PLACED_REPLICAS`."""
    if partitions <= 0:
        raise CannotPlace(CannotPlaceReason.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise CannotPlace(CannotPlaceReason.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    brokers = len(view)
    if replication_factor > brokers:
        raise CannotPlace(
            CannotPlaceReason.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {brokers}.",
        )
    without = view.racks.count(None)
    if 0 < without < brokers:
        raise CannotPlace(
            CannotPlaceReason.MIXED_RACKS, "Not all brokers have rack information for replica rack aware assignment."
        )
    validate_size(partitions, replication_factor, first_partition)
