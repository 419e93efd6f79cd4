"""Fetch (1): consumers read record batches, from the leader or from another replica (KIP-392).

The answer waits until `min_bytes` are there or the consumer's wait time is over, at most `MAX_WAIT_MS`. It contains
whole batches of records below the high watermark, with the isolation level read_committed below the last stable offset
(KIP-98): the first one of any size, others while they fit. Fetch sessions (KIP-227) are never granted, so each request
names all its partitions. Order of the checks: KafkaApis.handleFetchRequest, Partition.readRecords. Brokers do not
replicate with this handler: their requests are refused as those of unknown replicas.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.partition_log import FoundBatches, PartitionLog
from klamm.broker.data.record_file import RecordFileError
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.broker.handlers.hosted import (
    ANY_EPOCH,
    Hosted,
    end_points,
    find_partition,
    find_topic,
    high_watermark,
    last_stable_offset,
    log_end_offset,
    log_of,
    validate_hosted,
)
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.configs import fetch_max_bytes
from klamm.controller.context import RequestContext
from klamm.controller.leader_epochs import NO_EPOCH, NO_OFFSET
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.controller.outcome import Outcome
from klamm.controller.requester import Requester
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

MAX_WAIT_MS = 5 * 60 * 1000
"""The longest time that an answer waits, even if the consumer's `max_wait_ms` is longer."""
WITHOUT_SESSION = (0, -1)
"""Session epochs of requests that name all partitions: to begin a session, and without one."""
FIRST_VERSION_FROM_FOLLOWERS = 11
FIRST_VERSION_BY_ID = 13
FIRST_VERSION_WITH_LEADERS = 16
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
MAX_FILED_BYTES = 8 * 1024 * 1024
"""The most bytes that an answer reads from the file for records beyond the memory budget: about 4 ms of the event loop.
An answer that could have more waits for nothing else."""
_TELL_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle_fetch(
    brokers: SimulatedBrokers, image: MetadataImage, request: FetchRequest, context: RequestContext
) -> Outcome:
    """The records of each partition, or the error why it cannot be read."""
    if request.session_epoch not in WITHOUT_SESSION:
        return Outcome(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    return Outcome(DelayedFetch(brokers.data, image, request, context))


class _Asked(NamedTuple):
    """What a delayed answer keeps from its request."""

    requester: Requester
    api_version: int
    max_bytes: int
    """`fetch.max.bytes` of the broker that was asked, in bytes."""


class DelayedFetch:
    """An answer that is complete when `min_bytes` are there, when a partition has an error, or when the time is
    over."""

    __slots__ = ("_asked", "_data", "_deadline_ms", "_denied", "_request", "_topics", "keys", "retry_at_ms")

    def __init__(self, data: DataPlane, image: MetadataImage, request: FetchRequest, context: RequestContext) -> None:
        self.keys: Collection[LogKey] = ()
        self.retry_at_ms = self._deadline_ms = context.now_ms + min(request.max_wait_ms, MAX_WAIT_MS)
        self._data = data
        self._request = request
        self._topics = _each_once(request.topics)
        self._asked = _Asked(
            context.requester, context.api_version, fetch_max_bytes(context.settings, context.requester.asked_broker_id)
        )
        self._denied = _find_denied(image, request, context)

    def try_complete(self, image: MetadataImage, now_ms: int) -> FetchResponse | None:
        """The answer, if it is complete or its time is over; None: it waits on."""
        reading = _Reading(self._request, self._asked, now_ms)
        topics = [_read_topic(image, self._data, reading, wanted, self._denied) for wanted in self._topics]
        if not reading.is_enough and now_ms < self._deadline_ms:
            self.keys = reading.partitions
            self.retry_at_ms = min(reading.retry_at_ms or self._deadline_ms, self._deadline_ms)
            return None
        for answer, log, batches in reading.found:
            try:
                answer.records = log.join(batches)
            except RecordFileError:
                answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        leaders = end_points(image, reading.leaders, self._asked.requester.listener_name, NodeEndpoint)
        return FetchResponse(responses=topics, node_endpoints=leaders)


def _each_once(topics: Sequence[FetchTopic]) -> list[FetchTopic]:
    """Each partition once, with its last entry, and no topic without partitions: as Kafka reads a request."""
    last = {(topic.topic, topic.topic_id, one.partition): one for topic in topics for one in topic.partitions}
    if len(last) == sum(len(topic.partitions) for topic in topics):
        return [topic for topic in topics if topic.partitions]
    each = []
    for topic in topics:
        keys = ((topic.topic, topic.topic_id, one.partition) for one in topic.partitions)
        if partitions := [last.pop(key) for key in keys if key in last]:
            each.append(FetchTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions))
    return each


def _is_replica(request: FetchRequest) -> bool:
    return max(request.replica_id, request.replica_state.replica_id) >= 0


def _find_denied(image: MetadataImage, request: FetchRequest, context: RequestContext) -> Collection[str]:
    """The topics that the requester may not read."""
    if context.api_version < FIRST_VERSION_BY_ID:
        names = [wanted.topic for wanted in request.topics]
    else:
        known = (image.topics_by_id.get(wanted.topic_id) for wanted in request.topics)
        names = [topic.name for topic in known if topic]
    if _is_replica(request):
        return () if context.authorize_cluster(AclOperation.CLUSTER_ACTION) else names
    return context.denied(AclOperation.READ, AclResourceType.TOPIC, names)


def _refused(wanted: FetchPartition, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=wanted.partition,
        error_code=code,
        high_watermark=NO_OFFSET,
        records=b"",
    )


def _read_topic(
    image: MetadataImage, data: DataPlane, reading: "_Reading", wanted: FetchTopic, denied: Collection[str]
) -> FetchableTopicResponse:
    topic_id = wanted.topic_id if reading.asked.api_version >= FIRST_VERSION_BY_ID else None
    topic = find_topic(image, wanted.topic, topic_id, denied)
    if isinstance(topic, ErrorCode):
        partitions = [_refused(partition, topic) for partition in wanted.partitions]
        return FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id, partitions=partitions)
    partitions = []
    for partition in wanted.partitions:
        hosted = find_partition(image, data, topic, partition.partition)
        if hosted is None:
            partitions.append(_refused(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        else:
            reading.partitions.append((topic.topic_id, partition.partition))
            partitions.append(reading.read(hosted, partition))
    return FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id, partitions=partitions)


class _Reading:
    """One attempt to read the partitions of a request, in order."""

    def __init__(self, request: FetchRequest, asked: _Asked, now_ms: int) -> None:
        self.asked = asked
        self.partitions: list[LogKey] = []
        """The partitions of the request that exist."""
        self.found: list[tuple[PartitionData, PartitionLog, FoundBatches]] = []
        self.leaders: list[int] = []
        """The leaders that clients have to ask instead of this broker."""
        self.retry_at_ms: int | None = None
        """When more records can be read, if that time is known."""
        self._request = request
        self._now_ms = now_ms
        self._max_bytes = min(request.max_bytes, asked.max_bytes)
        self._size_bytes = self._filed_bytes = 0
        self._is_urgent = False

    @property
    def is_enough(self) -> bool:
        """Whether the answer is complete without more records."""
        if self._is_urgent or not self.partitions:
            return True
        return self._size_bytes >= min(self._request.min_bytes, self._max_bytes)

    def read(self, hosted: Hosted, wanted: FetchPartition) -> PartitionData:
        """The answer for a partition. Records are located here, and copied later."""
        code = self._refuse(hosted, wanted)
        if code:
            return self._refuse_urgently(hosted, wanted, code)
        log, end = log_of(hosted), log_end_offset(hosted, self.asked.requester.asked_broker_id, self._now_ms)
        committed = min(high_watermark(hosted, self._now_ms), end)
        stable = last_stable_offset(hosted, committed)
        readable = stable if self._request.isolation_level == READ_COMMITTED else committed
        answer = PartitionData(
            partition_index=wanted.partition,
            high_watermark=committed,
            last_stable_offset=stable,
            log_start_offset=log.log_start_offset,
            aborted_transactions=() if self._request.isolation_level == READ_COMMITTED else None,
            records=b"",
        )
        if wanted.last_fetched_epoch >= 0:
            diverging = _find_divergence(log, end, wanted)
            if isinstance(diverging, ErrorCode):
                return self._refuse_urgently(hosted, wanted, diverging)
            if diverging:
                answer.diverging_epoch = diverging
                self._is_urgent = True
                return answer
        most = max(0, min(wanted.partition_max_bytes, self._max_bytes - self._size_bytes))
        batches = log.find_batches(
            wanted.fetch_offset,
            most,
            readable,
            at_least_one=not self._size_bytes,
            max_filed_bytes=MAX_FILED_BYTES - self._filed_bytes,
        )
        if batches is None or wanted.fetch_offset > end:
            return self._refuse_urgently(hosted, wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
        self._size_bytes += batches.size_bytes
        self._filed_bytes += batches.filed_bytes
        self._is_urgent |= batches.is_cut
        self.found.append((answer, log, batches))
        if isinstance(hosted, ReplicatedLog) and readable == stable:
            if self._request.isolation_level == READ_COMMITTED and batches.behind:
                end_offset = log.last_offset_of(batches) + 1
                answer.aborted_transactions = [
                    AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
                    for one in hosted.transactions.aborted_between(wanted.fetch_offset, end_offset)
                ]
            if self._request.isolation_level == READ_COMMITTED and hosted.transactions.is_blocked(committed):
                return answer  # the end of a transaction touches the partition
        self._look_again(hosted, max(wanted.fetch_offset, committed))
        return answer

    def _refuse(self, hosted: Hosted, wanted: FetchPartition) -> ErrorCode:
        if self._request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
            return ErrorCode.INVALID_REQUEST
        if _is_replica(self._request):
            known = wanted.current_leader_epoch >= 0
            return ErrorCode.UNKNOWN_LEADER_EPOCH if known else ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader_only = self.asked.api_version < FIRST_VERSION_FROM_FOLLOWERS
        current_leader_epoch = max(ANY_EPOCH, wanted.current_leader_epoch)
        return validate_hosted(
            hosted, self.asked.requester.asked_broker_id, current_leader_epoch, leader_only=leader_only
        )

    def _refuse_urgently(self, hosted: Hosted, wanted: FetchPartition, code: ErrorCode) -> PartitionData:
        self._is_urgent = True
        answer = _refused(wanted, code)
        answer.aborted_transactions = None  # as in Kafka; an early refusal has an empty list instead
        if code in _TELL_LEADER and self.asked.api_version >= FIRST_VERSION_WITH_LEADERS:
            answer.current_leader = LeaderIdAndEpoch(leader_id=hosted.leader, leader_epoch=hosted.leader_epoch)
            self.leaders.append(hosted.leader)
        return answer

    def _look_again(self, hosted: Hosted, offset: int) -> None:
        """Note when the batch at `offset`, which exists but cannot be read yet, can be read."""
        broker_id = self.asked.requester.asked_broker_id
        if isinstance(hosted, ReplicatedLog) and broker_id is not None:
            end = hosted.log.batch_end(offset)
            due_ms = None if end is None else hosted.reaches_at_ms(end, self._now_ms)
            here_ms = None if end is None else hosted.has_at_ms(broker_id, end, self._now_ms)
            if due_ms is not None and here_ms is not None:
                later_ms = max(due_ms, here_ms)
                self.retry_at_ms = later_ms if self.retry_at_ms is None else min(self.retry_at_ms, later_ms)


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
