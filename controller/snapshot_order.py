"""The partitions of a snapshot in the order of their indexes, which replay needs.

Apache Kafka's controllers write the partitions of a topic in the order of a HashMap. Up to 65,536 partitions that is
the order of their indexes. Above, the low bits of an index are mixed with its high bits: partition 65,537 comes before
partition 65,536.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from klamm.controller.log_records import Record
from klamm.protocol.columns import Columns, is_column
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.uuid import Uuid

FIRST_MIXED: Final = 1 << 16
"""The smallest index that may not be at its place. Partitions before it are passed on without a look."""


class PartitionsInOrder:
    """Passes on the records of a snapshot, and keeps a partition until those with smaller indexes have come."""

    def __init__(self) -> None:
        self._topic_id: Uuid | None = None
        self._next = FIRST_MIXED
        self._held: dict[int, PartitionRecord] = {}

    def take(self, records: Iterable[Record]) -> list[Record]:
        """The records that may be replayed after those of the batches before, with these records."""
        return [found for record in records for found in self._of(record)]

    def rest(self) -> list[Record]:
        """The partitions that are kept, by index. If there are any, smaller indexes are missing in the snapshot."""
        held, self._held = self._held, {}
        return [held[index] for index in sorted(held)]

    def _of(self, record: Record) -> Iterator[Record]:
        if isinstance(record, PartitionRecord):
            yield from self._of_partition(record)
        elif isinstance(record, Columns) and record.message_class is PartitionRecord:
            yield from self._of_run(record)
        else:
            yield record

    def _of_partition(self, record: PartitionRecord) -> Iterator[Record]:
        if record.partition_id < FIRST_MIXED:
            yield record
            return
        if record.topic_id != self._topic_id:
            yield from self.rest()
            self._topic_id, self._next = record.topic_id, FIRST_MIXED
        self._held[record.partition_id] = record
        while self._next in self._held:
            yield self._held.pop(self._next)
            self._next += 1

    def _of_run(self, run: Columns[PartitionRecord]) -> Iterator[Record]:
        indexes = run.values["partition_id"]
        if int(np.max(indexes)) < FIRST_MIXED:
            yield run
            return
        first, last = run[0], run[-1]
        order = np.argsort(indexes, kind="stable")
        has_all = (np.diff(indexes[order]) == 1).all()
        if not has_all or first.topic_id != last.topic_id or not self._is_next(first.topic_id, int(indexes[order[0]])):
            for record in run:
                yield from self._of_partition(record)
            return
        self._topic_id, self._next = first.topic_id, int(indexes[order[-1]]) + 1
        if (np.diff(indexes) == 1).all():
            yield run
            return
        values: dict[str, Any] = {
            name: value[order] if is_column(value) else value for name, value in run.values.items()
        }
        yield Columns(PartitionRecord, len(run), values)

    def _is_next(self, topic_id: Uuid, index: int) -> bool:
        """Whether a run from this index on has no other partitions to wait for."""
        if self._held:
            return False
        return index <= FIRST_MIXED if topic_id != self._topic_id else index == self._next
