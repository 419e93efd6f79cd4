"""The rights for the APIs about the metadata log, and for those that brokers alone send."""

from klamm.controller.authorizer import AclOperation
from klamm.protocol.messages.brokers import allocate_producer_ids, assign_replicas_to_dirs, envelope
from klamm.protocol.messages.data import fetch
from klamm.protocol.messages.raft import (
    begin_quorum_epoch,
    controller_registration,
    end_quorum_epoch,
    fetch_snapshot,
    vote,
)
from tests.controller.handlers.authorization_row import CLUSTER_DENIED, Row, on_cluster

RAFT_ROWS = [
    Row(
        "Fetch of the metadata log",
        fetch.API,
        lambda name: fetch.FetchRequest(topics=[fetch.FetchTopic(partitions=[fetch.FetchPartition()])]),
        [on_cluster(AclOperation.CLUSTER_ACTION)],
        CLUSTER_DENIED,
        by_controller=True,
    ),
    Row(
        "FetchSnapshot",
        fetch_snapshot.API,
        lambda name: fetch_snapshot.FetchSnapshotRequest(),
        [on_cluster(AclOperation.CLUSTER_ACTION)],
        CLUSTER_DENIED,
    ),
    Row(
        "Envelope",
        envelope.API,
        lambda name: envelope.EnvelopeRequest(),
        [on_cluster(AclOperation.CLUSTER_ACTION)],
        CLUSTER_DENIED,
    ),
    Row(
        "AssignReplicasToDirs",
        assign_replicas_to_dirs.API,
        lambda name: assign_replicas_to_dirs.AssignReplicasToDirsRequest(broker_id=1),
        [on_cluster(AclOperation.CLUSTER_ACTION)],
        CLUSTER_DENIED,
    ),
    Row(
        "AllocateProducerIds",
        allocate_producer_ids.API,
        lambda name: allocate_producer_ids.AllocateProducerIdsRequest(broker_id=1),
        [on_cluster(AclOperation.CLUSTER_ACTION)],
        CLUSTER_DENIED,
    ),
    Row(
        "Vote",
        vote.API,
        lambda name: vote.VoteRequest(),
        [on_cluster(AclOperation.CLUSTER_ACTION)],
        CLUSTER_DENIED,
    ),
    Row(
        "BeginQuorumEpoch",
        begin_quorum_epoch.API,
        lambda name: begin_quorum_epoch.BeginQuorumEpochRequest(),
        [on_cluster(AclOperation.CLUSTER_ACTION)],
        CLUSTER_DENIED,
    ),
    Row(
        "EndQuorumEpoch",
        end_quorum_epoch.API,
        lambda name: end_quorum_epoch.EndQuorumEpochRequest(),
        [on_cluster(AclOperation.CLUSTER_ACTION)],
        CLUSTER_DENIED,
    ),
    Row(
        "ControllerRegistration",
        controller_registration.API,
        lambda name: controller_registration.ControllerRegistrationRequest(),
        [on_cluster(AclOperation.CLUSTER_ACTION)],
        CLUSTER_DENIED,
    ),
]
