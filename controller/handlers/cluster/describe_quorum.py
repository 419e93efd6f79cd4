"""DescribeQuorum (55): the quorum of the metadata log, which is one voter, the controller.

Kafka: KafkaRaftClient.handleDescribeQuorumRequest. Unless a request names exactly the one partition of the metadata
log, once, the answer is UNKNOWN_TOPIC_OR_PARTITION for all that it names. The observers are the replicas that fetch the
log, and the unfenced simulated brokers, unless one is the controller, too: each has the whole log at any time.
"""

from typing import Final

from klamm.controller.authorizer import REFUSALS, AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.handlers.quorum.log_requests import METADATA_PARTITION
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.observers import ObserverKey, ObserverState
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.internal_topics import METADATA_TOPIC
from klamm.protocol.messages.raft.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)
from klamm.protocol.uuid import ZERO_UUID

FIRST_VERSION_WITH_NODES: Final = 2
FIRST_VERSION_WITH_DIRECTORIES: Final = 2
_DENIED: Final = REFUSALS[AclResourceType.CLUSTER]
_NOT_HERE: Final = "This server does not host this topic-partition."


def handle_describe_quorum(image: MetadataImage, request: DescribeQuorumRequest, context: RequestContext) -> Outcome:
    """The state of the voter at the moment of the request."""
    if not context.authorize_cluster(AclOperation.DESCRIBE):
        return Outcome(DescribeQuorumResponse(error_code=_DENIED.code, error_message=_DENIED.message))
    named = [(topic.topic_name, one.partition_index) for topic in request.topics for one in topic.partitions]
    if named != [(METADATA_TOPIC, METADATA_PARTITION)] or len(request.topics) > 1:
        return Outcome(_unknown(request))
    topic = DescribeQuorumResponseTopicData(topic_name=METADATA_TOPIC, partitions=[_quorum(image, context)])
    nodes = [_node(context)] if context.api_version >= FIRST_VERSION_WITH_NODES else ()
    return Outcome(DescribeQuorumResponse(topics=[topic], nodes=nodes))


def _quorum(image: MetadataImage, context: RequestContext) -> DescribeQuorumResponsePartitionData:
    # The answer is sent when the log is durable up to this offset, so the offset is the high watermark at that time.
    end_offset = context.log_end_offset
    cluster, has_directories = context.cluster, context.api_version >= FIRST_VERSION_WITH_DIRECTORIES

    def state(key: ObserverKey, found: ObserverState) -> ReplicaState:
        return ReplicaState(
            replica_id=key.replica_id,
            replica_directory_id=key.directory_id if has_directories else ZERO_UUID,
            log_end_offset=found.end_offset,
            last_fetch_timestamp=found.fetched_ms,
            last_caught_up_timestamp=found.caught_up_ms,
        )

    whole = ObserverState(end_offset, context.now_ms, context.now_ms)
    voter = ObserverKey(cluster.controller_id, cluster.directory_id if cluster.is_dynamic else ZERO_UUID)
    simulated = {
        ObserverKey(broker.broker_id, broker.log_dirs[0] if broker.log_dirs else ZERO_UUID): whole
        for broker in image.brokers.values()
        if not broker.fenced
        and broker.broker_id != cluster.controller_id
        and context.liveness.is_simulated(broker.broker_id)
    }
    observers = dict(context.liveness.observers.seen(context.now_ms)) | simulated
    return DescribeQuorumResponsePartitionData(
        partition_index=METADATA_PARTITION,
        leader_id=cluster.controller_id,
        leader_epoch=cluster.leader_epoch,
        high_watermark=end_offset,
        current_voters=[state(voter, whole)],
        observers=[state(key, observers[key]) for key in sorted(observers)],
    )


def _node(context: RequestContext) -> Node:
    """The controller with its listener, if it has one."""
    cluster = context.cluster
    if cluster.controller_end_point is None:
        return Node(node_id=cluster.controller_id)
    host, port = cluster.controller_end_point
    listener = Listener(name=context.settings.controller_listener_name, host=host, port=port)
    return Node(node_id=cluster.controller_id, listeners=[listener])


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    topics = [
        DescribeQuorumResponseTopicData(
            topic_name=topic.topic_name,
            partitions=[
                DescribeQuorumResponsePartitionData(
                    partition_index=one.partition_index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    error_message=_NOT_HERE,
                )
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return DescribeQuorumResponse(topics=topics)
