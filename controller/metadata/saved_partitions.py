"""The partitions of a snapshot as records: runs of columns, and single records for partitions that have a reassignment
or eligible leader replicas."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from klamm.controller.metadata.columns import PADDING, ColumnTable
from klamm.controller.metadata.directories import has_directories
from klamm.controller.metadata.kind import SnapshotRecord
from klamm.controller.metadata.partition_table import PartitionTable, RowRange
from klamm.controller.metadata.topic import Topic
from klamm.protocol.columns import Columns, Ragged
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.uuid import Uuid

BYTES_AT_ONCE: Final = 1 << 20
"""The approximate size limit of one run of columns."""
_FEW_PARTITIONS: Final = 40  # below, one by one is as fast as columns, and gives the same bytes
_RECORD_BYTES: Final = 64  # around the parts of a record that are counted
_REPLICA_BYTES: Final = 28  # of a partition: in the replicas, the ISR and the directories


class SavedPartitions:
    """Writes the partitions of a copied table as records."""

    def __init__(self, partitions: PartitionTable) -> None:
        self._partitions = partitions
        ids = b"".join(partitions.directory_ids.ids)
        self._directories = np.frombuffer(ids, dtype=np.uint8).reshape(-1, 16)

    def records(self, topic: Topic) -> Iterator[SnapshotRecord]:
        """The partitions of a topic, by index."""
        for owned, table in self._partitions.topic_ranges(topic.row):
            yield from _range(self._partitions, topic.topic_id, owned, table, self._directories)


def partition_bytes(replica_count: int) -> int:
    """The approximate size of the record of a partition with so many replicas."""
    return _RECORD_BYTES + _REPLICA_BYTES * replica_count


def _range(
    partitions: PartitionTable, topic_id: Uuid, owned: RowRange, table: ColumnTable, directories: NDArray[np.uint8]
) -> Iterator[SnapshotRecord]:
    first, end = owned.rows.start, owned.rows.stop
    at_once = BYTES_AT_ONCE // partition_bytes(table.width) + 1
    for begin, after in pairwise((first - 1, *_sparse_rows(table, first, end), end)):
        for row in range(begin + 1, after, at_once):
            yield from _slice(partitions, topic_id, table, slice(row, min(row + at_once, after)), directories)
        if after < end:
            yield _partition_record(partitions, topic_id, table, after)


def _sparse_rows(table: ColumnTable, first: int, end: int) -> list[int]:
    found: list[int] = (np.flatnonzero(table.sparse[first:end]) + first).tolist()
    return found


def _slice(
    partitions: PartitionTable, topic_id: Uuid, table: ColumnTable, rows: slice, directories: NDArray[np.uint8]
) -> Iterator[SnapshotRecord]:
    count = rows.stop - rows.start
    if count < _FEW_PARTITIONS:
        for row in range(rows.start, rows.stop):
            yield _partition_record(partitions, topic_id, table, row)
        return
    replica_count = table.replica_count[rows]
    values = {
        "partition_id": table.partition_index[rows],
        "topic_id": topic_id,
        "replicas": Ragged(table.replicas[rows], replica_count).as_column(),
        "isr": Ragged(table.isr[rows], table.isr_count[rows]).as_column(),
        "leader": table.leader[rows],
        "leader_recovery_state": table.leader_recovery_state[rows],
        "leader_epoch": table.leader_epoch[rows],
        "partition_epoch": table.partition_epoch[rows],
    }
    # A row has padding after its replicas, which is no number of a directory.
    numbers = np.where(table.directories[rows] == PADDING, 0, table.directories[rows])
    if numbers.any():  # 0 is MIGRATING, which needs no record
        values["directories"] = Ragged(directories[numbers], replica_count).as_column()
    yield Columns(PartitionRecord, count, values)


def _partition_record(partitions: PartitionTable, topic_id: Uuid, table: ColumnTable, row: int) -> PartitionRecord:
    partition = partitions.read_row(table, row)
    return PartitionRecord(
        partition_id=int(table.partition_index[row]),
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories if has_directories(partition.directories) else (),
        # None means the same as an empty list; Kafka writes None for partitions that never had any.
        eligible_leader_replicas=partition.eligible_leader_replicas or None,
        last_known_elr=partition.last_known_elr or None,
    )
