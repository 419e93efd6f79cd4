"""Partitions of topics as columns of a response: what Metadata and DescribeTopicPartitions have in common.

Rows of many topics are gathered together, whatever tables they lie in, so that the cost is per table and not per
topic. Where they lie in one piece, the columns are views of live state: encode at once.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.metadata.broker_set import BrokerSet
from controller.metadata.columns import PADDING, ColumnTable, Ints, packed
from controller.metadata.image import MetadataImage, Topic
from controller.metadata.live_replicas import LiveReplicas
from protocol.columns import Ragged

Lists = Ints | Ragged
Counts = NDArray[np.integer]
Rows = NDArray[np.int64] | slice


class Span(NamedTuple):
    """Partitions `first` to before `last` of a topic; all behind `first` if `last` is None."""

    topic: Topic
    first: int = 0
    last: int | None = None


class PartitionColumns(NamedTuple):
    """Columns over the partitions of some spans, one span behind the other."""

    partition_index: Ints
    leader_id: Ints
    leader_epoch: Ints
    replicas: Lists
    isr: Lists
    offline_replicas: Lists


class _Piece(NamedTuple):
    table: ColumnTable
    rows: Rows
    places: Rows
    """Where the rows go in the answer."""


def read_partitions(
    image: MetadataImage, spans: Iterable[Span], online: LiveReplicas, *, copied: bool = False
) -> PartitionColumns:
    """The partitions of all spans; replicas that are not `online` are offline. With `copied` nothing is a view."""
    pieces, total = _pieces(image, spans, copied=copied)
    width = max((piece.table.width for piece in pieces), default=1)

    def scalars(column: str) -> Ints:
        if len(pieces) == 1:
            alone: Ints = getattr(pieces[0].table, column)[pieces[0].rows]
            return alone
        gathered = np.empty(total, dtype=np.int32)
        for table, rows, places in pieces:
            gathered[places] = getattr(table, column)[rows]
        return gathered

    def lists(read: Callable[[ColumnTable, Rows], tuple[Ints, Counts]]) -> Lists:
        if len(pieces) == 1:
            return _lists(*read(*pieces[0][:2]))
        gathered, counts = np.full((total, width), PADDING, dtype=np.int32), np.zeros(total, dtype=np.int64)
        for table, rows, places in pieces:
            gathered[places, : table.width], counts[places] = read(table, rows)
        return _lists(gathered, counts)

    return PartitionColumns(
        partition_index=scalars("partition_index"),
        leader_id=scalars("leader"),
        leader_epoch=scalars("leader_epoch"),
        replicas=lists(lambda table, rows: (table.replicas[rows], table.replica_count[rows])),
        isr=lists(lambda table, rows: (table.isr[rows], table.isr_count[rows])),
        offline_replicas=lists(lambda table, rows: _offline(table, rows, online)),
    )


def _pieces(image: MetadataImage, spans: Iterable[Span], *, copied: bool) -> tuple[list[_Piece], int]:
    """What to read from each table, and how many partitions it all is."""
    tables, ranges = image.partitions.tables, image.partitions.ranges
    found: dict[int, list[int]] = {width: [] for width in tables}
    total = 0
    for topic, first, last in spans:
        for first_index, length, width, first_row in ranges.get(topic.row, ()):
            start = first - first_index if first > first_index else 0
            stop = length if last is None else min(last - first_index, length)
            if start < stop:
                found[width] += (first_row + start, stop - start, total)
                total += stop - start
    found = {width: runs for width, runs in found.items() if runs}
    return [_piece(tables[width], runs, alone=not copied and len(found) == 1) for width, runs in found.items()], total


def _piece(table: ColumnTable, runs: list[int], *, alone: bool) -> _Piece:
    """The rows of one table: a slice if they lie behind each other and are all that is read. `runs` has three numbers
    for each run: its first row, its length, its place."""
    first_rows, lengths, places = np.array(runs, dtype=np.int64).reshape(-1, 3).T
    before = np.cumsum(lengths) - lengths
    count = int(lengths.sum())
    if alone and (first_rows - before == first_rows[0]).all():
        start = int(first_rows[0])
        return _Piece(table, slice(start, start + count), slice(0, count))
    each = np.arange(count)
    return _Piece(table, np.repeat(first_rows - before, lengths) + each, np.repeat(places - before, lengths) + each)


def only(lists: Lists, brokers: BrokerSet) -> Lists:
    """Each list without the ids outside `brokers`, in order."""
    rows = lists.rows if isinstance(lists, Ragged) else lists
    kept = brokers.holds(rows)
    if isinstance(lists, Ragged):
        kept &= np.arange(rows.shape[1]) < np.asarray(lists.lengths)[:, None]
    return _lists(*packed(rows, kept))


def lengths(lists: Lists) -> NDArray[Any]:
    """How long each list is."""
    return np.asarray(lists.lengths) if isinstance(lists, Ragged) else np.full(len(lists), lists.shape[1])


def _offline(table: ColumnTable, rows: Rows, online: LiveReplicas) -> tuple[Ints, Counts]:
    inside = np.arange(table.width) < table.replica_count[rows][:, None]
    return packed(table.replicas[rows], inside & ~online.holds(table, rows))


def _lists(rows: Ints, counts: Counts) -> Lists:
    """Rows of one length as a plain array: that is what encodes fastest."""
    if len(counts) and (counts == counts[0]).all():
        return rows[:, : int(counts[0])]
    return Ragged(rows, counts)
