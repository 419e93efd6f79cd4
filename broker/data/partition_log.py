"""The records of one partition: whole batches as bytes, with their offsets.

This module assigns offsets, as Kafka's UnifiedLog does. `stored_batches` holds the bytes and the index of the batches.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from klamm.broker.data.record_batches import NO_TIMESTAMP, ProducedBatch, decode_header, stamp
from klamm.broker.data.record_room import RecordRoom
from klamm.broker.data.records import times_inside
from klamm.broker.data.segments import Segments
from klamm.broker.data.stored_batches import StoredBatch, StoredBatches
from klamm.controller.configs import CleanupRules
from klamm.controller.leader_epochs import NO_EPOCH, NO_OFFSET, LeaderEpochs

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
"""The special timestamps of ListOffsets requests."""

ANY_SIZE: Final = 2**63 - 1


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
    filed_bytes: int
    """How many of these bytes are in the file, or a few more."""
    is_cut: bool
    """Whether there would be more without a limit for bytes from the file."""


_NO_BATCHES: Final = FoundBatches(0, 0, 0, 0, is_cut=False)


class PartitionLog:
    """One log: offsets from `log_start_offset` to before `log_end_offset`."""

    __slots__ = (
        "_latest_append_ms",
        "_stored",
        "cleaned_offset",
        "cuts",
        "epochs",
        "log_end_offset",
        "log_start_offset",
        "segments",
    )

    def __init__(self, room: RecordRoom, start_offset: int = 0, *, spills: bool = True) -> None:
        """`spills`: whether batches may go to the file of the room."""
        self.log_start_offset = start_offset
        self.log_end_offset = start_offset
        self.epochs = LeaderEpochs()
        self.segments = Segments(start_offset)
        self.cleaned_offset = start_offset
        """Records below this offset were compacted."""
        self.cuts = 0
        """How often the end of the log was cut off."""
        self._latest_append_ms = 0
        self._stored = StoredBatches(room, spills=spills)

    def begin_at(self, offset: int) -> None:
        """Let the next record have this offset, which is at least the log end offset."""
        if self._stored.first == self._stored.behind:
            self.log_start_offset = offset
            self.segments.begin_at(offset)
        self.log_end_offset = offset

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches in the log."""
        return self._stored.size_bytes

    def append(self, batch: ProducedBatch, leader_epoch: int, now_ms: int, *, log_append_time: bool = False) -> int:
        """Append a batch; the caller has made room for it. Returns its first offset. With `log_append_time` its records
        get the timestamp `now_ms`."""
        base_offset = self.log_end_offset
        records = stamp(batch, base_offset, leader_epoch, now_ms if log_append_time else None)
        self.epochs.begin(leader_epoch, base_offset)
        self.log_end_offset = base_offset + batch.record_count
        max_timestamp_ms = now_ms if log_append_time else batch.max_timestamp_ms
        self._stored.append(records, (base_offset, self.log_end_offset - 1), max_timestamp_ms, now_ms)
        self._latest_append_ms = now_ms
        self.segments.note_batch(max_timestamp_ms, now_ms)
        return base_offset

    def roll(self, size: int, max_timestamp_ms: int, rules: CleanupRules, now_ms: int) -> None:
        """Begin a new segment if a batch of this size, the next one to append, does not belong to the active one."""
        active = self.segments.active
        held = self.size_bytes - self.size_below(active.base_offset)
        is_full = held + size > rules.segment_bytes
        if held and (is_full or active.age_ms(max_timestamp_ms, now_ms) > rules.max_segment_ms):
            self.segments.begin(self.log_end_offset, now_ms)

    def read(self, offset: int, max_bytes: int, up_to_offset: int, *, at_least_one: bool = True) -> bytes | None:
        """Whole batches, from the one that holds `offset` on, all of whose records are below `up_to_offset`; no more of
        them than fit into `max_bytes`, but `at_least_one`. None: the log does not reach to `offset`
        (OFFSET_OUT_OF_RANGE). Raises RecordFileError."""
        found = self.find_batches(offset, max_bytes, up_to_offset, at_least_one=at_least_one)
        return None if found is None else self.join(found)

    def find_batches(
        self,
        offset: int,
        max_bytes: int,
        up_to_offset: int,
        *,
        at_least_one: bool = True,
        max_filed_bytes: int = ANY_SIZE,
    ) -> FoundBatches | None:
        """The batches that `read` would return, without copying their bytes. No more of them than fit into
        `max_filed_bytes` are in the file, but `at_least_one`."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            return None
        stored = self._stored
        first = bisect_left(stored.last_offsets, offset, stored.first)
        behind = bisect_left(stored.last_offsets, up_to_offset, stored.first)
        if first >= behind:
            return _NO_BATCHES
        begin = stored.start_of(first)
        fitting = bisect_right(stored.ends, begin + max_bytes, first, behind)
        is_cut = stored.filed_bytes(first, fitting) > max_filed_bytes
        if is_cut:
            fitting = bisect_right(stored.ends, begin + max_filed_bytes, first, fitting)
        fitting = max(fitting, first + at_least_one)
        if fitting == first:
            return FoundBatches(0, 0, 0, 0, is_cut)
        size_bytes = stored.ends[fitting - 1] - begin
        return FoundBatches(first, fitting, size_bytes, stored.filed_bytes(first, fitting), is_cut)

    def up_to(self, found: FoundBatches, offset: int) -> FoundBatches:
        """Those of the batches from `find_batches` that begin at an offset or before it, but one at least."""
        if not found.size_bytes:
            return found
        behind = bisect_right(self._stored.base_offsets, offset, found.first + 1, found.behind)
        return found._replace(behind=behind)

    def join(self, found: FoundBatches) -> bytes:
        """The bytes of batches from `find_batches`, called before the log has changed. Raises RecordFileError."""
        return self._stored.join(found.first, found.behind)

    def spans(self, found: FoundBatches) -> list[tuple[int, int]]:
        """First and last offset of each batch from `find_batches`, called before the log has changed."""
        stored = self._stored
        return [(stored.base_offsets[index], stored.last_offsets[index]) for index in range(found.first, found.behind)]

    def batches_of(self, found: FoundBatches) -> list[bytes]:
        """The bytes of each batch from `find_batches`, called before the log has changed. Raises RecordFileError."""
        return [self._stored.read(index) for index in range(found.first, found.behind)]

    def last_offset_of(self, found: FoundBatches) -> int:
        """The last offset of batches from `find_batches`, of which there is one at least."""
        return self._stored.last_offsets[found.behind - 1]

    def size_below(self, offset: int) -> int:
        """The bytes of the batches all of whose records are below `offset`."""
        return self._stored.start_of(self._index_of(offset)) - self._stored.begin

    @property
    def batch_count(self) -> int:
        """The number of batches."""
        return self._stored.behind - self._stored.first

    def size_between(self, offset: int, end_offset: int) -> int:
        """The bytes of the batches between two offsets at which batches begin or end."""
        return self.size_below(end_offset) - self.size_below(offset)

    def latest_ms(self, offset: int, end_offset: int) -> int:
        """The largest timestamp of a record between the offsets of a segment; if no record has one, when the newest was
        appended, or the segment was begun."""
        first, behind = self._index_of(offset), self._index_of(end_offset)
        if first == behind:
            return self.segments.created_ms(offset)
        latest_ms = int(np.array(self._stored.max_timestamps_ms[first:behind]).max())
        return latest_ms if latest_ms >= 0 else self._stored.appended_ms[behind - 1]

    def offset_after(self, batches: int) -> int:
        """The offset after so many of the oldest batches."""
        stored = self._stored
        index = stored.first + batches
        return stored.last_offsets[index - 1] + 1 if index <= stored.behind else self.log_end_offset

    def first_timestamp_ms(self, offset: int) -> int:
        """The largest timestamp of the first batch at or above an offset; -1: there is none, or it has no time."""
        index = self._index_of(offset)
        return self._stored.max_timestamps_ms[index] if index < self._stored.behind else NO_TIMESTAMP

    def batch_end(self, offset: int) -> int | None:
        """The offset after the batch that contains `offset`; None if the log has no such batch."""
        index = self._index_of(offset)
        return self._stored.last_offsets[index] + 1 if index < self._stored.behind else None

    def batch_start(self, offset: int) -> int:
        """The first offset of the batch that contains `offset`; `offset` itself if no batch does."""
        index = self._index_of(offset)
        return offset if index == self._stored.behind else min(offset, self._stored.base_offsets[index])

    def truncate_to(self, offset: int) -> None:
        """Remove the records from `offset` on, so that the log ends there. As in Kafka, a batch that contains `offset`
        is removed as a whole, which leaves a gap. An offset at or above the end changes nothing."""
        if offset >= self.log_end_offset:
            return
        self._stored.remove_from(self._index_of(offset))
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.cleaned_offset = min(self.cleaned_offset, offset)
        self.cuts += 1
        self.segments.cut_end(offset)
        self.epochs.cut_end(offset)

    def delete_before(self, offset: int) -> None:
        """Make `offset` the log start offset; it is at most the log end offset (DeleteRecords, KIP-107). A batch that
        contains it stays whole, and readers skip the records before it."""
        if offset > self.log_start_offset:
            self._stored.remove_before(self._index_of(offset))
            self.log_start_offset = offset
            self.segments.cut_start(offset)
            self.epochs.cut_start(offset)

    def spill(self, most_bytes: int) -> bool:
        """Write the oldest batches in memory to the file, one at least. Returns False if the file takes none."""
        return self._stored.spill(most_bytes)

    def remove(self) -> None:
        """Give up all batches, because the topic is deleted."""
        self._stored.remove_before(self._stored.behind)

    def _index_of(self, offset: int) -> int:
        """The index of the first batch with a record at or above `offset`."""
        return bisect_left(self._stored.last_offsets, offset, self._stored.first)

    def batch_at(self, offset: int) -> ProducedBatch | None:
        """The batch with `offset`, or the first one above it. Raises RecordFileError."""
        index = self._index_of(offset)
        return decode_header(self._stored.read(index)) if index < self._stored.behind else None

    def replace(self, offset: int, end_offset: int, written: Sequence[ProducedBatch]) -> None:
        """Replace the batches between two offsets by what compaction left of them. Batches that are below the log start
        offset meanwhile stay away."""
        stored = self._stored
        first, behind = self._index_of(offset), self._index_of(end_offset)
        found = []
        for batch in written:
            last_offset = batch.base_offset + batch.last_offset_delta
            index = self._index_of(last_offset)
            if index < behind and stored.last_offsets[index] == last_offset:
                latest_ms = batch.max_timestamp_ms if batch.record_count else NO_TIMESTAMP
                appended_ms = stored.appended_ms[index]
                found.append(StoredBatch(batch.records, batch.base_offset, last_offset, latest_ms, appended_ms))
        if first < behind:
            stored.replace(first, behind, found)

    def begin_leader_epoch(self, leader_epoch: int) -> None:
        """Begin a leader epoch at the log end offset."""
        self.epochs.begin(leader_epoch, self.log_end_offset)

    def epoch_end_offset(self, requested_epoch: int) -> tuple[int, int]:
        """What OffsetForLeaderEpoch answers: an epoch, and the offset at which it ends; (-1, -1) if unknown."""
        return self.epochs.end_offset(requested_epoch, self.log_end_offset)

    def appended_ms(self, offset: int) -> int:
        """When (ms) the first record at or above `offset` was appended; if there is none, the last append."""
        index = self._index_of(offset)
        return self._stored.appended_ms[index] if index < self._stored.behind else self._latest_append_ms

    def find_offset(self, timestamp_ms: int) -> FoundOffset | None:
        """The first record whose timestamp is at least `timestamp_ms`, or the answer to one of the special timestamps;
        None if there is no such record. LATEST is the log end offset here, not the high watermark.

        If the records of a batch cannot be decoded, the batch's first record is returned. There is no tiered storage,
        so EARLIEST_LOCAL is EARLIEST, and tiered offsets are -1 (KIP-405, KIP-1005). Raises RecordFileError.
        """
        if timestamp_ms == LATEST:
            return FoundOffset(self.log_end_offset, NO_TIMESTAMP, self.epochs.latest)
        if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
            return FoundOffset(self.log_start_offset, NO_TIMESTAMP, self.epochs.epoch_at(self.log_start_offset))
        if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return FoundOffset(NO_OFFSET, NO_TIMESTAMP, NO_EPOCH)
        times, first = np.frombuffer(self._stored.max_timestamps_ms, np.int64), self._stored.first
        times = times[first:]
        if timestamp_ms == MAX_TIMESTAMP:
            if not len(times):
                return None
            index = int(times.argmax())
            return self._find_in(first + index, int(times[index]))
        passed = 0
        while passed < len(times):
            late = times[passed:] >= timestamp_ms
            index = passed + int(late.argmax())
            if not late[index - passed]:
                break
            found = self._find_in(first + index, timestamp_ms)
            if found is not None:
                return found
            passed = index + 1  # this batch's late records are below the log start offset: try the next batch
        return None

    def _find_in(self, index: int, timestamp_ms: int) -> FoundOffset | None:
        """The first such record of a batch; None if all of them are below the log start offset."""
        batch = decode_header(self._stored.read(index))
        records = times_inside(batch)
        for record in records or ():
            offset = batch.base_offset + record.offset_delta
            if record.timestamp_ms >= timestamp_ms and offset >= self.log_start_offset:
                return FoundOffset(offset, record.timestamp_ms, batch.leader_epoch)
        if records is not None:  # the late records are below the log start offset, or compaction has removed all
            return None
        offset = max(batch.base_offset, self.log_start_offset)
        return FoundOffset(offset, batch.max_timestamp_ms, batch.leader_epoch)
