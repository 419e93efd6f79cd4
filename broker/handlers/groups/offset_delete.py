"""OffsetDelete (47): deletes committed offsets of a group (KIP-496)."""

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.groups.offset_protocol import Committed
from klamm.broker.handlers.groups.submission import submit_one
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offsets.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle_offset_delete(
    brokers: SimulatedBrokers, image: MetadataImage, request: OffsetDeleteRequest, context: RequestContext
) -> Outcome:
    """For each partition whether its offset is deleted, or was not there."""
    if not context.authorize(AclOperation.DELETE, AclResourceType.GROUP, request.group_id):
        return Outcome(OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return Outcome(OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    refused: dict[tuple[str, int], ErrorCode] = {}
    wanted: dict[str, list[int]] = {}
    for asked in request.topics:
        topic = image.topics_by_name.get(asked.name)
        count = 0 if topic is None else image.partition_count(topic)
        may_read = context.authorize(AclOperation.READ, AclResourceType.TOPIC, asked.name)
        for one in asked.partitions:
            if not may_read:
                refused[asked.name, one.partition_index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not 0 <= one.partition_index < count:
                refused[asked.name, one.partition_index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                wanted.setdefault(asked.name, []).append(one.partition_index)

    def finish(outcome: Committed | ErrorCode) -> OffsetDeleteResponse:
        if isinstance(outcome, ErrorCode):
            return OffsetDeleteResponse(error_code=outcome)
        by_topic: dict[str, list[OffsetDeleteResponsePartition]] = {}
        for (topic_name, partition), code in (refused | dict(outcome.codes)).items():
            found = OffsetDeleteResponsePartition(partition_index=partition, error_code=code)
            by_topic.setdefault(topic_name, []).append(found)
        topics = [OffsetDeleteResponseTopic(name=name, partitions=found) for name, found in by_topic.items()]
        return OffsetDeleteResponse(topics=topics)

    return submit_one(
        brokers,
        context,
        request.group_id,
        lambda groups, waiter, _now_ms: groups.offset_protocol.delete_offsets(request.group_id, wanted, waiter),
        error=lambda code: code,
        finish=finish,
    )
