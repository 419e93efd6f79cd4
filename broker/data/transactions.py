"""The transactions in one partition: which are open, and which were aborted (KIP-98).

A transaction of a producer begins in a partition with its first transactional batch and ends with a control batch, the
marker. The last stable offset is the first offset of the oldest transaction that is open, or whose marker is not below
the high watermark; without one it is the high watermark. Source: Kafka's ProducerStateManager.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

from klamm.broker.data.control_batches import read_marker
from klamm.broker.data.record_batches import ProducedBatch

NO_OFFSET: Final = -1


class EndedTransaction(NamedTuple):
    """A transaction from its first record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""
    is_committed: bool


class PartitionTransactions:
    """The transactions of one partition. The aborted ones take memory while the log has their markers."""

    __slots__ = ("_aborted", "_fresh", "_open")

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        """The first offset by producer id, in the order of the offsets."""
        self._fresh: list[EndedTransaction] = []
        """Transactions whose marker was not below the high watermark yet."""
        self._aborted: list[EndedTransaction] = []
        """In the order of their markers."""

    def first_offset(self, producer_id: int) -> int:
        """Where the open transaction of a producer begins; -1: it has none."""
        return self._open.get(producer_id, NO_OFFSET)

    def is_open(self, producer_id: int) -> bool:
        """Whether a producer has an open transaction."""
        return producer_id in self._open

    def append(self, batch: ProducedBatch, base_offset: int, log_start_offset: int) -> None:
        """Apply a transactional batch that was written at `base_offset`."""
        if not batch.is_control:
            self._open.setdefault(batch.producer_id, base_offset)
            return
        first_offset = self._open.pop(batch.producer_id, None)
        if first_offset is None:
            return
        ended = EndedTransaction(batch.producer_id, first_offset, base_offset, read_marker(batch).is_commit)
        self._fresh.append(ended)
        if not ended.is_committed:
            if self._aborted and self._aborted[0].last_offset < log_start_offset:
                self._aborted = [one for one in self._aborted if one.last_offset >= log_start_offset]
            self._aborted.append(ended)

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset below which no record belongs to a transaction that may still be open for a reader."""
        if not self._open and not self._fresh:
            return high_watermark
        if self._fresh and self._fresh[0].last_offset < high_watermark:
            self._fresh = [one for one in self._fresh if one.last_offset >= high_watermark]
        first = next(iter(self._open.values()), high_watermark)
        return min([first, high_watermark, *(one.first_offset for one in self._fresh)])

    def is_blocked(self, high_watermark: int) -> bool:
        """Whether an open transaction determines the last stable offset, so that time alone does not raise it."""
        first = next(iter(self._open.values()), None)
        return first is not None and first <= self.last_stable_offset(high_watermark)

    def aborted_between(self, offset: int, end_offset: int) -> Sequence[EndedTransaction]:
        """The aborted transactions that a reader of these offsets has to know."""
        first = bisect_left(self._aborted, offset, key=lambda one: one.last_offset)
        return [one for one in self._aborted[first:] if one.first_offset < end_offset]

    def forget_aborted(self, last_offset: int) -> None:
        """Compaction has removed all records of the aborted transaction with the marker at this offset. Readers must
        not know of it any more, because the marker may be gone, too."""
        self._aborted = [one for one in self._aborted if one.last_offset != last_offset]

    def truncate_to(self, offset: int) -> None:
        """The log ends at `offset` now: transactions that began later never were, and ends above it did not happen."""
        undone = {one.last_offset: one for one in (*self._fresh, *self._aborted) if one.last_offset >= offset}
        first_offsets = [*self._open.items(), *((one.producer_id, one.first_offset) for one in undone.values())]
        kept: dict[int, int] = {}
        for producer_id, first_offset in sorted(first_offsets, key=lambda pair: pair[1]):
            if first_offset < offset:
                kept.setdefault(producer_id, first_offset)
        self._open = kept
        self._fresh = [one for one in self._fresh if one.last_offset < offset]
        self._aborted = [one for one in self._aborted if one.last_offset < offset]
