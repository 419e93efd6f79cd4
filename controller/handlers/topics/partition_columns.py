"""Partitions of topics as columns of a response: the common part of Metadata and DescribeTopicPartitions.

Rows of many topics are gathered together from all tables, so that the cost is per table and not per topic. If the rows
are consecutive, the columns are views of live state: encode them before the state changes.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from klamm.controller.metadata.broker_set import BrokerSet
from klamm.controller.metadata.columns import PADDING, ColumnTable, Ints, packed
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.metadata.live_replicas import LiveReplicas
from klamm.controller.metadata.partition_table import RowRange
from klamm.protocol.columns import Ragged

Lists = Ints | Ragged
Counts = NDArray[np.integer]
Rows = NDArray[np.int64] | slice


class PartitionColumns(NamedTuple):
    """Columns over the partitions of some topics, one topic after the other."""

    bounds: NDArray[np.int64]
    """The position of each topic's first partition, and the end position of the last topic."""
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
    """The positions of the rows in the answer."""


def read_partitions(
    image: MetadataImage,
    topics: Sequence[Topic],
    online: LiveReplicas,
    *,
    first: int = 0,
    last: int | None = None,
    copied: bool = False,
) -> PartitionColumns:
    """The partitions of each topic from `first` to before `last`, or to the end; replicas that are not `online` are
    offline. With `copied` no column is a view."""
    pieces, bounds = _pieces(image, topics, first, last, copied=copied)
    total = int(bounds[-1])
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
        bounds=bounds,
        partition_index=scalars("partition_index"),
        leader_id=scalars("leader"),
        leader_epoch=scalars("leader_epoch"),
        replicas=lists(lambda table, rows: (table.replicas[rows], table.replica_count[rows])),
        isr=lists(lambda table, rows: (table.isr[rows], table.isr_count[rows])),
        offline_replicas=lists(lambda table, rows: _offline(table, rows, online)),
    )


def _pieces(
    image: MetadataImage, topics: Sequence[Topic], first: int, last: int | None, *, copied: bool
) -> tuple[list[_Piece], NDArray[np.int64]]:
    """What to read from each table, and the `bounds` of the answer."""
    ranges = image.partitions.ranges
    owned = [ranges.get(topic.row, ()) for topic in topics]
    numbers = np.fromiter(chain.from_iterable(chain.from_iterable(owned)), np.int64)
    first_indexes, lengths, widths, first_rows = numbers.reshape(-1, len(RowRange._fields)).T
    if first or last is not None:
        starts = np.maximum(first - first_indexes, 0)
        stops = lengths if last is None else np.minimum(last - first_indexes, lengths)
        first_rows, lengths = first_rows + starts, np.maximum(stops - starts, 0)
    places = _bounds(lengths)
    bounds = places[_bounds(np.fromiter(map(len, owned), np.int64, len(owned)))]
    pieces = []
    for width, table in image.partitions.tables.items():
        inside = np.flatnonzero(widths == width)
        if len(inside) == len(widths) > 0:
            rows = _rows(first_rows, lengths, may_be_slice=not copied)
            return [_Piece(table, rows, slice(None))], bounds
        if len(inside):
            chosen = lengths[inside]
            pieces.append(_Piece(table, _rows(first_rows[inside], chosen), _rows(places[inside], chosen)))
    return pieces, bounds


def _bounds(counts: Counts) -> NDArray[np.int64]:
    """Where consecutive pieces of these lengths begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(counts)])


def _rows(firsts: Counts, lengths: Counts, *, may_be_slice: bool = False) -> Rows:
    """For each of `firsts`, that row and the following ones, `lengths` in all; a slice if the rows are consecutive and
    `may_be_slice` is set."""
    shifts = firsts - (np.cumsum(lengths) - lengths)
    count = int(lengths.sum())
    if may_be_slice and (shifts == shifts[0]).all():
        start = int(shifts[0])
        return slice(start, start + count)
    return np.repeat(shifts, lengths) + np.arange(count)


def only(lists: Lists, brokers: BrokerSet) -> Lists:
    """Each list without the ids outside `brokers`, in order."""
    rows = lists.rows if isinstance(lists, Ragged) else lists
    kept = brokers.holds(rows)
    if isinstance(lists, Ragged):
        kept &= np.arange(rows.shape[1]) < np.asarray(lists.lengths)[:, None]
    return _lists(*packed(rows, kept))


def lengths(lists: Lists) -> NDArray[Any]:
    """The length of each list."""
    return np.asarray(lists.lengths) if isinstance(lists, Ragged) else np.full(len(lists), lists.shape[1])


def _offline(table: ColumnTable, rows: Rows, online: LiveReplicas) -> tuple[Ints, Counts]:
    inside = np.arange(table.width) < table.replica_count[rows][:, None]
    return packed(table.replicas[rows], inside & ~online.holds(table, rows))


def _lists(rows: Ints, counts: Counts) -> Lists:
    """The lists; if all have one length, a plain array, because that encodes fastest."""
    if len(counts) and (counts == counts[0]).all():
        return rows[:, : int(counts[0])]
    return Ragged(rows, counts)
