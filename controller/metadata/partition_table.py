"""All partitions of the cluster: one column table per width class, and sparse tables of what only few partitions have.

A topic owns ranges of rows. Rules about a few partitions read rows as `Partition` values; rules about many use the
columns (`tables`). Only replay changes a table. Few partitions at a time have a reassignment or eligible leader
replicas (KIP-966), so these are in dictionaries.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from klamm.controller.metadata.broker import MIGRATING_DIRECTORY
from klamm.controller.metadata.columns import PADDING, ColumnTable, Ints, width_class
from klamm.controller.metadata.directory_ids import DirectoryIds
from klamm.controller.metadata.partition import Partition
from klamm.protocol.records.partitions import PartitionRecord

COMPACT_AT_DEAD_ROWS = 1024
BLOCK_PARTITIONS = 1024
"""Consecutive partitions that move to a wider table together, so that a topic has few ranges."""

NO_LISTS: Final[tuple[tuple[int, ...], tuple[int, ...]]] = ((), ())


class RowRange(NamedTuple):
    """`length` partitions of a topic, from `first_index` on, in consecutive rows of the table of `width`."""

    first_index: int
    length: int
    width: int
    first_row: int

    @property
    def rows(self) -> slice:
        return slice(self.first_row, self.first_row + self.length)


class PartitionKey(NamedTuple):
    """The key of a partition in the dictionaries. It stays the same when the partition's row moves."""

    topic_row: int
    partition_index: int


class NewRows(NamedTuple):
    """Columns of new partitions: arrays of n rows, lists n × k. ISRs may be padded."""

    partition_index: NDArray[np.int64]
    """The indexes that `PartitionTable.next_indexes` returned."""
    replicas: Ints
    isr: Ints
    directories: Ints
    leader: Ints
    leader_epoch: Ints | int
    partition_epoch: Ints | int
    leader_recovery_state: Ints | int
    isr_count: Ints | None = None
    """None: the ISRs have no padding."""


class PartitionTable:
    """Every partition, found by the ranges that its topic owns."""

    def __init__(self, compact_at_dead_rows: int = COMPACT_AT_DEAD_ROWS) -> None:
        self._compact_at_dead_rows = compact_at_dead_rows
        self.tables: dict[int, ColumnTable] = {}
        self.row_moves = 0
        """Increases whenever rows move together. Code that keeps row numbers has to find the rows again then."""
        self.ranges: dict[int, list[RowRange]] = {}
        """The ranges of each topic row, ascending by first_index, without gaps."""
        self.reassigning: dict[PartitionKey, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        """Adding and removing replicas of partitions in reassignment."""
        self.elr: dict[PartitionKey, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        """Eligible and last known leader replicas of the partitions that have any."""
        self.directory_ids = DirectoryIds()

    def room(self) -> "PartitionTable":
        """An empty table with room for the content of this one. May be called in a thread, because it reads sizes
        only."""
        empty = PartitionTable(self._compact_at_dead_rows)
        for width, table in list(self.tables.items()):
            empty.table(width).make_room(table.count + table.count // 16)
        return empty

    def copy(self, room: "PartitionTable | None" = None) -> "PartitionTable":
        """A copy that does not change when this table does; in `room`, if it is given."""
        copied = PartitionTable(self._compact_at_dead_rows) if room is None else room
        for width, table in self.tables.items():
            table.copy_into(copied.table(width))
        copied.ranges = self.ranges.copy()  # the lists in it are shared, because they are replaced and never changed
        copied.reassigning, copied.elr = self.reassigning.copy(), self.elr.copy()
        copied.directory_ids = self.directory_ids.copy()
        return copied

    def total(self) -> int:
        """The number of partitions."""
        return sum(table.count - table.dead for table in self.tables.values())

    def partition_count(self, topic_row: int) -> int:
        ranges = self.ranges.get(topic_row)
        return ranges[-1].first_index + ranges[-1].length if ranges else 0

    def locate(self, topic_row: int, partition_index: int) -> tuple[ColumnTable, int]:
        """The table and row of a partition; raises KeyError if the topic has no such partition."""
        ranges = self.ranges.get(topic_row, [])
        position = bisect_right(ranges, partition_index, key=lambda found: found.first_index) - 1
        if position < 0 or partition_index >= ranges[position].first_index + ranges[position].length:
            raise KeyError(partition_index)
        found = ranges[position]
        return self.tables[found.width], found.first_row + partition_index - found.first_index

    def read(self, topic_row: int, partition_index: int) -> Partition:
        """One partition as a value; raises KeyError if it does not exist."""
        table, row = self.locate(topic_row, partition_index)
        return self.read_row(table, row)

    def read_row(self, table: ColumnTable, row: int) -> Partition:
        """The partition in `row` of `table` as a value."""
        key = PartitionKey(int(table.topic_row[row]), int(table.partition_index[row]))
        adding, removing = self.reassigning.get(key, NO_LISTS)
        elr, last_known_elr = self.elr.get(key, NO_LISTS)
        replica_count = int(table.replica_count[row])
        names = self.directory_ids.ids
        return Partition(
            replicas=tuple(table.replicas[row, :replica_count].tolist()),
            isr=tuple(table.isr[row, : int(table.isr_count[row])].tolist()),
            leader=int(table.leader[row]),
            leader_epoch=int(table.leader_epoch[row]),
            partition_epoch=int(table.partition_epoch[row]),
            directories=tuple(names[number] for number in table.directories[row, :replica_count].tolist()),
            leader_recovery_state=int(table.leader_recovery_state[row]),
            adding_replicas=adding,
            removing_replicas=removing,
            eligible_leader_replicas=elr,
            last_known_elr=last_known_elr,
        )

    def locate_many(
        self, keys: Iterable[PartitionKey]
    ) -> Iterator[tuple[ColumnTable, list[PartitionKey], NDArray[np.int64]]]:
        """For each table: the partitions that are in it, and their rows. Partitions that do not exist are omitted."""
        found: dict[int, tuple[list[PartitionKey], list[int]]] = {}
        for key in keys:
            try:
                table, row = self.locate(*key)
            except KeyError:
                continue
            wanted, rows = found.setdefault(table.width, ([], []))
            wanted.append(key)
            rows.append(row)
        for width, (wanted, rows) in found.items():
            yield self.tables[width], wanted, np.array(rows)

    def read_many(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, Partition]:
        """Those of the partitions that exist, faster than one by one."""
        partitions: dict[PartitionKey, Partition] = {}
        for table, found, rows in self.locate_many(keys):
            partitions.update(zip(found, self._read_rows(table, found, rows), strict=True))
        return partitions

    def _read_rows(
        self, table: ColumnTable, keys: Sequence[PartitionKey], rows: NDArray[np.int64]
    ) -> Iterator[Partition]:
        names = self.directory_ids.ids
        columns = (table.replicas, table.replica_count, table.isr, table.isr_count, table.directories, table.leader,
                   table.leader_epoch, table.partition_epoch, table.leader_recovery_state)  # fmt: skip
        read = (column[rows].tolist() for column in columns)
        for key, replicas, count, isr, isr_count, directories, leader, leader_epoch, partition_epoch, recovery in zip(
            keys, *read, strict=True
        ):
            adding, removing = self.reassigning.get(key, NO_LISTS)
            elr, last_known_elr = self.elr.get(key, NO_LISTS)
            yield Partition(
                tuple(replicas[:count]),
                tuple(isr[:isr_count]),
                leader,
                leader_epoch,
                partition_epoch,
                tuple([names[number] for number in directories[:count]]),
                recovery,
                adding,
                removing,
                elr,
                last_known_elr,
            )

    def topic_ranges(self, topic_row: int) -> Iterator[tuple[RowRange, ColumnTable]]:
        """The ranges of a topic in the order of its partitions, each with its table."""
        for owned in self.ranges.get(topic_row, ()):
            yield owned, self.tables[owned.width]

    def is_reassigning(self, topic_row: int) -> bool:
        """Whether any partition of a topic is in reassignment."""
        for owned, table in self.topic_ranges(topic_row) if self.reassigning else ():
            indexes = np.flatnonzero(table.sparse[owned.rows]) + owned.first_index
            if any(PartitionKey(topic_row, index) in self.reassigning for index in indexes.tolist()):
                return True
        return False

    def next_indexes(self, owners: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
        """The indexes of new partitions. `owners` are pairs of a topic row and a number of partitions."""
        nexts: dict[int, int] = {}
        shifts, counts, before = [], [], 0
        for topic_row, count in owners:
            first_index = nexts.get(topic_row) or self.partition_count(topic_row)
            nexts[topic_row] = first_index + count
            shifts.append(first_index - before)
            counts.append(count)
            before += count
        indexes: NDArray[np.int64] = np.arange(before) + np.repeat(shifts, counts)
        return indexes

    def append(self, owners: Sequence[tuple[int, int]], new: NewRows) -> NDArray[np.int64]:
        """Append partitions to topics. `owners` are pairs of a topic row and a number of partitions. Returns the topic
        row of each new partition."""
        count, replica_count = new.replicas.shape
        table = self.table(width_class(replica_count))
        first_row = next_row = table.reserve(count).start
        for topic_row, topic_count in owners:
            self._own(topic_row, topic_count, table, next_row)
            next_row += topic_count
        at = slice(first_row, first_row + count)
        topic_rows, counts = zip(*owners, strict=True)
        rows_of_topics: NDArray[np.int64] = np.repeat(topic_rows, counts)
        table.topic_row[at] = rows_of_topics
        table.partition_index[at] = new.partition_index
        table.leader[at] = new.leader
        table.leader_epoch[at] = new.leader_epoch
        table.partition_epoch[at] = new.partition_epoch
        table.leader_recovery_state[at] = new.leader_recovery_state
        table.sparse[at] = False
        table.replica_count[at] = replica_count
        table.isr_count[at] = new.isr.shape[1] if new.isr_count is None else new.isr_count
        for column, given in (
            (table.replicas, new.replicas),
            (table.isr, new.isr),
            (table.directories, new.directories),
        ):
            # A short ISR is padded to the length of longer ones, which may be more than the number of replicas.
            width = min(given.shape[1], table.width)
            column[at, :width] = given[:, :width]
            column[at, width:] = PADDING
        return rows_of_topics

    def append_one(self, topic_row: int, partition: PartitionRecord) -> None:
        """Append one partition to a topic. For a single row, array operations would cost more."""
        table = self.table(width_class(len(partition.replicas)))
        row = table.reserve(1).start
        index = self._own(topic_row, 1, table, row)
        table.topic_row[row] = topic_row
        table.partition_index[row] = index
        self._write_row(PartitionKey(topic_row, index), table, row, partition)

    def _own(self, topic_row: int, count: int, table: ColumnTable, first_row: int) -> int:
        """Append new rows to a topic's ranges; returns the index of the first partition in them."""
        ranges = self.ranges.get(topic_row)
        if not ranges:
            self.ranges[topic_row] = [RowRange(0, count, table.width, first_row)]
            return 0
        first_index = ranges[-1].first_index + ranges[-1].length
        last = _joined([*ranges[-1:], RowRange(first_index, count, table.width, first_row)])
        self.ranges[topic_row] = [*ranges[:-1], *last]
        return first_index

    def write(self, topic_row: int, partition_index: int, partition: Partition) -> None:
        """Replace the state of an existing partition; its row moves if its replicas do not fit into the table."""
        table, row = self.locate(topic_row, partition_index)
        if len(partition.replicas) > table.width:
            self.make_room([(topic_row, [partition_index])], len(partition.replicas))
            table, row = self.locate(topic_row, partition_index)
        self._write_row(PartitionKey(topic_row, partition_index), table, row, partition)

    def _write_row(
        self, key: PartitionKey, table: ColumnTable, row: int, partition: Partition | PartitionRecord
    ) -> None:
        table.leader[row] = partition.leader
        table.leader_epoch[row] = partition.leader_epoch
        table.partition_epoch[row] = partition.partition_epoch
        table.leader_recovery_state[row] = partition.leader_recovery_state
        table.replica_count[row] = len(partition.replicas)
        table.isr_count[row] = len(partition.isr)
        # Old records have no directories.
        directories = partition.directories or len(partition.replicas) * (MIGRATING_DIRECTORY,)
        numbers = [self.directory_ids.number(directory) for directory in directories]
        padding = [PADDING] * table.width
        for column, given in (
            (table.replicas, partition.replicas),
            (table.isr, partition.isr),
            (table.directories, numbers),
        ):
            column[row] = [*given, *padding[len(given) :]]
        _set_sparse_entry(self.reassigning, key, partition.adding_replicas, partition.removing_replicas)
        _set_sparse_entry(self.elr, key, partition.eligible_leader_replicas, partition.last_known_elr)
        table.sparse[row] = key in self.reassigning or key in self.elr

    def make_room(self, wanted: Iterable[tuple[int, Sequence[int]]], replica_count: int) -> None:
        """Let the rows of partitions, given by topic row and partition indexes, hold `replica_count` replicas. Blocks
        of consecutive partitions move to the wider table together with them. Row numbers are different afterwards."""
        wider = self.table(width_class(replica_count))
        next_row, moves = wider.count, list[tuple[RowRange, int]]()
        for topic_row, indexes in wanted:
            ranges = self.ranges.get(topic_row, [])
            if all(owned.width >= wider.width for owned in ranges):
                continue
            blocks = {index // BLOCK_PARTITIONS for index in indexes}
            pieces: list[RowRange] = []
            for piece, is_wanted in _cut(ranges, blocks):
                if is_wanted and piece.width < wider.width:
                    moves.append((piece, next_row))
                    pieces.append(piece._replace(width=wider.width, first_row=next_row))
                    next_row += piece.length
                else:
                    pieces.append(piece)
            self.ranges[topic_row] = _joined(pieces)
        self._move(moves, wider)
        self._compact_where_dead()

    def _move(self, moves: Sequence[tuple[RowRange, int]], wider: ColumnTable) -> None:
        """Move rows to the end of a wider table. `moves` are ranges with their first row there."""
        if moves:
            self.row_moves += 1
        wider.reserve(sum(piece.length for piece, _ in moves))
        for width in {piece.width for piece, _ in moves}:
            own = [(piece, first_row) for piece, first_row in moves if piece.width == width]
            rows = np.concatenate([np.arange(first_row, first_row + piece.length) for piece, first_row in own])
            source_rows = np.concatenate([np.arange(piece.rows.start, piece.rows.stop) for piece, _ in own])
            wider.copy_rows(rows, self.tables[width], source_rows)
            self.tables[width].kill(source_rows)

    def remove_topic(self, topic_row: int) -> None:
        """Delete all partitions of a topic."""
        partition_count = self.partition_count(topic_row)
        for owned in self.ranges.pop(topic_row, ()):
            self.tables[owned.width].kill(owned.rows)
        for sparse in (self.reassigning, self.elr):
            if sparse:
                for partition_index in range(partition_count):
                    sparse.pop(PartitionKey(topic_row, partition_index), None)
        self._compact_where_dead()

    def table(self, width: int) -> ColumnTable:
        found = self.tables.get(width)
        if found is None:
            found = self.tables[width] = ColumnTable(width)
        return found

    def _compact_where_dead(self) -> None:
        for table in self.tables.values():
            if table.dead > self._compact_at_dead_rows and table.dead > table.count // 2:
                self._compact(table)

    def _compact(self, table: ColumnTable) -> None:
        moved = table.compact()
        self.row_moves += 1
        for topic_row, ranges in self.ranges.items():
            self.ranges[topic_row] = [
                owned._replace(first_row=int(moved[owned.first_row])) if owned.width == table.width else owned
                for owned in ranges
            ]


def _cut(ranges: Iterable[RowRange], blocks: Collection[int]) -> Iterator[tuple[RowRange, bool]]:
    """The ranges cut at the borders of `blocks`: each piece, and whether it is in one of them."""
    for owned in ranges:
        first, end = owned.first_index, owned.first_index + owned.length
        while first < end:
            block = first // BLOCK_PARTITIONS
            after = min(end, (block + 1) * BLOCK_PARTITIONS)
            row = owned.first_row + first - owned.first_index
            yield RowRange(first, after - first, owned.width, row), block in blocks
            first = after


def _joined(pieces: Iterable[RowRange]) -> list[RowRange]:
    """The same ranges, with consecutive ones in one table joined."""
    joined: list[RowRange] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last and last.width == piece.width and last.rows.stop == piece.first_row:
            joined[-1] = last._replace(length=last.length + piece.length)
        else:
            joined.append(piece)
    return joined


def _set_sparse_entry(
    sparse: dict[PartitionKey, tuple[tuple[int, ...], tuple[int, ...]]],
    key: PartitionKey,
    one: Sequence[int] | None,
    other: Sequence[int] | None,
) -> None:
    if one or other:
        sparse[key] = (tuple(one or ()), tuple(other or ()))
    else:
        sparse.pop(key, None)
