"""All partitions of the cluster: one column table per width class, and what only few partitions have kept aside.

A topic owns ranges of rows. Rules about a few partitions read rows as `Partition` values; rules about many work on
the columns (`tables`). Only replay changes a table; everything else reads. Reassignments and eligible leader
replicas (KIP-966) belong to few partitions at any time, so they stand in dictionaries.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from controller.metadata.broker import MIGRATING_DIRECTORY
from controller.metadata.columns import PADDING, ColumnTable, Ints, width_class
from controller.metadata.partition import Partition
from protocol.records.partitions import PartitionRecord
from protocol.uuid import Uuid

COMPACT_AT_DEAD_ROWS = 1024


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
    """Stable name of a partition in the dictionaries: rows move, this does not."""

    topic_row: int
    partition_index: int


class NewRows(NamedTuple):
    """Columns of consecutive new partitions of one topic: arrays of n rows, lists n × k without padding."""

    replicas: Ints
    isr: Ints
    directories: Ints
    leader: Ints
    leader_epoch: Ints | int
    partition_epoch: Ints | int
    leader_recovery_state: int


class DirectoryIds:
    """Log directory ids as small numbers, so that a column can hold them. Grows with distinct directories only."""

    def __init__(self) -> None:
        self.ids: list[Uuid] = [MIGRATING_DIRECTORY]
        self._numbers: dict[Uuid, int] = {MIGRATING_DIRECTORY: 0}

    def number(self, directory: Uuid) -> int:
        """The number of a directory, a new one if it has none: for replay alone."""
        known = self._numbers.get(directory)
        if known is None:
            known = self._numbers[directory] = len(self.ids)
            self.ids.append(directory)
        return known

    def known(self, directory: Uuid) -> int | None:
        """The number of a directory; None if no replica is or was in it."""
        return self._numbers.get(directory)


class PartitionTable:
    """Every partition, found by the ranges that its topic owns."""

    def __init__(self, compact_at_dead_rows: int = COMPACT_AT_DEAD_ROWS) -> None:
        self._compact_at_dead_rows = compact_at_dead_rows
        self.tables: dict[int, ColumnTable] = {}
        self.compactions = 0
        """Grows whenever rows move together: whoever remembers rows has to look for them again."""
        self.ranges: dict[int, list[RowRange]] = {}
        """The ranges of each topic row, ascending by first_index, together without gaps."""
        self.reassigning: dict[PartitionKey, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        """Adding and removing replicas of partitions in reassignment."""
        self.elr: dict[PartitionKey, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        """Eligible leader replicas and last known ones, of partitions that have any."""
        self.directory_ids = DirectoryIds()

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
        """One partition as a value; raises KeyError if there is none."""
        table, row = self.locate(topic_row, partition_index)
        return self.read_row(table, row)

    def read_row(self, table: ColumnTable, row: int) -> Partition:
        """The partition in `row` of `table` as a value."""
        key = PartitionKey(int(table.topic_row[row]), int(table.partition_index[row]))
        adding, removing = self.reassigning.get(key, ((), ()))
        elr, last_known_elr = self.elr.get(key, ((), ()))
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

    def topic_ranges(self, topic_row: int) -> Iterator[tuple[RowRange, ColumnTable]]:
        """The ranges of a topic in the order of its partitions, each with its table."""
        for owned in self.ranges.get(topic_row, ()):
            yield owned, self.tables[owned.width]

    def append(self, topic_row: int, new: NewRows) -> None:
        """Add partitions behind the last one of a topic."""
        count, replica_count = new.replicas.shape
        first_index = self.partition_count(topic_row)
        table = self.table(width_class(replica_count))
        first_row = self._take_rows(topic_row, first_index, table, count)
        at = slice(first_row, first_row + count)
        table.topic_row[at] = topic_row
        table.partition_index[at] = np.arange(first_index, first_index + count)
        table.leader[at] = new.leader
        table.leader_epoch[at] = new.leader_epoch
        table.partition_epoch[at] = new.partition_epoch
        table.leader_recovery_state[at] = new.leader_recovery_state
        table.aside[at] = False
        table.replica_count[at] = replica_count
        table.isr_count[at] = new.isr.shape[1]
        for column, given in (
            (table.replicas, new.replicas),
            (table.isr, new.isr),
            (table.directories, new.directories),
        ):
            column[at, : given.shape[1]] = given
            column[at, given.shape[1] :] = PADDING

    def append_one(self, topic_row: int, partition: PartitionRecord) -> None:
        """Add one partition behind the last one of a topic: for one row arrays cost more than they save."""
        index = self.partition_count(topic_row)
        table = self.table(width_class(len(partition.replicas)))
        row = self._take_rows(topic_row, index, table, 1)
        table.topic_row[row] = topic_row
        table.partition_index[row] = index
        self._write_row(PartitionKey(topic_row, index), table, row, partition)

    def _take_rows(self, topic_row: int, first_index: int, table: ColumnTable, count: int) -> int:
        """The first of so many new rows of a table, which belong to partitions of a topic from `first_index` on."""
        first_row = table.reserve(count).start
        ranges = self.ranges.setdefault(topic_row, [])
        last = ranges[-1] if ranges else None
        if last and last.width == table.width and last.first_row + last.length == first_row:
            ranges[-1] = last._replace(length=last.length + count)
        else:
            ranges.append(RowRange(first_index, count, table.width, first_row))
        return first_row

    def write(self, topic_row: int, partition_index: int, partition: Partition) -> None:
        """Replace the state of an existing partition; its row moves if its replicas outgrew the table."""
        table, row = self.locate(topic_row, partition_index)
        if len(partition.replicas) > table.width:
            table, row = self._move_to_wider(topic_row, partition_index, table, row, len(partition.replicas))
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
        # Old records name no directories.
        directories = partition.directories or len(partition.replicas) * (MIGRATING_DIRECTORY,)
        numbers = [self.directory_ids.number(directory) for directory in directories]
        padding = [PADDING] * table.width
        for column, given in (
            (table.replicas, partition.replicas),
            (table.isr, partition.isr),
            (table.directories, numbers),
        ):
            column[row] = [*given, *padding[len(given) :]]
        _keep_aside(self.reassigning, key, partition.adding_replicas, partition.removing_replicas)
        _keep_aside(self.elr, key, partition.eligible_leader_replicas, partition.last_known_elr)
        table.aside[row] = key in self.reassigning or key in self.elr

    def remove_topic(self, topic_row: int) -> None:
        """Delete all partitions of a topic."""
        partition_count = self.partition_count(topic_row)
        for owned in self.ranges.pop(topic_row, ()):
            self.tables[owned.width].kill(owned.rows)
        for aside in (self.reassigning, self.elr):
            if aside:
                for partition_index in range(partition_count):
                    aside.pop(PartitionKey(topic_row, partition_index), None)
        for table in self.tables.values():
            if table.dead > self._compact_at_dead_rows and table.dead > table.count // 2:
                self._compact(table)

    def table(self, width: int) -> ColumnTable:
        found = self.tables.get(width)
        if found is None:
            found = self.tables[width] = ColumnTable(width)
        return found

    def _compact(self, table: ColumnTable) -> None:
        moved = table.compact()
        self.compactions += 1
        for ranges in self.ranges.values():
            for position, owned in enumerate(ranges):
                if owned.width == table.width:
                    ranges[position] = owned._replace(first_row=int(moved[owned.first_row]))

    def _move_to_wider(
        self, topic_row: int, partition_index: int, table: ColumnTable, row: int, replica_count: int
    ) -> tuple[ColumnTable, int]:
        wider = self.table(width_class(replica_count))
        new_row = wider.reserve(1).start
        for name in ColumnTable.SCALARS:
            getattr(wider, name)[new_row] = getattr(table, name)[row]
        table.kill(slice(row, row + 1))
        ranges = self.ranges[topic_row]
        position = bisect_right(ranges, partition_index, key=lambda found: found.first_index) - 1
        ranges[position : position + 1] = _split(ranges[position], partition_index, wider.width, new_row)
        return wider, new_row


def _split(owned: RowRange, partition_index: int, width: int, row: int) -> Sequence[RowRange]:
    """The ranges that replace `owned` when one of its partitions lives in another table."""
    before = partition_index - owned.first_index
    after = owned.length - before - 1
    pieces = [
        owned._replace(length=before),
        RowRange(partition_index, 1, width, row),
        RowRange(partition_index + 1, after, owned.width, owned.first_row + before + 1),
    ]
    return [piece for piece in pieces if piece.length]


def _keep_aside(
    aside: dict[PartitionKey, tuple[tuple[int, ...], tuple[int, ...]]],
    key: PartitionKey,
    one: Sequence[int] | None,
    other: Sequence[int] | None,
) -> None:
    if one or other:
        aside[key] = (tuple(one or ()), tuple(other or ()))
    else:
        aside.pop(key, None)
