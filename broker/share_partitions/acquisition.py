"""How a member that fetches acquires records: available ones again, then new ones.

Records are acquired by whole batches of the log, so that a member need not share one with another; with the mode
`record_limit` (KIP-1206) by single records. Order of the rules: `SharePartition.acquire` of Apache Kafka 4.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from klamm.broker.share_partitions.in_flight import InFlight, InFlightBatch, RecordState
from klamm.broker.share_partitions.releases import archive_between, archive_stale
from klamm.broker.share_partitions.share_partition import Phase, SharePartition

FIRST_DELIVERY: Final = 1
LEAST_LIMITED: Final = 2
"""With a delivery limit above this, the last delivery of a record is of this record alone."""


class LogBatch(NamedTuple):
    """First and last offset of a batch of the log."""

    first_offset: int
    last_offset: int


class Acquired(NamedTuple):
    """Records that a member has acquired, with their delivery count."""

    first_offset: int
    last_offset: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a fetch asks of a share partition."""

    member_id: str
    max_records: int
    batch_size: int
    """About how many records an entry of the answer has."""
    by_record: bool
    """Mode `record_limit`: not more than `max_records`, even if a batch has more."""


class Acquisition:
    """One attempt of a member to acquire records."""

    def __init__(self, partition: SharePartition, wanted: Wanted, log_batches: Sequence[LogBatch]) -> None:
        """`log_batches` are those that were read, from the batch with the fetch offset on."""
        self._partition = partition
        self._wanted = wanted
        self._log = log_batches
        self._found: list[Acquired] = []
        self._count = 0

    def acquire(self, fetch_offset: int, aborted: Sequence[LogBatch] = ()) -> tuple[list[Acquired], int]:
        """What was acquired, and how many records count as that. `aborted`: batches of aborted transactions, which are
        archived instead."""
        partition = self._partition
        if partition.phase is not Phase.ACTIVE or self._wanted.max_records <= 0 or not self._log:
            return [], 0
        if self._log[-1].last_offset < partition.start_offset:
            return [], 0
        last_offset, most = self._limits(fetch_offset, self._log[-1].last_offset)
        if most <= 0:
            return [], 0
        base = self._log[0].first_offset
        archive_stale(partition, fetch_offset, base)
        floor = partition.batches.floor(base)
        if floor is None:
            base = max(base, partition.start_offset)
        elif floor.last_offset >= base:
            base = floor.first_offset
        known = partition.batches.between(min(self._log[0].first_offset, base), last_offset)
        if not known:
            self._acquire_new(base, last_offset, most)
        else:
            self._acquire_known(known, base, last_offset, most)
        if aborted and self._found:
            self._leave_out(aborted)
        return self._found, self._count

    def _limits(self, fetch_offset: int, last_offset: int) -> tuple[int, int]:
        """The last offset and the most records that may be acquired, by the limit of records in flight."""
        partition = self._partition
        most = min(self._wanted.max_records, partition.around.configs().max_locks - partition.in_flight_count)
        if most <= 0 and fetch_offset <= partition.end_offset:
            # What is in flight already may be acquired again.
            most = min(self._wanted.max_records, partition.end_offset - fetch_offset + 1)
            last_offset = min(last_offset, partition.end_offset)
        return last_offset, most

    # -- records that are in flight --------------------------------------------------------------------------------

    def _acquire_known(self, known: Sequence[InFlightBatch], base: int, last_offset: int, most: int) -> None:
        partition, gap_start = self._partition, base
        is_throttled = False
        for batch in known:
            if self._count >= most:
                break
            if partition.gap_is_open:
                if gap_start < batch.first_offset:
                    self._acquire_new(gap_start, batch.first_offset - 1, most - self._count)
                gap_start = batch.last_offset + 1
                if self._count >= most:
                    break
            is_throttled = self._acquire_batch(batch, last_offset, most)
            if is_throttled:
                break
        if not is_throttled and self._count < most and known[-1].last_offset < last_offset:
            self._acquire_new(known[-1].last_offset + 1, last_offset, most - self._count)
        if self._found:
            partition.move_gap(self._found[-1].last_offset + 1)

    def _acquire_batch(self, batch: InFlightBatch, last_offset: int, most: int) -> bool:
        """Acquire what is available of a batch. Whether nothing more is to be acquired, because its records were
        delivered so often that they are delivered a few at a time."""
        partition, first_offset = self._partition, self._log[0].first_offset
        is_throttled = self._is_throttled(batch, last_offset)
        if is_throttled and self._count > 0:
            return True
        is_cut = self._wanted.by_record and batch.count > most - self._count
        is_whole = batch.is_within(first_offset, last_offset) and not is_cut and not is_throttled
        if batch.whole is None or not is_whole:
            if batch.whole is not None:
                if not batch.whole.is_free:
                    return False
                partition.split(batch)
            before = self._count
            self._acquire_offsets(batch, last_offset, most - self._count)
            return is_throttled and self._count > before
        whole = batch.whole
        limit = partition.around.configs().delivery_limit
        if whole.is_free and whole.move(RecordState.ACQUIRED, limit, self._wanted.member_id):
            whole.lock = partition.lock(self._wanted.member_id, batch.first_offset, batch.last_offset)
            self._found.append(Acquired(batch.first_offset, batch.last_offset, whole.delivery_count))
            self._count += batch.count
        return False

    def _is_throttled(self, batch: InFlightBatch, last_offset: int) -> bool:
        first_offset = self._log[0].first_offset
        counts = (
            state.delivery_count
            for first, _, state in batch.states()
            if state.is_free and (batch.whole is not None or first_offset <= first <= last_offset)
        )
        return max(counts, default=0) >= self._partition.around.configs().throttle_limit

    def _acquire_offsets(self, batch: InFlightBatch, last_offset: int, most: int) -> None:
        """Acquire single records of a batch."""
        partition, wanted = self._partition, self._wanted
        configs, first_offset = partition.around.configs(), self._log[0].first_offset
        limit, is_limited = configs.delivery_limit, configs.delivery_limit > LEAST_LIMITED
        found: list[Acquired] = []
        most_throttled: int | None = None
        for offset, state in batch.offsets.items():
            if offset > last_offset:
                break
            if offset < first_offset or not state.is_free:
                continue
            if is_limited and state.delivery_count == limit - 1 and found:
                break  # the last delivery of a record is of this record alone
            if state.delivery_count >= configs.throttle_limit and most_throttled is None:
                most_throttled = max(1, len(batch.offsets) >> (state.delivery_count - configs.throttle_limit + 1))
            if not state.move(RecordState.ACQUIRED, limit, wanted.member_id):
                continue
            state.lock = partition.lock(wanted.member_id, offset, offset)
            found.append(Acquired(offset, offset, state.delivery_count))
            is_last_delivery = is_limited and state.delivery_count == limit
            if is_last_delivery or (wanted.by_record and len(found) == most) or len(found) == most_throttled:
                break
        self._found += _joined(found)
        self._count += len(found)

    # -- new records -----------------------------------------------------------------------------------------------

    def _acquire_new(self, first_offset: int, last_offset: int, most: int) -> None:
        """Acquire records of which no delivery has begun, up to the end of a batch of the log."""
        partition = self._partition
        first, last = first_offset, last_offset
        if not partition.batches and partition.end_offset > first:
            first = partition.end_offset
        if most < last - first + 1:
            last = self._end_of_batch(first + most - 1)
            if partition.gap_is_open:
                last = min(last, last_offset)
        acquired = self._make_batches(first, last, most)
        if partition.batches.first.first_offset == first:
            partition.start_offset = first
        partition.end_offset = max(partition.end_offset, last)
        if self._wanted.by_record:
            last = acquired[0].last_offset
        partition.move_gap(last + 1)
        self._found += acquired
        self._count += last - first + 1

    def _end_of_batch(self, offset: int) -> int:
        """The last offset of the batch of the log with `offset`; `offset` if there is none."""
        for batch in reversed(self._log):
            if offset >= batch.first_offset:
                return max(offset, batch.last_offset)
        return offset

    def _make_batches(self, first: int, last: int, most: int) -> list[Acquired]:
        wanted, partition = self._wanted, self._partition
        acquired: list[Acquired] = []
        if not wanted.by_record and last - first + 1 > wanted.batch_size:
            for batch in self._log:
                if batch.first_offset > last:
                    break
                if batch.first_offset - first >= wanted.batch_size:
                    acquired.append(Acquired(first, batch.first_offset - 1, FIRST_DELIVERY))
                    first = batch.first_offset
        acquired.append(Acquired(first, last, FIRST_DELIVERY))
        if wanted.by_record and last - first + 1 > most:
            return [self._make_cut_batch(first, last, most)]
        for one in acquired:
            lock = partition.lock(wanted.member_id, one.first_offset, one.last_offset)
            whole = InFlight(RecordState.ACQUIRED, FIRST_DELIVERY, wanted.member_id, lock)
            partition.batches.put(InFlightBatch(one.first_offset, one.last_offset, whole))
        return acquired

    def _make_cut_batch(self, first: int, last: int, most: int) -> Acquired:
        """A batch of which only the first records are acquired."""
        partition = self._partition
        whole = InFlight(RecordState.ACQUIRED, FIRST_DELIVERY, self._wanted.member_id)
        batch = InFlightBatch(first, last, whole)
        delay_ms = partition.around.configs().lock_duration_ms
        batch.split_at(first + most - 1, partition.around.start_lock, delay_ms)
        partition.batches.put(batch)
        partition.find_next_fetch_offset = True
        return Acquired(first, first + most - 1, FIRST_DELIVERY)

    # -- aborted transactions --------------------------------------------------------------------------------------

    def _leave_out(self, aborted: Sequence[LogBatch]) -> None:
        """Archive the records of aborted transactions, and take them out of what was acquired."""
        partition = self._partition
        for batch in aborted:
            among = partition.batches.around(batch.first_offset, batch.last_offset)
            archive_between(
                partition, among, batch.first_offset, batch.last_offset + 1, RecordState.ACQUIRED, counts=True
            )
        self._found = [part for one in self._found for part in _without(one, aborted)]
        self._count = sum(one.last_offset - one.first_offset + 1 for one in self._found)


def _joined(found: Sequence[Acquired]) -> list[Acquired]:
    """Neighbours with one delivery count as one."""
    joined: list[Acquired] = []
    for one in found:
        last = joined[-1] if joined else None
        if last is not None and one.first_offset == last.last_offset + 1 and one.delivery_count == last.delivery_count:
            joined[-1] = last._replace(last_offset=one.last_offset)
        else:
            joined.append(one)
    return joined


def _without(one: Acquired, aborted: Sequence[LogBatch]) -> list[Acquired]:
    """What is left of acquired records without these batches, which are in ascending order."""
    left: list[Acquired] = []
    for batch in aborted:
        if batch.last_offset < one.first_offset or batch.first_offset > one.last_offset:
            continue
        if one.first_offset < batch.first_offset:
            left.append(one._replace(last_offset=batch.first_offset - 1))
        if one.last_offset <= batch.last_offset:
            return left
        one = one._replace(first_offset=batch.last_offset + 1)
    return [*left, one]
