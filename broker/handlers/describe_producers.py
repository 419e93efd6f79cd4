"""DescribeProducers (61): the producers whose state a partition keeps, and their open transactions (KIP-664)."""

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.broker.handlers.hosted import find_partition, find_topic, validate_hosted
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
    for wanted in request.topics:
        topic = find_topic(image, wanted.name, None, denied)
        partitions = []
        for index in wanted.partition_indexes:
            found = topic if isinstance(topic, ErrorCode) else _producers(brokers.data, image, context, topic, index)
            partitions.append(
                PartitionResponse(
                    partition_index=index,
                    error_code=found,
                    error_message=_TEXTS.get(found) if isinstance(topic, ErrorCode) else None,
                )
                if isinstance(found, ErrorCode)
                else PartitionResponse(partition_index=index, active_producers=found)
            )
        topics.append(TopicResponse(name=wanted.name, partitions=partitions))
    return Outcome(DescribeProducersResponse(topics=topics))


def _producers(
    data: DataPlane, image: MetadataImage, context: RequestContext, topic: Topic, partition_index: int
) -> list[ProducerState] | ErrorCode:
    hosted = find_partition(image, data, topic, partition_index)
    if hosted is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refusal = validate_hosted(hosted, context.requester.asked_broker_id, leader_only=False)
    if refusal:
        return refusal
    if not isinstance(hosted, ReplicatedLog):
        return []
    data.forget_expired_producers(image, hosted, context.now_ms)
    return [
        ProducerState(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.last_timestamp_ms,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=hosted.transactions.first_offset(producer.producer_id),
        )
        for producer in hosted.producers.entries()
    ]
