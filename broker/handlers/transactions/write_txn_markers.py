"""WriteTxnMarkers (27): writes the markers that end transactions to partitions that this broker leads.

The coordinators of this process write their markers themselves (`klamm.broker.transactions.markers`); the API is for
coordinators outside, and for operators who end a transaction that has lost its coordinator (KIP-664).
"""

from collections.abc import Collection
from dataclasses import field

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.data.control_batches import EndMarker
from klamm.broker.handlers.hosted import find_partition, validate_hosted
from klamm.broker.transactions.markers import ProducerEnd, WrittenMarker, write_marker
from klamm.controller.authorizer import AclOperation
from klamm.controller.context import RequestContext
from klamm.controller.effects import SoftState
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.metadata.partition import LogKey
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from klamm.quick_dataclasses import dataclass

TIMEOUT_CONFIG = "request.timeout.ms"


@dataclass(slots=True)
class _Accepted:
    """A marker to write to one partition. `answer` is its part of the response."""

    answer: WritableTxnMarkerPartitionResult
    topic: Topic
    end: ProducerEnd
    written: WrittenMarker | None = None

    @property
    def key(self) -> LogKey:
        return self.topic.topic_id, self.answer.partition_index


def handle_write_txn_markers(
    brokers: SimulatedBrokers, image: MetadataImage, request: WriteTxnMarkersRequest, context: RequestContext
) -> Outcome:
    """For each partition whether its marker is written. The response waits until the markers are replicated."""
    accepted: list[_Accepted] = []
    allowed = context.authorize_cluster(AclOperation.CLUSTER_ACTION) or context.authorize_cluster(AclOperation.ALTER)
    results = [
        WritableTxnMarkerResult(
            producer_id=marker.producer_id,
            topics=_topics(brokers, image, context, marker, accepted, allowed=allowed),
        )
        for marker in request.markers
    ]
    deadline_ms = context.now_ms + context.settings.static_int(TIMEOUT_CONFIG, context.requester.asked_broker_id)
    answer = DelayedMarkers(brokers, WriteTxnMarkersResponse(markers=results), accepted, deadline_ms)
    return Outcome(answer, effects=[MarkersWritten(brokers, accepted)])


def _topics(
    brokers: SimulatedBrokers,
    image: MetadataImage,
    context: RequestContext,
    marker: WritableTxnMarker,
    accepted: list[_Accepted],
    *,
    allowed: bool,
) -> list[WritableTxnMarkerTopicResult]:
    end = ProducerEnd(
        marker.producer_id, marker.producer_epoch, EndMarker(marker.transaction_result, marker.coordinator_epoch)
    )
    topics = []
    for wanted in marker.topics:
        topic = image.topics_by_name.get(wanted.name)
        answers = []
        for partition in wanted.partition_indexes:
            hosted = None if topic is None else find_partition(image, brokers.data, topic, partition)
            if not allowed:
                code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            elif hosted is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                code = validate_hosted(hosted, context.requester.asked_broker_id)
            answer = WritableTxnMarkerPartitionResult(partition_index=partition, error_code=code)
            answers.append(answer)
            if topic is not None and not code:
                accepted.append(_Accepted(answer, topic, end))
        topics.append(WritableTxnMarkerTopicResult(name=wanted.name, partitions=answers))
    return topics


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """An effect: writes the markers."""

    brokers: SimulatedBrokers
    markers: list[_Accepted]

    def apply(self, soft: SoftState, now_ms: int) -> None:
        brokers = self.brokers
        for one in self.markers:
            partition = one.answer.partition_index
            made = write_marker(brokers.coordinators, brokers.data, soft.image, one.topic, partition, one.end, now_ms)
            if isinstance(made, WrittenMarker):
                one.written = made
            else:  # Kafka has no code for an old epoch here
                fenced = made is ErrorCode.INVALID_PRODUCER_EPOCH
                one.answer.error_code = ErrorCode.UNKNOWN_SERVER_ERROR if fenced else made


@dataclass(slots=True)
class DelayedMarkers:
    """The response, a `DelayedAnswer`. It is complete when all markers that were written are replicated, or late."""

    brokers: SimulatedBrokers
    response: WriteTxnMarkersResponse
    markers: list[_Accepted]
    deadline_ms: int
    keys: Collection[LogKey] = field(default=())
    retry_at_ms: int = 0

    def try_complete(self, image: MetadataImage, now_ms: int) -> WriteTxnMarkersResponse | None:
        """The response, unless it waits on."""
        waiting = [one for one in self.markers if one.written is not None and not self._is_done(one, now_ms)]
        if waiting and now_ms < self.deadline_ms:
            self.keys, self.retry_at_ms = [one.key for one in waiting], self.deadline_ms
            for one in waiting:
                found = self.brokers.data.find(*one.key)
                if found is not None and one.written is not None:
                    due_ms = found.reaches_at_ms(one.written.end_offset, now_ms)
                    self.retry_at_ms = self.retry_at_ms if due_ms is None else min(self.retry_at_ms, due_ms)
            return None
        for one in waiting:
            one.answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        return self.response

    def _is_done(self, one: _Accepted, now_ms: int) -> bool:
        found = self.brokers.data.find(*one.key)
        if found is None or one.written is None or found.leader_epoch != one.written.leader_epoch:
            one.answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return True
        return found.high_watermark(now_ms) >= one.written.end_offset
