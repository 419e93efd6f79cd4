"""DeleteRecords (21): deletes the oldest records of a partition, up to an offset (KIP-107).

All replicas share one log, so the records are deleted everywhere at once, and the low watermark is the log start
offset.
"""

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.handlers.hosted import (
    by_topic,
    find_partition,
    find_topic,
    high_watermark,
    log_of,
    validate_hosted,
)
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.configs import record_rules
from klamm.controller.context import RequestContext
from klamm.controller.effects import SoftState
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.outcome import Effect, Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass

ALL_COMMITTED = -1
"""In place of an offset: delete every committed record."""
NO_LOW_WATERMARK = -1


def handle_delete_records(
    brokers: SimulatedBrokers, image: MetadataImage, request: DeleteRecordsRequest, context: RequestContext
) -> Outcome:
    """The new low watermark of each partition, or the error why nothing was deleted."""
    denied = context.denied(AclOperation.DELETE, AclResourceType.TOPIC, [wanted.name for wanted in request.topics])
    topics = []
    effects: list[Effect] = []
    asked = by_topic((topic.name, ((one.partition_index, one) for one in topic.partitions)) for topic in request.topics)
    for topic_name, wanted in asked.items():
        topic = find_topic(image, topic_name, None, denied)
        partitions = []
        for one in wanted.values():
            code = topic if isinstance(topic, ErrorCode) else _delete(brokers.data, image, context, topic, one, effects)
            refused = isinstance(code, ErrorCode)
            partitions.append(
                DeleteRecordsPartitionResult(
                    partition_index=one.partition_index,
                    low_watermark=NO_LOW_WATERMARK if refused else code,
                    error_code=code if refused else ErrorCode.NONE,
                )
            )
        topics.append(DeleteRecordsTopicResult(name=topic_name, partitions=partitions))
    return Outcome(DeleteRecordsResponse(topics=topics), effects=effects)


@dataclass(frozen=True, slots=True)
class DeletedBefore:
    """Deletes the records of a partition before an offset, which is at most its high watermark."""

    data: DataPlane
    topic_id: Uuid
    partition_index: int
    offset: int

    def apply(self, _soft: SoftState, now_ms: int) -> None:
        self.data.delete_before(self.topic_id, self.partition_index, self.offset, now_ms)


def _delete(
    data: DataPlane,
    image: MetadataImage,
    context: RequestContext,
    topic: Topic,
    wanted: DeleteRecordsPartition,
    effects: list[Effect],
) -> int | ErrorCode:
    """The low watermark after the deletion."""
    if topic.is_internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    hosted = find_partition(image, data, topic, wanted.partition_index)
    if hosted is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refusal = validate_hosted(hosted, context.requester.asked_broker_id)
    if refusal:
        return refusal
    if not record_rules(image.configs, context.settings, topic.name, context.requester.asked_broker_id).deletes_records:
        return ErrorCode.POLICY_VIOLATION
    committed = high_watermark(hosted, context.now_ms)
    offset = committed if wanted.offset == ALL_COMMITTED else wanted.offset
    if not 0 <= offset <= committed:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    effects.append(DeletedBefore(data, topic.topic_id, wanted.partition_index, offset))
    return max(log_of(hosted).log_start_offset, offset)
