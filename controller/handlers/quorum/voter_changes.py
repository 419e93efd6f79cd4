"""AddRaftVoter (80), RemoveRaftVoter (81) and UpdateRaftVoter (82), KIP-853: the only voter stays the controller.

The checks have the order and texts of Kafka's KafkaRaftClient. In Kafka a leader that adds a voter connects to it
first. Klamm connects to no voter, so that each new one is refused like one that cannot be reached. The only voter
cannot be removed in Kafka, either.
"""

import base64
from collections.abc import Iterable
from typing import Final

from klamm.controller.authorizer import AclOperation
from klamm.controller.configs import invalid_request, shortened
from klamm.controller.context import ClusterIdentity, RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.raft.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from klamm.protocol.messages.raft.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from klamm.protocol.messages.raft.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from klamm.protocol.messages.raft.update_raft_voter import Listener as UpdatedListener
from klamm.protocol.uuid import ZERO_UUID, Uuid

_UNREACHABLE: Final = ApiError(
    ErrorCode.REQUEST_TIMED_OUT,
    "Aborted add voter operation for since API_VERSIONS returned an error BROKER_NOT_AVAILABLE",
)


def handle_add_raft_voter(_image: MetadataImage, request: AddRaftVoterRequest, context: RequestContext) -> Outcome:
    """Always an error: see above."""
    fault = (
        context.refuse_cluster(AclOperation.ALTER)
        or _fault_of_cluster(request.cluster_id, context.cluster)
        or _fault_of_voter(request.voter_id, request.voter_directory_id, "Add voter request")
        or _fault_of_listeners(request.listeners, context)
        or _fault_of_quorum(context.cluster, "adding")
        or _present(request.voter_id, request.voter_directory_id, context.cluster)
        or _UNREACHABLE
    )
    return Outcome(AddRaftVoterResponse(error_code=fault.code, error_message=fault.message))


def handle_remove_raft_voter(
    _image: MetadataImage, request: RemoveRaftVoterRequest, context: RequestContext
) -> Outcome:
    """Always an error: the quorum has one voter, which cannot be removed."""
    fault = (
        context.refuse_cluster(AclOperation.ALTER)
        or _fault_of_cluster(request.cluster_id, context.cluster)
        or _fault_of_voter(request.voter_id, request.voter_directory_id, "Remove voter request")
        or _fault_of_quorum(context.cluster, "removing")
        or ApiError(
            ErrorCode.VOTER_NOT_FOUND,
            f"Cannot remove voter {_key(request.voter_id, request.voter_directory_id)} from the set of voters "
            f"{_voters(context.cluster)}",
        )
    )
    return Outcome(RemoveRaftVoterResponse(error_code=fault.code, error_message=fault.message))


def handle_update_raft_voter(
    _image: MetadataImage, request: UpdateRaftVoterRequest, context: RequestContext
) -> Outcome:
    """No error only if the controller itself is named with the end point that it has."""
    code = _code_of_update(request, context)
    leader = CurrentLeader()
    if code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        host, port = context.cluster.controller_end_point or ("", 0)
        leader = CurrentLeader(
            leader_id=context.cluster.controller_id, leader_epoch=context.cluster.leader_epoch, host=host, port=port
        )
    return Outcome(UpdateRaftVoterResponse(error_code=code, current_leader=leader))


def _code_of_update(request: UpdateRaftVoterRequest, context: RequestContext) -> ErrorCode:
    cluster, epoch = context.cluster, request.current_leader_epoch
    supported = request.kraft_version_feature
    fault = (
        context.refuse_cluster(AclOperation.CLUSTER_ACTION)
        or _fault_of_cluster(request.cluster_id, cluster)
        or (ApiError(ErrorCode.FENCED_LEADER_EPOCH) if epoch < cluster.leader_epoch else None)
        or (ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH) if epoch > cluster.leader_epoch else None)
        or _fault_of_voter(request.voter_id, request.voter_directory_id, "Update voter request")
        or _fault_of_listeners(request.listeners, context)
    )
    if fault:
        return fault.code
    if not 0 <= supported.min_supported_version <= supported.max_supported_version:
        return ErrorCode.INVALID_REQUEST
    directory_id = cluster.directory_id if cluster.is_dynamic else request.voter_directory_id
    if (request.voter_id, request.voter_directory_id) != (cluster.controller_id, directory_id):
        return ErrorCode.VOTER_NOT_FOUND
    named = {(one.host, one.port) for one in request.listeners if one.name == context.settings.controller_listener_name}
    return ErrorCode.NONE if named == {cluster.controller_end_point} else ErrorCode.INVALID_REQUEST


def _fault_of_cluster(cluster_id: str | None, cluster: ClusterIdentity) -> ApiError | None:
    if cluster_id in (None, cluster.cluster_id):
        return None
    text = f'The given id "{cluster_id}" doesn\'t match the cluster id "{cluster.cluster_id}"'
    return ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, shortened(text))


def _fault_of_voter(voter_id: int, directory_id: Uuid, request: str) -> ApiError | None:
    if voter_id >= 0 and directory_id != ZERO_UUID:
        return None
    return invalid_request(f"{request} didn't include a valid voter")


def _fault_of_listeners(listeners: Iterable[Listener | UpdatedListener], context: RequestContext) -> ApiError | None:
    end_points = {one.name: one for one in listeners}
    name = context.settings.controller_listener_name
    if name in end_points:
        return None
    shown = ", ".join(f"ListenerName({one.name})={one.host}/<unresolved>:{one.port}" for one in end_points.values())
    return invalid_request(
        f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{shown}}})) for the default listener "
        f"ListenerName({name})"
    )


def _fault_of_quorum(cluster: ClusterIdentity, change: str) -> ApiError | None:
    if cluster.is_dynamic:
        return None
    text = f"Cluster doesn't support {change} voter because the kraft.version feature is 0"
    return ApiError(ErrorCode.UNSUPPORTED_VERSION, text)


def _present(voter_id: int, directory_id: Uuid, cluster: ClusterIdentity) -> ApiError | None:
    if voter_id != cluster.controller_id:
        return None
    text = f"The voter id for {_key(voter_id, directory_id)} is already part of the set of voters {_voters(cluster)}."
    return ApiError(ErrorCode.DUPLICATE_VOTER, text)


def _voters(cluster: ClusterIdentity) -> str:
    return f"[{_key(cluster.controller_id, cluster.directory_id)}]"


def _key(voter_id: int, directory_id: Uuid) -> str:
    """A voter in the format of Java's toString."""
    text = base64.urlsafe_b64encode(bytes(directory_id)).decode().rstrip("=")
    return f"ReplicaKey(id={voter_id}, directoryId={text})"
