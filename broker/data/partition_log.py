"""The records of one partition: whole batches as bytes, in memory. The oldest are removed when memory runs short.

This module assigns offsets, as Kafka's UnifiedLog does. The metadata of batches is in arrays beside the list of their
bytes, so that batches are found by bisection. The array entries of removed batches are deleted from time to time.
"""

from array import array
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

import numpy as np

from klamm.broker.data.record_batches import NO_TIMESTAMP, ProducedBatch, decode_header, stamp
from klamm.broker.data.records import look_inside
from klamm.controller.leader_epochs import NO_EPOCH, NO_OFFSET, LeaderEpochs

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
"""The special timestamps of ListOffsets requests."""

_GIVEN_BACK_AT: Final = 512
"""At least this many removed batches have entries in the arrays before the entries are deleted."""


class FoundOffset(NamedTuple):
    """The result of ListOffsets; an unknown timestamp or leader epoch is -1."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class FoundBatches(NamedTuple):
    """Consecutive batches, by their present indexes in the log: `first` to before `behind`."""

    first: int
    behind: int
    size_bytes: int


_NO_BATCHES: Final = FoundBatches(0, 0, 0)


class PartitionLog:
    """One log: offsets from `log_start_offset` to before `log_end_offset`.

    `max_bytes` may change at any time; the next append applies it. The newest batch is never removed, even if it alone
    is larger. A batch takes about 80 bytes of memory beside its own.
    """

    __slots__ = (
        "_appended_ms",
        "_batches",
        "_begin",
        "_ends",
        "_first",
        "_last_offsets",
        "_latest_append_ms",
        "_max_timestamps_ms",
        "epochs",
        "log_end_offset",
        "log_start_offset",
        "max_bytes",
    )

    def __init__(self, max_bytes: int, start_offset: int = 0) -> None:
        self.max_bytes = max_bytes
        self.log_start_offset = start_offset
        self.log_end_offset = start_offset
        self.epochs = LeaderEpochs()
        self._latest_append_ms = 0
        # One entry for each batch; the batches before `_first` are removed:
        self._first = 0
        self._batches: list[bytes] = []
        self._last_offsets = array("q")
        self._max_timestamps_ms = array("q")
        self._appended_ms = array("q")
        self._ends = array("q")  # where the batch ends, in bytes ever written; the bytes before `_begin` are removed
        self._begin = 0

    def begin_at(self, offset: int) -> None:
        """Let the next record have this offset, which is at least the log end offset."""
        if not self._batches:
            self.log_start_offset = offset
        self.log_end_offset = offset

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches in the log."""
        return (self._ends[-1] if self._ends else self._begin) - self._begin

    def append(self, batch: ProducedBatch, leader_epoch: int, now_ms: int, *, log_append_time: bool = False) -> int:
        """Append a batch, removing the oldest ones if there is no room. Returns its first offset.

        With `log_append_time` its records get the timestamp `now_ms`.
        """
        base_offset = self.log_end_offset
        records = stamp(batch, base_offset, leader_epoch, now_ms if log_append_time else None)
        self.epochs.begin(leader_epoch, base_offset)
        self.log_end_offset = base_offset + batch.record_count
        self._ends.append(self._begin + self.size_bytes + len(records))
        self._batches.append(records)
        self._last_offsets.append(self.log_end_offset - 1)
        self._max_timestamps_ms.append(now_ms if log_append_time else batch.max_timestamp_ms)
        self._appended_ms.append(now_ms)
        self._latest_append_ms = now_ms
        excess, newest = self.size_bytes - self.max_bytes, len(self._batches) - 1
        if excess > 0 and newest > self._first:
            kept = min(bisect_left(self._ends, self._begin + excess, self._first) + 1, newest)
            self._give_up(kept, self._last_offsets[kept - 1] + 1)
        return base_offset

    def read(self, offset: int, max_bytes: int, up_to_offset: int, *, at_least_one: bool = True) -> bytes | None:
        """Whole batches, from the one that holds `offset` on, all of whose records are below `up_to_offset`; no more of
        them than fit into `max_bytes`, but `at_least_one`. None: the log does not reach to `offset`
        (OFFSET_OUT_OF_RANGE)."""
        found = self.find_batches(offset, max_bytes, up_to_offset, at_least_one=at_least_one)
        return None if found is None else self.join(found)

    def find_batches(
        self, offset: int, max_bytes: int, up_to_offset: int, *, at_least_one: bool = True
    ) -> FoundBatches | None:
        """The batches that `read` would return, without copying their bytes."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            return None
        first = bisect_left(self._last_offsets, offset, self._first)
        behind = bisect_left(self._last_offsets, up_to_offset, self._first)
        if first >= behind:
            return _NO_BATCHES
        begin = self._ends[first - 1] if first > self._first else self._begin
        fitting = max(bisect_right(self._ends, begin + max_bytes, first, behind), first + at_least_one)
        return FoundBatches(first, fitting, self._ends[fitting - 1] - begin) if fitting > first else _NO_BATCHES

    def join(self, found: FoundBatches) -> bytes:
        """The bytes of batches from `find_batches`, called before the log has changed."""
        return b"".join(self._batches[found.first : found.behind])

    def last_offset_of(self, found: FoundBatches) -> int:
        """The last offset of batches from `find_batches`, of which there is one at least."""
        return self._last_offsets[found.behind - 1]

    def size_below(self, offset: int) -> int:
        """The bytes of the batches all of whose records are below `offset`."""
        behind = bisect_left(self._last_offsets, offset, self._first)
        return self._ends[behind - 1] - self._begin if behind > self._first else 0

    def batch_end(self, offset: int) -> int | None:
        """The offset after the batch that contains `offset`; None if the log has no such batch."""
        index = bisect_left(self._last_offsets, offset, self._first)
        return self._last_offsets[index] + 1 if index < len(self._last_offsets) else None

    def batch_start(self, offset: int) -> int:
        """The first offset of the batch that contains `offset`; `offset` itself if no batch does."""
        index = bisect_left(self._last_offsets, offset, self._first)
        return offset if index == len(self._batches) else min(offset, decode_header(self._batches[index]).base_offset)

    def truncate_to(self, offset: int) -> None:
        """Remove the records from `offset` on, so that the log ends there. As in Kafka, a batch that contains `offset`
        is removed as a whole, which leaves a gap. An offset at or above the end changes nothing."""
        if offset >= self.log_end_offset:
            return
        kept = bisect_left(self._last_offsets, offset, self._first)
        del self._batches[kept:], self._last_offsets[kept:], self._max_timestamps_ms[kept:]
        del self._appended_ms[kept:], self._ends[kept:]
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.epochs.cut_end(offset)

    def delete_before(self, offset: int) -> None:
        """Make `offset` the log start offset; it is at most the log end offset (DeleteRecords, KIP-107). A batch that
        contains it stays whole, and readers skip the records before it."""
        if offset > self.log_start_offset:
            self._give_up(bisect_left(self._last_offsets, offset, self._first), offset)

    def begin_leader_epoch(self, leader_epoch: int) -> None:
        """Begin a leader epoch at the log end offset."""
        self.epochs.begin(leader_epoch, self.log_end_offset)

    def epoch_end_offset(self, requested_epoch: int) -> tuple[int, int]:
        """What OffsetForLeaderEpoch answers: an epoch, and the offset at which it ends; (-1, -1) if unknown."""
        return self.epochs.end_offset(requested_epoch, self.log_end_offset)

    def appended_ms(self, offset: int) -> int:
        """When (ms) the first record at or above `offset` was appended; if there is none, the last append."""
        index = bisect_left(self._last_offsets, offset, self._first)
        return self._appended_ms[index] if index < len(self._appended_ms) else self._latest_append_ms

    def find_offset(self, timestamp_ms: int) -> FoundOffset | None:
        """The first record whose timestamp is at least `timestamp_ms`, or the answer to one of the special timestamps;
        None if there is no such record. LATEST is the log end offset here, not the high watermark.

        If the records of a batch cannot be read, the batch's first record is returned. There is no tiered storage, so
        EARLIEST_LOCAL is EARLIEST, and tiered offsets are -1 (KIP-405, KIP-1005).
        """
        if timestamp_ms == LATEST:
            return FoundOffset(self.log_end_offset, NO_TIMESTAMP, self.epochs.latest)
        if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
            return FoundOffset(self.log_start_offset, NO_TIMESTAMP, self.epochs.epoch_at(self.log_start_offset))
        if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return FoundOffset(NO_OFFSET, NO_TIMESTAMP, NO_EPOCH)
        times = np.frombuffer(self._max_timestamps_ms, np.int64)[self._first :]
        if timestamp_ms == MAX_TIMESTAMP:
            if not len(times):
                return None
            index = int(times.argmax())
            return self._find_in(self._first + index, int(times[index]))
        passed = 0
        while passed < len(times):
            late = times[passed:] >= timestamp_ms
            index = passed + int(late.argmax())
            if not late[index - passed]:
                break
            found = self._find_in(self._first + index, timestamp_ms)
            if found is not None:
                return found
            passed = index + 1  # this batch's late records are below the log start offset: try the next batch
        return None

    def _find_in(self, index: int, timestamp_ms: int) -> FoundOffset | None:
        """The first such record of a batch; None if all of them are below the log start offset."""
        batch = decode_header(self._batches[index])
        heads = look_inside(batch) or ()
        late = False
        for offset, head in enumerate(heads, batch.base_offset):
            if head.timestamp_ms >= timestamp_ms:
                late = True
                if offset >= self.log_start_offset:
                    return FoundOffset(offset, head.timestamp_ms, batch.leader_epoch)
        if late:
            return None
        offset = max(batch.base_offset, self.log_start_offset)
        return FoundOffset(offset, batch.max_timestamp_ms, batch.leader_epoch)

    def _give_up(self, kept: int, start_offset: int) -> None:
        """Remove the batches before index `kept`, and make `start_offset` the log start offset."""
        if kept > self._first:
            self._begin = self._ends[kept - 1]
            self._batches[self._first : kept] = [b""] * (kept - self._first)
            self._first = kept
        self.log_start_offset = start_offset
        self.epochs.cut_start(start_offset)
        if self._first >= _GIVEN_BACK_AT and 2 * self._first >= len(self._batches):
            del self._batches[: self._first], self._last_offsets[: self._first], self._ends[: self._first]
            del self._max_timestamps_ms[: self._first], self._appended_ms[: self._first]
            self._first = 0
