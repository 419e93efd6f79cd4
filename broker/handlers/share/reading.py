"""How a ShareFetch reads partitions and acquires what it finds. Source: `DelayedShareFetch`, `ShareFetchUtils` and
`SharePartition` of Apache Kafka 4.3."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from klamm.broker.data.control_batches import read_marker
from klamm.broker.data.partition_log import FoundBatches, PartitionLog
from klamm.broker.data.record_batches import decode_header
from klamm.broker.data.record_file import RecordFileError
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.broker.handlers.fetch_reading import MAX_FILED_BYTES
from klamm.broker.handlers.hosted import Hosted, find_partition, high_watermark, last_stable_offset, log_of
from klamm.broker.share_partitions.acquisition import Acquired, Acquisition, LogBatch, Wanted
from klamm.broker.share_partitions.leaders import MAX_IN_FLIGHT, ShareLeaders
from klamm.broker.share_partitions.releases import follow_log_start
from klamm.broker.share_partitions.share_partition import Phase, SharePartition
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.shares.share_fetch import AcquiredRecords, PartitionData

ACQUIRE_MODES = BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
"""Values of `share_acquire_mode` (KIP-1206)."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What a request asks for, as far as the broker allows it."""

    member_id: str
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    by_record: bool


class _Found(NamedTuple):
    """What can be read of a partition."""

    place: LogKey
    partition: SharePartition
    hosted: Hosted
    log: PartitionLog
    offset: int
    readable: int
    """The offset below which records may be read."""
    batches: FoundBatches | None
    """None: the log does not reach to `offset`."""


class Reading:
    """One attempt to read the share partitions of a request, in order."""

    def __init__(
        self,
        leaders: ShareLeaders,
        image: MetadataImage,
        limits: FetchLimits,
        partitions: Sequence[tuple[LogKey, SharePartition]],
        now_ms: int,
    ) -> None:
        self._leaders = leaders
        self._image = image
        self._limits = limits
        self._now_ms = now_ms
        self._found = self._find(partitions)
        self.retry_at_ms: int | None = None
        """When more records can be read, if that time is known."""
        for found in self._found:
            self._look_again(found)

    def _find(self, partitions: Sequence[tuple[LogKey, SharePartition]]) -> list[_Found]:
        """What the partitions have that can be acquired from."""
        if len(self._leaders.locks) >= MAX_IN_FLIGHT:
            return []
        ready = [(place, one) for place, one in partitions if one.phase is Phase.ACTIVE and one.can_acquire()]
        if not ready:
            return []
        share, rest = divmod(self._limits.max_bytes, len(ready))
        left, found, has_any, filed_bytes = self._limits.max_bytes, [], False, 0
        for number, (place, partition) in enumerate(ready):
            topic = self._image.topics_by_id.get(place[0])
            hosted = find_partition(self._image, self._leaders.data, topic, place[1]) if topic is not None else None
            if hosted is None:
                continue
            committed = high_watermark(hosted, self._now_ms)
            configs = partition.around.configs()
            readable = last_stable_offset(hosted, committed) if configs.read_committed else committed
            log, offset = log_of(hosted), partition.next_fetch_offset()
            most = min(left, max(1, share + (rest if number == 0 else 0)))
            batches = log.find_batches(
                offset, most, readable, at_least_one=not has_any, max_filed_bytes=MAX_FILED_BYTES - filed_bytes
            )
            if batches is not None:
                filed_bytes += batches.filed_bytes
                has_any |= batches.size_bytes > 0
                left = max(0, left - batches.size_bytes)
            found.append(_Found(place, partition, hosted, log, offset, readable, batches))
        return found

    @property
    def is_enough(self) -> bool:
        """Whether the answer is complete without more records."""
        if not self._found:
            return False
        size = 0
        for found in self._found:
            if found.batches is None or found.offset > found.readable:
                return True
            size += found.batches.size_bytes
        return size >= self._limits.min_bytes

    def acquire(self) -> dict[LogKey, PartitionData]:
        """Acquire what was found, at most `max_records`."""
        count, answers = 0, {}
        for found in self._found:
            if self._limits.max_bytes < 0:
                answers[found.place] = _failed(found.place, ErrorCode.UNKNOWN_SERVER_ERROR)
                continue
            if found.batches is None:
                follow_log_start(found.partition, found.log.log_start_offset)
                answers[found.place] = PartitionData(partition_index=found.place[1], records=b"")
                continue
            wanted = Wanted(
                self._limits.member_id,
                self._limits.max_records - count,
                self._limits.batch_size,
                self._limits.by_record,
            )
            batches = found.log.up_to(found.batches, _last_wanted(found, wanted.max_records))
            try:
                raw = found.log.batches_of(batches)
            except RecordFileError:
                answers[found.place] = _failed(found.place, ErrorCode.KAFKA_STORAGE_ERROR)
                continue
            spans = [LogBatch(*span) for span in found.log.spans(batches)]
            acquisition = Acquisition(found.partition, wanted, spans)
            acquired, acquired_count = acquisition.acquire(found.offset, _aborted(found, raw, spans))
            count += acquired_count
            answers[found.place] = PartitionData(
                partition_index=found.place[1],
                records=_sliced(raw, spans, acquired),
                acquired_records=[AcquiredRecords(**one._asdict()) for one in acquired],
            )
        return answers

    def _look_again(self, found: _Found) -> None:
        """Note when the next batch, which exists but is not replicated yet, can be read."""
        if isinstance(found.hosted, ReplicatedLog):
            end = found.hosted.log.batch_end(max(found.offset, found.readable))
            due_ms = None if end is None else found.hosted.reaches_at_ms(end, self._now_ms)
            if due_ms is not None:
                self.retry_at_ms = due_ms if self.retry_at_ms is None else min(self.retry_at_ms, due_ms)


def _last_wanted(found: _Found, max_records: int) -> int:
    """An offset behind which nothing can be acquired: batches after its own need not be read."""
    return max(found.offset, found.partition.end_offset) + max(0, max_records)


def _failed(place: LogKey, code: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=place[1], error_code=code, records=b"")


def _sliced(raw: Sequence[bytes], spans: Sequence[LogBatch], acquired: Sequence[Acquired]) -> bytes:
    """The batches with acquired records, and those between them."""
    if not acquired:
        return b""
    first, behind = 0, len(spans)
    for number, span in enumerate(spans):
        if span.first_offset <= acquired[0].first_offset:
            first = number
        elif span.first_offset > acquired[-1].last_offset:
            behind = number
            break
    return b"".join(raw[first : max(behind, first + 1)])


def _aborted(found: _Found, raw: Sequence[bytes], spans: Sequence[LogBatch]) -> list[LogBatch]:
    """The batches of aborted transactions, which a group that reads committed records does not get."""
    if not found.partition.around.configs().read_committed or not spans:
        return []
    if not isinstance(found.hosted, ReplicatedLog):
        return []
    known = list(found.hosted.transactions.aborted_between(found.offset, spans[-1].last_offset + 1))
    if not known:
        return []
    left = sorted(known, key=lambda one: one.first_offset)
    producers: set[int] = set()
    aborted = []
    for data, span in zip(raw, spans, strict=True):
        batch = decode_header(data)
        while left and left[0].first_offset <= span.last_offset:
            producers.add(left.pop(0).producer_id)
        if batch.is_control:
            if not read_marker(batch).is_commit:
                producers.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in producers:
            aborted.append(span)
    return aborted
