"""AssignReplicasToDirs (73): a broker with several log directories says in which of them its replicas are (KIP-858).

A replica in a directory that is not online leaves the ISR, as if the directory had just gone offline. Source: Kafka's
ReplicationControlManager.handleAssignReplicasToDirs.
"""

from dataclasses import field
from typing import Final

from klamm.controller.authorizer import AclOperation
from klamm.controller.context import RequestContext
from klamm.controller.effects import WentOffline
from klamm.controller.metadata.broker import BrokerState
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.metadata_versions import FIRST_LEVEL_WITH_LOG_DIRS
from klamm.controller.outcome import Effect, Outcome
from klamm.controller.transitions.broker_lifecycle import refuse_broker_epoch
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass

MAX_ASSIGNMENTS: Final = 10_000
"""The most replicas in a request. Kafka's brokers send at most 2,250 in one."""


@dataclass(slots=True)
class _Asked:
    """The state of one request while it is decided."""

    image: MetadataImage
    broker: BrokerState
    changes: list[PartitionChangeRecord] = field(default_factory=list)
    assigned: dict[tuple[int, int], tuple[Uuid, ...]] = field(default_factory=dict)
    """The directories of the partitions that this request changed, by topic row and partition."""
    left: int = MAX_ASSIGNMENTS


def handle_assign_replicas_to_dirs(
    image: MetadataImage, request: AssignReplicasToDirsRequest, context: RequestContext
) -> Outcome:
    """A code for each replica."""
    denied = context.refuse_cluster(AclOperation.CLUSTER_ACTION)
    refusal = denied.code if denied else ErrorCode.NONE
    if not refusal and image.features.metadata_version < FIRST_LEVEL_WITH_LOG_DIRS:
        refusal = ErrorCode.UNSUPPORTED_VERSION
    refusal = refusal or refuse_broker_epoch(image, request.broker_id, request.broker_epoch)
    if refusal:
        return Outcome(AssignReplicasToDirsResponse(error_code=refusal))
    asked = _Asked(image, image.brokers[request.broker_id])
    directories = [
        AssignReplicasToDirsResponseDirectoryData(
            id=directory.id,
            topics=[
                AssignReplicasToDirsResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        AssignReplicasToDirsResponsePartitionData(
                            partition_index=one.partition_index,
                            error_code=_assign(asked, topic.topic_id, one.partition_index, directory.id),
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in directory.topics
            ],
        )
        for directory in request.directories
    ]
    offline = [directory.id for directory in request.directories if directory.id not in asked.broker.log_dirs]
    effects: list[Effect] = [WentOffline(asked.broker.broker_id, offline)] if offline and asked.changes else []
    return Outcome(AssignReplicasToDirsResponse(directories=directories), asked.changes, effects)


def _assign(asked: _Asked, topic_id: Uuid, partition_index: int, directory_id: Uuid) -> ErrorCode:
    topic = asked.image.topics_by_id.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not asked.left:
        return ErrorCode.OPERATION_NOT_ATTEMPTED
    asked.left -= 1
    return _assign_in(asked, topic, partition_index, directory_id)


def _assign_in(asked: _Asked, topic: Topic, partition_index: int, directory_id: Uuid) -> ErrorCode:
    key = topic.row, partition_index
    try:
        partition = asked.image.partitions.read(*key)
    except KeyError:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if asked.broker.broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    before = asked.assigned.get(key, partition.directories)
    place = partition.replicas.index(asked.broker.broker_id)
    after = (*before[:place], directory_id, *before[place + 1 :])
    if after != before:
        asked.assigned[key] = after
        asked.changes.append(
            PartitionChangeRecord(partition_id=partition_index, topic_id=topic.topic_id, directories=after)
        )
    return ErrorCode.NONE
