"""What the APIs about the metadata log check in the same way."""

from typing import Final

from klamm.controller.context import ClusterIdentity
from klamm.protocol.errors import ErrorCode

METADATA_PARTITION: Final = 0


def refuse_cluster_id(cluster_id: str | None, cluster: ClusterIdentity) -> ErrorCode:
    """INCONSISTENT_CLUSTER_ID for the id of another cluster; NONE for ours, and if the request has none."""
    is_ours = cluster_id is None or cluster_id == cluster.cluster_id
    return ErrorCode.NONE if is_ours else ErrorCode.INCONSISTENT_CLUSTER_ID


def refuse_epoch(leader_epoch: int, cluster: ClusterIdentity) -> ErrorCode:
    """Why a request for the leader of `leader_epoch` is not for this one; NONE if it is."""
    if leader_epoch < cluster.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH if leader_epoch > cluster.leader_epoch else ErrorCode.NONE
