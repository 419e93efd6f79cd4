"""ReplicaStatus (17902): how far a replica is behind its leader (KIP-179). Only the leader answers.

An API that only Klamm has: docs/reassign-partitions.md says what it is for. Each entry has its own code, checked in
this order: CLUSTER_AUTHORIZATION_FAILED, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, NOT_LEADER_OR_FOLLOWER,
UNKNOWN_MEMBER_ID for a broker that is not registered, UNKNOWN_TOPIC_OR_PARTITION for one without such a replica.
"""

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.broker.handlers.hosted import find_partition
from klamm.controller.authorizer import AclOperation
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.partitions.replica_status import (
    ReplicaStatusEntry,
    ReplicaStatusRequest,
    ReplicaStatusRequestEntry,
    ReplicaStatusResponse,
)


def handle_replica_status(
    brokers: SimulatedBrokers, image: MetadataImage, request: ReplicaStatusRequest, context: RequestContext
) -> Outcome:
    """The lag of each replica in messages; -1 with an error."""
    denied = context.refuse_cluster(AclOperation.DESCRIBE)
    entries = []
    for wanted in request.replica_status_requests:
        found = denied.code if denied else _find_lag(brokers.data, image, context, wanted)
        entry = ReplicaStatusEntry(
            topic=wanted.topic, partition_id=wanted.partition_id, broker=wanted.broker, status_time=context.now_ms
        )
        if isinstance(found, ErrorCode):
            entry.error_code = found
        else:
            entry.lag = found
        entries.append(entry)
    return Outcome(ReplicaStatusResponse(replica_status=entries))


def _find_lag(
    data: DataPlane, image: MetadataImage, context: RequestContext, wanted: ReplicaStatusRequestEntry
) -> int | ErrorCode:
    topic = image.topics_by_name.get(wanted.topic)
    if topic is None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    hosted = find_partition(image, data, topic, wanted.partition_id)
    if hosted is None:
        return ErrorCode.INVALID_PARTITIONS
    if hosted.leader != context.requester.asked_broker_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if wanted.broker not in image.brokers:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if wanted.broker not in hosted.replicas:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return hosted.lag(wanted.broker, context.now_ms) if isinstance(hosted, ReplicatedLog) else 0
