"""The partitions of a topic as columns of a response: what Metadata and DescribeTopicPartitions have in common."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.metadata.broker_set import BrokerSet
from controller.metadata.columns import ColumnTable, Ints
from controller.metadata.image import MetadataImage, Topic
from controller.metadata.live_replicas import LiveReplicas
from protocol.columns import Ragged

Lists = Ints | Ragged


class PartitionColumns(NamedTuple):
    """Columns over consecutive partitions of one topic. Views of live state where possible: encode at once."""

    partition_index: Ints
    leader_id: Ints
    leader_epoch: Ints
    replicas: Lists
    isr: Lists
    offline_replicas: Lists


def read_partitions(
    image: MetadataImage, topic: Topic, online: LiveReplicas, first: int = 0, last: int | None = None
) -> PartitionColumns:
    """Partitions `first` to `last` (exclusive) of a topic; replicas that are not `online` are offline."""
    pieces = []
    for owned, table in image.partitions.topic_ranges(topic.row):
        start = max(first - owned.first_index, 0)
        stop = owned.length if last is None else min(last - owned.first_index, owned.length)
        if start < stop:
            rows = slice(owned.first_row + start, owned.first_row + stop)
            pieces.append((table, rows))
    width = max((table.width for table, _ in pieces), default=1)
    return PartitionColumns(
        partition_index=_scalars([table.partition_index[rows] for table, rows in pieces]),
        leader_id=_scalars([table.leader[rows] for table, rows in pieces]),
        leader_epoch=_scalars([table.leader_epoch[rows] for table, rows in pieces]),
        replicas=_joined([(table.replicas[rows], table.replica_count[rows]) for table, rows in pieces], width),
        isr=_joined([(table.isr[rows], table.isr_count[rows]) for table, rows in pieces], width),
        offline_replicas=_joined([_offline(table, rows, online) for table, rows in pieces], width),
    )


def only(lists: Lists, brokers: BrokerSet) -> Lists:
    """Each list without the ids outside `brokers`, in order."""
    rows = lists.rows if isinstance(lists, Ragged) else lists
    kept = brokers.holds(rows)
    if isinstance(lists, Ragged):
        kept &= np.arange(rows.shape[1]) < np.asarray(lists.lengths)[:, None]
    return _lists(*_packed(rows, kept))


def _offline(table: ColumnTable, rows: slice, online: LiveReplicas) -> tuple[Ints, NDArray[np.integer]]:
    inside = np.arange(table.width) < table.replica_count[rows][:, None]
    return _packed(table.replicas[rows], inside & ~online.holds(table, rows))


def _packed(rows: Ints, kept: NDArray[np.bool_]) -> tuple[Ints, NDArray[np.integer]]:
    """The kept ids of each row moved to its left, in order, and how many they are."""
    counts = kept.sum(axis=1)
    if not counts.any():
        return rows, counts
    order = np.argsort(~kept, axis=1, kind="stable")
    return np.take_along_axis(rows, order, axis=1), counts


def _lists(rows: Ints, counts: NDArray[np.integer]) -> Lists:
    """Rows of one length as a plain array: that is what encodes fastest."""
    if (counts == counts[0]).all():
        return rows[:, : int(counts[0])]
    return Ragged(rows, counts)


def _scalars(pieces: list[Ints]) -> Ints:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int32)


def _joined(pieces: Sequence[tuple[Ints, NDArray[np.integer]]], width: int) -> Lists:
    if not pieces:
        return np.empty((0, 0), dtype=np.int32)
    if len(pieces) == 1:
        return _lists(*pieces[0])
    rows = np.concatenate([np.pad(rows, ((0, 0), (0, width - rows.shape[1]))) for rows, _ in pieces])
    return _lists(rows, np.concatenate([counts for _, counts in pieces]))
