"""DescribeQuorum (55): the quorum of the metadata log, which is one voter, the controller.

Kafka: KafkaRaftClient.handleDescribeQuorumRequest. Unless a request names exactly the one partition of the metadata
log, once, the answer is UNKNOWN_TOPIC_OR_PARTITION for all that it names. There are no observers, because no broker
fetches the metadata log.
"""

from typing import Final

from klamm.controller.authorizer import REFUSALS, AclOperation, AclResourceType
from klamm.controller.context import ClusterIdentity, RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.raft.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_PARTITION: Final = 0
FIRST_VERSION_WITH_NODES: Final = 2
_LISTENER_NAME: Final = "CONTROLLER"
_DENIED: Final = REFUSALS[AclResourceType.CLUSTER]
_NOT_HERE: Final = "This server does not host this topic-partition."


def handle_describe_quorum(_image: MetadataImage, request: DescribeQuorumRequest, context: RequestContext) -> Outcome:
    """The state of the voter at the moment of the request."""
    if not context.authorize_cluster(AclOperation.DESCRIBE):
        return Outcome(DescribeQuorumResponse(error_code=_DENIED.code, error_message=_DENIED.message))
    named = [(topic.topic_name, one.partition_index) for topic in request.topics for one in topic.partitions]
    if named != [(METADATA_TOPIC, METADATA_PARTITION)] or len(request.topics) > 1:
        return Outcome(_unknown(request))
    topic = DescribeQuorumResponseTopicData(topic_name=METADATA_TOPIC, partitions=[_quorum(context)])
    nodes = [_node(context.cluster)] if context.api_version >= FIRST_VERSION_WITH_NODES else ()
    return Outcome(DescribeQuorumResponse(topics=[topic], nodes=nodes))


def _quorum(context: RequestContext) -> DescribeQuorumResponsePartitionData:
    # The answer is sent when the log is durable up to this offset, so the offset is the high watermark at that time.
    end_offset = context.log_end_offset
    voter = ReplicaState(
        replica_id=context.cluster.controller_id,
        log_end_offset=end_offset,
        last_fetch_timestamp=context.now_ms,
        last_caught_up_timestamp=context.now_ms,
    )
    return DescribeQuorumResponsePartitionData(
        partition_index=METADATA_PARTITION,
        leader_id=context.cluster.controller_id,
        leader_epoch=context.cluster.leader_epoch,
        high_watermark=end_offset,
        current_voters=[voter],
    )


def _node(cluster: ClusterIdentity) -> Node:
    """The controller with its listener, if it has one."""
    if cluster.controller_end_point is None:
        return Node(node_id=cluster.controller_id)
    host, port = cluster.controller_end_point
    return Node(node_id=cluster.controller_id, listeners=[Listener(name=_LISTENER_NAME, host=host, port=port)])


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
