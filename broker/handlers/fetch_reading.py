"""Reads the partitions of a fetch: what each may show, and when more can be shown.

Records below the high watermark are read, with the isolation level read_committed below the last stable offset
(KIP-98): whole batches, the first one of any size, others while they fit. Order of the checks: Partition.readRecords.
"""

from collections.abc import Sequence
from typing import NamedTuple

from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.down_conversion import Conversion, down_converted, overflow, target_format
from klamm.broker.data.partition_log import FoundBatches, PartitionLog
from klamm.broker.data.record_file import RecordFileError
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.broker.fetch_sessions import WantedPartition
from klamm.broker.handlers.hosted import (
    ANY_EPOCH,
    Hosted,
    find_partition,
    high_watermark,
    last_stable_offset,
    log_end_offset,
    log_of,
    validate_hosted,
)
from klamm.controller.leader_epochs import NO_EPOCH, NO_OFFSET
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.controller.requester import Requester
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    LeaderIdAndEpoch,
    PartitionData,
)
from klamm.protocol.uuid import ZERO_UUID
from klamm.quick_dataclasses import dataclass

LAST_VERSION_WITH_HARD_LIMIT = 2
"""Up to this version, no answer has more bytes than were asked for."""
FIRST_VERSION_FROM_FOLLOWERS = 11
FIRST_VERSION_WITH_LEADERS = 16
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
MAX_FILED_BYTES = 8 * 1024 * 1024
"""The most bytes that an answer reads from the file for records beyond the memory budget: about 4 ms of the event loop.
An answer that could have more waits for nothing else."""
_TELL_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class Asked(NamedTuple):
    """What a delayed answer keeps from its request."""

    requester: Requester
    api_version: int
    max_bytes: int
    """`fetch.max.bytes` of the broker that was asked, in bytes, or less if the consumer's quota allows less."""
    closest_to: str | None = None
    """The rack whose replicas the consumer prefers; None: it reads from the broker that it asked."""


@dataclass(slots=True)
class Answered:
    """The answer for one partition. Its records are located, and copied when the response is complete."""

    wanted: WantedPartition
    answer: PartitionData
    log: PartitionLog | None = None
    batches: FoundBatches | None = None

    @property
    def records_bytes(self) -> int:
        return 0 if self.batches is None else self.batches.size_bytes

    def copy_records(self, api_version: int, room: Conversion) -> None:
        """Copy the records into the answer. They may be in a file that cannot be read, or have no form that the version
        can read."""
        if self.log is None or self.batches is None:
            return
        try:
            records: bytes | ErrorCode = self.log.join(self.batches)
        except RecordFileError:
            records = ErrorCode.KAFKA_STORAGE_ERROR
        magic = target_format(api_version)
        if magic is not None and isinstance(records, bytes):
            records = down_converted(records, self.wanted.request.fetch_offset, magic, room)
        if isinstance(records, ErrorCode):
            self.answer.error_code, self.batches = records, None
        else:
            self.answer.records = records


def is_replica(request: FetchRequest) -> bool:
    """Whether a broker asks, or says so."""
    return max(request.replica_id, request.replica_state.replica_id) >= 0


def refused(wanted: FetchPartition, code: ErrorCode) -> PartitionData:
    """The answer for a partition that is not read."""
    return PartitionData(
        partition_index=wanted.partition,
        error_code=code,
        high_watermark=NO_OFFSET,
        records=b"",
    )


class Reading:
    """One attempt to read the partitions of a request, in order."""

    def __init__(self, request: FetchRequest, asked: Asked, now_ms: int, *, news_only: bool) -> None:
        """`news_only`: partitions about which the client knows everything are left out (KIP-227)."""
        self.asked = asked
        self.keys: list[LogKey] = []
        """The partitions that were found."""
        self.found: list[Answered] = []
        self.leaders: list[int] = []
        """The leaders that clients have to ask instead of this broker."""
        self.retry_at_ms: int | None = None
        """When more records can be read, if that time is known."""
        self._request = request
        self._now_ms = now_ms
        self._news_only = news_only
        self._broker_id = asked.requester.asked_broker_id
        self._is_replica = is_replica(request)
        self._reads_committed = request.isolation_level == READ_COMMITTED
        self._max_bytes = min(request.max_bytes, asked.max_bytes)
        self._size_bytes = self._filed_bytes = 0
        self._is_urgent = False

    @property
    def is_enough(self) -> bool:
        """Whether the answer is complete without more records."""
        return self._is_urgent or self._size_bytes >= min(self._request.min_bytes, self._max_bytes)

    def read(self, image: MetadataImage, data: DataPlane, one: WantedPartition) -> None:
        """Find the answer for a partition that existed when the request came."""
        wanted = one.request
        topic = image.topics_by_name.get(one.topic_name or "")
        hosted = None if topic is None else find_partition(image, data, topic, wanted.partition)
        if topic is None or hosted is None:
            self._is_urgent = True
            self.found.append(Answered(one, _refused_late(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
            return
        self.keys.append((topic.topic_id, wanted.partition))
        code = self._refuse(hosted, wanted, is_former=one.topic_id not in (ZERO_UUID, topic.topic_id))
        answered = self._refuse_urgently(hosted, one, code) if code else self._read(image, hosted, one)
        if answered is not None:
            self.found.append(answered)

    def _read(self, image: MetadataImage, hosted: Hosted, one: WantedPartition) -> Answered | None:
        """The answer for a partition that may be read; None: the client knows it already."""
        wanted = one.request
        log, end = log_of(hosted), log_end_offset(hosted, self._broker_id, self._now_ms)
        committed = min(high_watermark(hosted, self._now_ms), end)
        stable = last_stable_offset(hosted, committed)
        closest = self._closest_replica(image, hosted, wanted)
        if closest is not None:
            self._is_urgent = True
            answer = _answer(wanted, committed, stable, log)
            answer.preferred_read_replica = closest
            return Answered(one, answer)
        diverging = _find_divergence(log, end, wanted) if wanted.last_fetched_epoch >= 0 else None
        if isinstance(diverging, ErrorCode):
            return self._refuse_urgently(hosted, one, diverging)
        if diverging:
            self._is_urgent = True
            answer = _answer(wanted, committed, stable, log)
            answer.aborted_transactions = () if self._reads_committed else None
            answer.diverging_epoch = diverging
            return Answered(one, answer)
        most = max(0, min(wanted.partition_max_bytes, self._max_bytes - self._size_bytes))
        readable = stable if self._reads_committed else committed
        batches = log.find_batches(
            wanted.fetch_offset,
            most,
            readable,
            at_least_one=not self._size_bytes and self.asked.api_version > LAST_VERSION_WITH_HARD_LIMIT,
            max_filed_bytes=MAX_FILED_BYTES - self._filed_bytes,
        )
        if batches is None or wanted.fetch_offset > end:
            return self._refuse_urgently(hosted, one, ErrorCode.OFFSET_OUT_OF_RANGE)
        if self.asked.api_version <= LAST_VERSION_WITH_HARD_LIMIT and _is_too_long(log, wanted, batches, readable):
            return self._cut(one, _answer(wanted, committed, stable, log), most)
        self._size_bytes += batches.size_bytes
        self._filed_bytes += batches.filed_bytes
        self._is_urgent |= batches.is_cut
        if not (self._reads_committed and _is_blocked(hosted, committed)):
            self._look_again(hosted, max(wanted.fetch_offset, committed))
        if self._news_only and one.is_as_told(committed, log.log_start_offset) and not batches.size_bytes:
            return None
        answer = _answer(wanted, committed, stable, log)
        if self._reads_committed:
            answer.aborted_transactions = _aborted(hosted, wanted.fetch_offset, batches)
        return Answered(one, answer, log, batches)

    def _cut(self, one: WantedPartition, answer: PartitionData, most: int) -> Answered:
        """The answer of the first versions, in which no record is longer than the client asked for: its beginning."""
        self._is_urgent = True
        answer.records = overflow(most)
        self._size_bytes += len(answer.records)
        return Answered(one, answer)

    def _closest_replica(self, image: MetadataImage, hosted: Hosted, wanted: FetchPartition) -> int | None:
        """Where a consumer of another rack should read (KIP-392); None: here. Only the leader knows. As Kafka's
        RackAwareReplicaSelector: of the members of the ISR in the consumer's rack that have what it wants, the one
        that has most."""
        rack, leader = self.asked.closest_to, hosted.leader
        if rack is None or self._broker_id != leader or _rack_of(image, leader) == rack:
            return None
        if wanted.fetch_offset < log_of(hosted).log_start_offset:
            return None
        ends = [
            (log_end_offset(hosted, replica, self._now_ms), replica)
            for replica in hosted.isr
            if replica != leader and replica in hosted.replicas and _rack_of(image, replica) == rack
        ]
        end, closest = max(ends, default=(-1, -1))
        return closest if end >= wanted.fetch_offset and closest >= 0 else None

    def _refuse(self, hosted: Hosted, wanted: FetchPartition, *, is_former: bool) -> ErrorCode:
        """`is_former`: the topic that was asked for is gone, and there is another one of its name."""
        if self._request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
            return ErrorCode.INVALID_REQUEST
        if is_former and self._broker_id in hosted.replicas:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if self._is_replica:
            known = wanted.current_leader_epoch >= 0
            return ErrorCode.UNKNOWN_LEADER_EPOCH if known else ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader_only = self.asked.api_version < FIRST_VERSION_FROM_FOLLOWERS
        current_leader_epoch = max(ANY_EPOCH, wanted.current_leader_epoch)
        return validate_hosted(hosted, self._broker_id, current_leader_epoch, leader_only=leader_only)

    def _refuse_urgently(self, hosted: Hosted, one: WantedPartition, code: ErrorCode) -> Answered:
        self._is_urgent = True
        answer = _refused_late(one.request, code)
        if code in _TELL_LEADER and self.asked.api_version >= FIRST_VERSION_WITH_LEADERS:
            answer.current_leader = LeaderIdAndEpoch(leader_id=hosted.leader, leader_epoch=hosted.leader_epoch)
            self.leaders.append(hosted.leader)
        return Answered(one, answer)

    def _look_again(self, hosted: Hosted, offset: int) -> None:
        """Note when the batch at `offset`, which exists but cannot be read yet, can be read."""
        if isinstance(hosted, ReplicatedLog) and self._broker_id is not None:
            end = hosted.log.batch_end(offset)
            if end is None:
                return
            due_ms = hosted.reaches_at_ms(end, self._now_ms)
            here_ms = hosted.has_at_ms(self._broker_id, end, self._now_ms)
            if due_ms is not None and here_ms is not None:
                later_ms = max(due_ms, here_ms)
                self.retry_at_ms = later_ms if self.retry_at_ms is None else min(self.retry_at_ms, later_ms)


def _is_too_long(log: PartitionLog, wanted: FetchPartition, found: FoundBatches, readable: int) -> bool:
    """Whether there is a batch that can be read, and none was found because it is too long."""
    end_offset = log.batch_end(wanted.fetch_offset)
    return not found.size_bytes and not found.is_cut and end_offset is not None and end_offset <= readable


def _refused_late(wanted: FetchPartition, code: ErrorCode) -> PartitionData:
    """The answer for a partition that cannot be read, though it existed when the request came."""
    answer = refused(wanted, code)
    answer.aborted_transactions = None  # as in Kafka; an early refusal has an empty list instead
    return answer


def _answer(wanted: FetchPartition, committed: int, stable: int, log: PartitionLog) -> PartitionData:
    """An answer without an error and, for now, without records."""
    return PartitionData(
        partition_index=wanted.partition,
        high_watermark=committed,
        last_stable_offset=stable,
        log_start_offset=log.log_start_offset,
        aborted_transactions=None,
        records=b"",
    )


def _aborted(hosted: Hosted, fetch_offset: int, batches: FoundBatches) -> Sequence[AbortedTransaction]:
    """The aborted transactions that have records in these batches."""
    if not (isinstance(hosted, ReplicatedLog) and batches.behind):
        return ()
    end_offset = hosted.log.last_offset_of(batches) + 1
    return [
        AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
        for one in hosted.transactions.aborted_between(fetch_offset, end_offset)
    ]


def _is_blocked(hosted: Hosted, committed: int) -> bool:
    """Whether the end of a transaction, which touches the partition, comes before more can be read."""
    return isinstance(hosted, ReplicatedLog) and hosted.transactions.is_blocked(committed)


def _rack_of(image: MetadataImage, broker_id: int) -> str | None:
    broker = image.brokers.get(broker_id)
    return None if broker is None or broker.fenced else broker.rack


def _find_divergence(log: PartitionLog, end: int, wanted: FetchPartition) -> EpochEndOffset | ErrorCode | None:
    """Where the log diverges from the consumer's (KIP-595); None if it does not; OFFSET_OUT_OF_RANGE if that cannot be
    determined any more."""
    epoch, end_offset = log.epoch_end_offset(wanted.last_fetched_epoch)
    if NO_EPOCH in (epoch, end_offset) or wanted.fetch_offset < log.log_start_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    end_offset = min(end_offset, end)
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None
