"""Vote (52), BeginQuorumEpoch (53) and EndQuorumEpoch (54), as a leader answers them that is the only voter (KIP-595).

The checks have the order of Kafka's KafkaRaftClient. No other voter exists, so that no vote is granted and no leader is
accepted. Where Kafka's leader would resign for a later epoch, and then elect itself, this one keeps its epoch.
"""

from typing import Any, Final, TypeAlias, TypeVar

from klamm.controller.authorizer import AclOperation
from klamm.controller.context import ClusterIdentity, RequestContext
from klamm.controller.handlers.quorum.log_requests import METADATA_PARTITION, refuse_cluster_id
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.internal_topics import METADATA_TOPIC
from klamm.protocol.messages.raft import begin_quorum_epoch, end_quorum_epoch, vote
from klamm.protocol.messages.raft.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from klamm.protocol.messages.raft.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from klamm.protocol.messages.raft.vote import VoteRequest, VoteResponse
from klamm.protocol.uuid import ZERO_UUID, Uuid

FIRST_VERSION_WITH_END_POINTS: Final = 1
NO_VOTER: Final = -1
_Request: TypeAlias = VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest
_Response = TypeVar("_Response", VoteResponse, BeginQuorumEpochResponse, EndQuorumEpochResponse)


def handle_vote(_image: MetadataImage, request: VoteRequest, context: RequestContext) -> Outcome:
    """The vote is never granted: the controller leads."""
    if code := _refuse_whole(request, context):
        return Outcome(VoteResponse(error_code=code))
    asked = request.topics[0].partitions[0]
    # The last record of a candidate is older than the epoch that it asks for, unless it only asks whether it could.
    newest = asked.replica_epoch if asked.pre_vote else asked.replica_epoch - 1
    if asked.last_offset < 0 or not 0 <= asked.last_offset_epoch <= newest:
        code = ErrorCode.INVALID_REQUEST
    else:
        code = _refuse_replica(asked.replica_id, asked.replica_epoch, context.cluster) or _refuse_voter(
            request.voter_id, asked.voter_directory_id, context.cluster
        )
    partition = vote.VoteResponsePartitionData(
        partition_index=METADATA_PARTITION,
        error_code=code,
        leader_id=context.cluster.controller_id,
        leader_epoch=context.cluster.leader_epoch,
    )
    topic = vote.VoteResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return Outcome(_with_end_point(VoteResponse(topics=[topic]), vote.NodeEndpoint, context))


def handle_begin_quorum_epoch(
    _image: MetadataImage, request: BeginQuorumEpochRequest, context: RequestContext
) -> Outcome:
    """No error only for what the controller itself would send."""
    if code := _refuse_whole(request, context):
        return Outcome(BeginQuorumEpochResponse(error_code=code))
    asked = request.topics[0].partitions[0]
    code = _refuse_leader(asked.leader_id, asked.leader_epoch, context.cluster) or _refuse_voter(
        request.voter_id, asked.voter_directory_id, context.cluster
    )
    partition = begin_quorum_epoch.BeginQuorumEpochResponsePartitionData(
        partition_index=METADATA_PARTITION,
        error_code=code,
        leader_id=context.cluster.controller_id,
        leader_epoch=context.cluster.leader_epoch,
    )
    topic = begin_quorum_epoch.BeginQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    response = BeginQuorumEpochResponse(topics=[topic])
    return Outcome(_with_end_point(response, begin_quorum_epoch.NodeEndpoint, context))


def handle_end_quorum_epoch(_image: MetadataImage, request: EndQuorumEpochRequest, context: RequestContext) -> Outcome:
    """A leader that resigns is no follower, so that it changes nothing."""
    if code := _refuse_whole(request, context):
        return Outcome(EndQuorumEpochResponse(error_code=code))
    asked = request.topics[0].partitions[0]
    partition = end_quorum_epoch.EndQuorumEpochResponsePartitionData(
        partition_index=METADATA_PARTITION,
        error_code=_refuse_leader(asked.leader_id, asked.leader_epoch, context.cluster),
        leader_id=context.cluster.controller_id,
        leader_epoch=context.cluster.leader_epoch,
    )
    topic = end_quorum_epoch.EndQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return Outcome(_with_end_point(EndQuorumEpochResponse(topics=[topic]), end_quorum_epoch.NodeEndpoint, context))


def _refuse_whole(request: _Request, context: RequestContext) -> ErrorCode:
    """Why the request is refused without a look at its partition; NONE if it is not."""
    if denied := context.refuse_cluster(AclOperation.CLUSTER_ACTION):
        return denied.code
    if code := refuse_cluster_id(request.cluster_id, context.cluster):
        return code
    named = [(topic.topic_name, one.partition_index) for topic in request.topics for one in topic.partitions]
    is_known = len(request.topics) == 1 and named == [(METADATA_TOPIC, METADATA_PARTITION)]
    return ErrorCode.NONE if is_known else ErrorCode.INVALID_REQUEST


def _refuse_replica(replica_id: int, epoch: int, cluster: ClusterIdentity) -> ErrorCode:
    """Why a request of a voter is refused; NONE if it is not."""
    if epoch < cluster.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.INVALID_REQUEST if replica_id < 0 else ErrorCode.NONE


def _refuse_leader(leader_id: int, epoch: int, cluster: ClusterIdentity) -> ErrorCode:
    """Why another leader is not accepted; NONE for the controller itself."""
    if code := _refuse_replica(leader_id, epoch, cluster):
        return code
    if epoch > cluster.leader_epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if leader_id == cluster.controller_id else ErrorCode.INVALID_REQUEST


def _refuse_voter(voter_id: int, directory_id: Uuid, cluster: ClusterIdentity) -> ErrorCode:
    """INVALID_VOTER_KEY if the request is meant for another voter. A voter without a directory is named by its id."""
    is_meant = voter_id == NO_VOTER or (
        voter_id == cluster.controller_id and directory_id in (ZERO_UUID, cluster.directory_id)
    )
    return ErrorCode.NONE if is_meant else ErrorCode.INVALID_VOTER_KEY


def _with_end_point(response: _Response, node_end_point: Any, context: RequestContext) -> _Response:
    """The response with the end point of the leader, from the version on that has it."""
    cluster = context.cluster
    if context.api_version >= FIRST_VERSION_WITH_END_POINTS and cluster.controller_end_point is not None:
        host, port = cluster.controller_end_point
        response.node_endpoints = [node_end_point(node_id=cluster.controller_id, host=host, port=port)]
    return response
