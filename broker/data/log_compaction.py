"""Compaction of one log: of each key only the newest record stays, in steps. Source: LogCleaner and Cleaner of Apache
Kafka.

A compaction first reads the dirty part, the segments that were not compacted before, and notes the newest offset of
each key. Then it reads the log from its begin and replaces batches by what is left of them, some at a time: offsets
stay, so readers notice nothing but the records that are gone. The active segment and records that are not decided are
left out.
"""

from collections.abc import Generator, Iterator
from hashlib import blake2b
from itertools import islice
from typing import Final, NamedTuple

from klamm.broker.data.cleaned_transactions import CleanedTransactions
from klamm.broker.data.control_batches import read_marker
from klamm.broker.data.exact_records import RecordHead
from klamm.broker.data.filtered_batches import OpenBatch, Unfiltered, delete_horizon_ms, without_records
from klamm.broker.data.partition_log import PartitionLog
from klamm.broker.data.record_batches import ProducedBatch
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.controller.configs import CleanupRules

RECORDS_PER_STEP: Final = 2_000
BYTES_PER_STEP: Final = 1024 * 1024
"""A step ends when it has read so many records or bytes: some 10 ms."""
MAX_KEYS: Final = 500_000
"""The keys that one compaction notes, about 60 MB. With more keys it stops early, and another one follows."""
MAX_SEGMENTS: Final = 1_000
"""The dirty segments that one compaction takes, for the same reason: about 5 ms to decide."""
_KEY_BYTES: Final = 16
_BATCH_COST: Final = 4
"""What a batch costs beside its records, in records."""


class Dirty(NamedTuple):
    """The part of a log that can be compacted: the segments between two offsets."""

    begin: int
    end: int
    ratio: float
    """Its share of the bytes up to its end."""
    is_needed: bool
    """Whether one of its records has waited for longer than max.compaction.lag.ms."""


def dirty_part(found: ReplicatedLog, rules: CleanupRules, now_ms: int) -> Dirty | None:
    """What compaction would read; None: nothing, or not enough."""
    log = found.log
    begin = max(log.cleaned_offset, log.log_start_offset)
    limit = found.last_stable_offset(found.high_watermark(now_ms))
    end, oldest_ms = begin, None
    for base_offset, end_offset in islice(log.segments.closed(begin), MAX_SEGMENTS):
        lag_ms = now_ms - log.latest_ms(base_offset, end_offset)
        if end_offset > limit or (rules.min_compaction_lag_ms > 0 and lag_ms < rules.min_compaction_lag_ms):
            break
        first_ms = log.first_timestamp_ms(base_offset)
        if first_ms > 0:
            oldest_ms = first_ms if oldest_ms is None else min(oldest_ms, first_ms)
        end = end_offset
    size = log.size_between(begin, end) if end > begin else 0
    if not size:
        return None
    is_needed = oldest_ms is not None and oldest_ms < now_ms - rules.max_compaction_lag_ms
    ratio = size / (size + log.size_below(begin))
    return Dirty(begin, end, ratio, is_needed) if is_needed or ratio > rules.min_cleanable_dirty_ratio else None


class LogCompaction:
    """One compaction."""

    def __init__(self, found: ReplicatedLog, dirty: Dirty, rules: CleanupRules, now_ms: int) -> None:
        self._found = found
        self._log: PartitionLog = found.log
        self._begin, self._end = dirty.begin, dirty.end
        self._rules = rules
        self._now_ms = now_ms
        self._cuts = found.log.cuts
        self._newest: dict[bytes, int] = {}
        self._work = 0
        self._producers = found.producers.newest_written()
        self._merged = _groups(found.log, dirty.end, rules.segment_bytes)

    @property
    def is_obsolete(self) -> bool:
        """Whether the end of the log was cut off, so that what is known of keys may be wrong."""
        return self._log.cuts != self._cuts

    def steps(self) -> Iterator[None]:
        """The work, with a pause after each step. Do not go on once it is obsolete. Raises RecordFileError."""
        yield from self._note_keys()
        yield from self._filter()
        self._log.segments.merge(self._merged)
        self._log.cleaned_offset = self._end

    def _pause(self, cost: int) -> bool:
        self._work += cost
        if self._work < RECORDS_PER_STEP:
            return False
        self._work = 0
        return True

    def _batches(self, offset: int) -> Iterator[ProducedBatch]:
        """The batches up to the end of the dirty part, whatever is deleted meanwhile."""
        while offset < self._end:
            batch = self._log.batch_at(max(offset, self._log.log_start_offset))
            if batch is None or batch.base_offset >= self._end:
                return
            yield batch
            offset = batch.base_offset + batch.last_offset_delta + 1

    def _aborted(self, offset: int) -> CleanedTransactions:
        return CleanedTransactions(self._found.transactions.aborted_between(offset, self._end))

    # -- keys ------------------------------------------------------------------------------------------------------

    def _note_keys(self) -> Iterator[None]:
        transactions = self._aborted(self._begin)
        for batch in self._batches(self._begin):
            if batch.is_control:
                transactions.is_empty(batch)
            elif not transactions.is_aborted(batch):
                yield from self._note_keys_of(batch)
                if self._end <= batch.base_offset + batch.last_offset_delta:
                    return
            if self._pause(_BATCH_COST + len(batch.records) * RECORDS_PER_STEP // BYTES_PER_STEP):
                yield

    def _note_keys_of(self, batch: ProducedBatch) -> Iterator[None]:
        try:
            opened = OpenBatch(batch)
            for head in opened:
                offset = batch.base_offset + head.offset_delta
                if head.key_size >= 0 and offset >= self._begin:
                    key = _digest(opened.key(head))
                    if len(self._newest) >= MAX_KEYS and key not in self._newest:
                        self._end = offset
                        return
                    self._newest[key] = offset
                if self._pause(1):
                    yield
        except Unfiltered:
            return

    # -- batches ---------------------------------------------------------------------------------------------------

    def _filter(self) -> Iterator[None]:
        """Replace the batches up to the end, those of one step at a time."""
        transactions = self._aborted(self._log.log_start_offset)
        written: list[ProducedBatch] = []
        begin = end_offset = self._log.log_start_offset
        has_changed = False
        for batch in self._batches(begin):
            end_offset = batch.base_offset + batch.last_offset_delta + 1
            kept = yield from self._filtered(batch, transactions)
            has_changed = has_changed or kept is not batch
            if kept is not None:
                written.append(kept)
            if self._pause(_BATCH_COST + len(batch.records) * RECORDS_PER_STEP // BYTES_PER_STEP):
                if has_changed:
                    self._log.replace(begin, end_offset, written)
                written, begin, has_changed = [], end_offset, False
                yield
        if has_changed:
            self._log.replace(begin, end_offset, written)

    def _filtered(
        self, batch: ProducedBatch, transactions: CleanedTransactions
    ) -> Generator[None, None, ProducedBatch | None]:
        """What is left of a batch: itself, if nothing changes; None: nothing."""
        horizon_ms = delete_horizon_ms(batch)
        goes = self._is_discarded(batch, transactions)
        has_empty_marker = goes and batch.is_control
        if has_empty_marker:
            goes = horizon_ms is not None and horizon_ms <= self._now_ms
        kept: list[RecordHead] = []
        has_tombstones = False
        opened = None
        if not goes and batch.record_count:
            try:
                opened = OpenBatch(batch)
                for head in opened:
                    if batch.is_control or self._stays(batch, opened, head, horizon_ms):
                        kept.append(head)
                        has_tombstones = has_tombstones or head.value_size < 0
                    if self._pause(1):
                        yield
            except Unfiltered:
                return batch
        if opened is not None and kept:
            if (has_tombstones or has_empty_marker) and horizon_ms is None:
                return opened.with_records(kept, self._now_ms + self._rules.delete_retention_ms)
            return batch if len(kept) == batch.record_count else opened.with_records(kept, horizon_ms)
        return self._without_records(batch) if self._keeps_empty(batch) else None

    def _is_discarded(self, batch: ProducedBatch, transactions: CleanedTransactions) -> bool:
        """Whether a batch is of an aborted transaction, or a marker of which no transaction is left."""
        if not batch.is_control:
            return transactions.is_aborted(batch)
        is_empty = transactions.is_empty(batch)
        if is_empty and not read_marker(batch).is_commit:
            self._found.transactions.forget_aborted(batch.base_offset)
        return is_empty

    def _stays(self, batch: ProducedBatch, opened: OpenBatch, head: RecordHead, horizon_ms: int | None) -> bool:
        """Whether a record is the newest of its key, and no tombstone whose time is over."""
        offset = batch.base_offset + head.offset_delta
        if offset >= self._end:
            return True
        if head.key_size < 0 or offset < self._newest.get(_digest(opened.key(head)), -1):
            return False
        return head.value_size >= 0 or horizon_ms is None or self._now_ms < horizon_ms

    def _keeps_empty(self, batch: ProducedBatch) -> bool:
        """Whether a batch stays without records: the newest one of a producer, whose sequence numbers it has, and the
        last one that is compacted, which has the offset."""
        if batch.base_offset + batch.last_offset_delta + 1 == self._end:
            return True
        newest = self._producers.get(batch.producer_id) if batch.is_idempotent else None
        if newest is None:
            return False
        last_offset, producer_epoch = newest
        if last_offset is None:
            return batch.is_control and batch.producer_epoch == producer_epoch
        return batch.base_offset + batch.last_offset_delta == last_offset

    def _without_records(self, batch: ProducedBatch) -> ProducedBatch:
        return without_records(batch) if batch.record_count else batch


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_KEY_BYTES).digest()


def _groups(log: PartitionLog, end: int, segment_bytes: int) -> set[int]:
    """The segments that become a part of the one before them: as Kafka's cleaner, neighbours whose bytes fit into one
    segment."""
    merged: set[int] = set()
    size = 0
    for base_offset, end_offset in log.segments.closed():
        if end_offset > end:
            break
        own = log.size_between(base_offset, end_offset)
        if size and size + own <= segment_bytes:
            merged.add(base_offset)
            size += own
        else:
            size = own
    return merged
