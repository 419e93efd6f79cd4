"""OffsetForLeaderEpoch (23): the end offset of a leader epoch. Consumers use it to notice truncation (KIP-320).

Kafka: ReplicaManager.lastOffsetForLeaderEpoch.
"""

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.handlers.hosted import find_partition, find_topic, log_of, validate_hosted
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.partitions.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle_offset_for_leader_epoch(
    brokers: SimulatedBrokers, image: MetadataImage, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> Outcome:
    """The epoch that was found, and the offset after its last record; -1 for both if no epoch was found."""
    denied = frozenset[str]()
    if not context.authorize_cluster(AclOperation.CLUSTER_ACTION):  # the right of brokers, which use this API too
        names = [wanted.topic for wanted in request.topics]
        denied = context.denied(AclOperation.DESCRIBE, AclResourceType.TOPIC, names)
    topics = []
    for wanted in request.topics:
        topic = find_topic(image, wanted.topic, None, denied)
        partitions = [
            EpochEndOffset(partition=one.partition, error_code=topic)
            if isinstance(topic, ErrorCode)
            else _find_end(brokers.data, image, context, topic, one)
            for one in wanted.partitions
        ]
        topics.append(OffsetForLeaderTopicResult(topic=wanted.topic, partitions=partitions))
    return Outcome(OffsetForLeaderEpochResponse(topics=topics))


def _find_end(
    data: DataPlane, image: MetadataImage, context: RequestContext, topic: Topic, wanted: OffsetForLeaderPartition
) -> EpochEndOffset:
    hosted = find_partition(image, data, topic, wanted.partition)
    if hosted is None:
        return EpochEndOffset(partition=wanted.partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    refusal = validate_hosted(hosted, context.requester.asked_broker_id, wanted.current_leader_epoch)
    if refusal:
        return EpochEndOffset(partition=wanted.partition, error_code=refusal)
    leader_epoch, end_offset = log_of(hosted).epoch_end_offset(wanted.leader_epoch)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=leader_epoch, end_offset=end_offset)
