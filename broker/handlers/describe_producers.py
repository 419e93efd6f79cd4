"""DescribeProducers (61): the producers whose state a partition keeps, and their open transactions (KIP-664)."""

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.broker.handlers.hosted import find_partition, find_topic, validate_hosted
from klamm.controller.answer_room import NO_ROOM, AnswerRoom
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

MAX_BYTES_OF_PRODUCERS = 4 * 1024 * 1024
"""The producers of one answer take at most this much: it is made on the event loop."""
BYTES_OF_PRODUCER = 40
"""A producer in the response, rounded up."""
_TEXTS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
}
"""Kafka's texts. Kafka returns them only for errors of a whole topic (recorded)."""


def handle_describe_producers(
    brokers: SimulatedBrokers, image: MetadataImage, request: DescribeProducersRequest, context: RequestContext
) -> Outcome:
    """The producers of each partition of which this broker has a replica."""
    denied = context.denied(AclOperation.READ, AclResourceType.TOPIC, [wanted.name for wanted in request.topics])
    topics = []
    room = AnswerRoom(MAX_BYTES_OF_PRODUCERS)
    for wanted in request.topics:
        topic = find_topic(image, wanted.name, None, denied)
        partitions = []
        for index in wanted.partition_indexes:
            found = topic if isinstance(topic, ErrorCode) else _log(brokers.data, image, context, topic, index)
            if isinstance(found, ErrorCode):
                text = _TEXTS.get(found) if isinstance(topic, ErrorCode) else None
                partitions.append(PartitionResponse(partition_index=index, error_code=found, error_message=text))
            elif found is None:
                partitions.append(PartitionResponse(partition_index=index))
            elif room.take((wanted.name, index), BYTES_OF_PRODUCER * len(found.producers)):
                partitions.append(PartitionResponse(partition_index=index, active_producers=_producers(found)))
            else:
                code, text = NO_ROOM.code, NO_ROOM.message
                partitions.append(PartitionResponse(partition_index=index, error_code=code, error_message=text))
        topics.append(TopicResponse(name=wanted.name, partitions=partitions))
    return Outcome(DescribeProducersResponse(topics=topics))


def _log(
    data: DataPlane, image: MetadataImage, context: RequestContext, topic: Topic, partition_index: int
) -> ReplicatedLog | ErrorCode | None:
    """The log of a partition; None: no records have been written to it."""
    hosted = find_partition(image, data, topic, partition_index)
    if hosted is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refusal = validate_hosted(hosted, context.requester.asked_broker_id, leader_only=False)
    if refusal:
        return refusal
    if not isinstance(hosted, ReplicatedLog):
        return None
    data.forget_expired_producers(image, hosted, context.now_ms)
    return hosted


def _producers(log: ReplicatedLog) -> list[ProducerState]:
    return [
        ProducerState(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.last_timestamp_ms,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=log.transactions.first_offset(producer.producer_id),
        )
        for producer in log.producers.entries()
    ]
