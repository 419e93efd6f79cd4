"""ListOffsets (2): the first or last offset of a partition, or the offset for a timestamp.

Consumers get offsets below the high watermark, with the isolation level read_committed below the last stable offset
(KIP-98); requests as a debugger (-2) or a replica get all. Order of the checks: ReplicaManager.fetchOffset,
Partition.fetchOffsetForTimestamp.
"""

from collections import Counter

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.partition_log import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    FoundOffset,
)
from klamm.broker.data.record_batches import NO_TIMESTAMP
from klamm.broker.data.record_file import RecordFileError
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.broker.handlers.hosted import (
    by_topic,
    find_partition,
    find_topic,
    high_watermark,
    last_stable_offset,
    log_end_offset,
    log_of,
    validate_hosted,
)
from klamm.broker.handlers.segment_offsets import offsets_of_segments
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.leader_epochs import NO_EPOCH, NO_OFFSET
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

CONSUMER, DEBUGGER = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
FIRST_VERSIONS = {
    EARLIEST: 0,
    LATEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""For each special value of the timestamp, the first API version that may use it."""
WITHOUT_LOOKING = (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
"""The special values whose offset is returned whether it is committed or not."""
VERSION_OF_SEGMENTS = 0
FIRST_VERSION_WITH_EPOCHS = 4
FIRST_VERSION_WITH_NOT_AVAILABLE = 5
NOT_FOUND = FoundOffset(NO_OFFSET, NO_TIMESTAMP, NO_EPOCH)


def handle_list_offsets(
    brokers: SimulatedBrokers, image: MetadataImage, request: ListOffsetsRequest, context: RequestContext
) -> Outcome:
    """An offset for each partition, -1 if there is none, or the error why the offset is not returned."""
    names = [wanted.name for wanted in request.topics]
    denied = context.denied(AclOperation.DESCRIBE, AclResourceType.TOPIC, names)
    counts = Counter((wanted.name, one.partition_index) for wanted in request.topics for one in wanted.partitions)
    topics = []
    asked = by_topic((topic.name, ((one.partition_index, one) for one in topic.partitions)) for topic in request.topics)
    for topic_name, wanted in asked.items():
        topic = find_topic(image, topic_name, None, denied)
        partitions = []
        for one in wanted.values():
            repeated = counts[topic_name, one.partition_index] > 1
            found = _validate(request, context, topic, one, repeated=repeated) or _find(
                brokers.data, image, request, context, topic, one
            )
            partitions.append(_answer(one, found, context.api_version))
        topics.append(ListOffsetsTopicResponse(name=topic_name, partitions=partitions))
    return Outcome(ListOffsetsResponse(topics=topics))


def _answer(
    wanted: ListOffsetsPartition, found: FoundOffset | ErrorCode | list[int], api_version: int
) -> ListOffsetsPartitionResponse:
    if isinstance(found, ErrorCode):
        return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=found)
    if isinstance(found, list):
        return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, old_style_offsets=found)
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch if api_version >= FIRST_VERSION_WITH_EPOCHS else NO_EPOCH,
    )


def _validate(
    request: ListOffsetsRequest,
    context: RequestContext,
    topic: Topic | ErrorCode,
    wanted: ListOffsetsPartition,
    *,
    repeated: bool,
) -> ErrorCode:
    """NONE for a valid question, whether the partition exists or not."""
    timestamp_ms, version = wanted.timestamp, context.api_version
    if topic is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return topic
    if repeated or request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return ErrorCode.INVALID_REQUEST
    unsupported = timestamp_ms < 0 and version < FIRST_VERSIONS.get(timestamp_ms, version + 1)
    return ErrorCode.UNSUPPORTED_VERSION if unsupported else ErrorCode.NONE


def _find(
    data: DataPlane,
    image: MetadataImage,
    request: ListOffsetsRequest,
    context: RequestContext,
    topic: Topic | ErrorCode,
    wanted: ListOffsetsPartition,
) -> FoundOffset | ErrorCode | list[int]:
    if isinstance(topic, ErrorCode):
        return topic
    timestamp_ms = wanted.timestamp
    hosted = find_partition(image, data, topic, wanted.partition_index)
    if hosted is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refusal = validate_hosted(
        hosted,
        context.requester.asked_broker_id,
        wanted.current_leader_epoch,
        leader_only=request.replica_id != DEBUGGER,
    )
    if refusal:
        return refusal
    is_consumer = request.replica_id == CONSUMER
    committed = high_watermark(hosted, context.now_ms)
    if is_consumer:
        end = last_stable_offset(hosted, committed) if request.isolation_level == READ_COMMITTED else committed
    else:
        end = log_end_offset(hosted, context.requester.asked_broker_id, context.now_ms)
    if context.api_version == VERSION_OF_SEGMENTS:
        return offsets_of_segments(log_of(hosted), wanted, end, context.now_ms)
    if timestamp_ms != LATEST:
        try:
            found = log_of(hosted).find_offset(timestamp_ms)
        except RecordFileError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if found is not None and (timestamp_ms in WITHOUT_LOOKING or found.offset < end):
            return found
    # A new leader does not know at once which records of former leader epochs are committed.
    if is_consumer and isinstance(hosted, ReplicatedLog) and committed < hosted.epoch_start:
        told = context.api_version >= FIRST_VERSION_WITH_NOT_AVAILABLE
        return ErrorCode.OFFSET_NOT_AVAILABLE if told else ErrorCode.LEADER_NOT_AVAILABLE
    return FoundOffset(end, NO_TIMESTAMP, hosted.leader_epoch) if timestamp_ms == LATEST else NOT_FOUND
