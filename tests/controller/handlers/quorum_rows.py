"""The rights that each request about features and the quorum needs: rows like those of `authorization_rows`."""

from klamm.controller.authorizer import AclOperation
from klamm.protocol.messages.cluster import get_telemetry_subscriptions, push_telemetry, update_features
from klamm.protocol.messages.raft import add_raft_voter, describe_quorum, remove_raft_voter, update_raft_voter
from tests.controller.handlers.authorization_row import CLUSTER_DENIED, Row, on_cluster

ALTER, DESCRIBE = AclOperation.ALTER, AclOperation.DESCRIBE

TELEMETRY = frozenset({get_telemetry_subscriptions.API, push_telemetry.API})
"""Every client may push the metrics that it is asked for."""

QUORUM_ROWS = [
    Row(
        "DescribeQuorum",
        describe_quorum.API,
        lambda name: describe_quorum.DescribeQuorumRequest(),
        [on_cluster(DESCRIBE), on_cluster(ALTER)],
        CLUSTER_DENIED,
    ),
    Row(
        "UpdateFeatures",
        update_features.API,
        lambda name: update_features.UpdateFeaturesRequest(),
        [on_cluster(ALTER)],
        CLUSTER_DENIED,
    ),
    Row(
        "AddRaftVoter",
        add_raft_voter.API,
        lambda name: add_raft_voter.AddRaftVoterRequest(),
        [on_cluster(ALTER)],
        CLUSTER_DENIED,
    ),
    Row(
        "RemoveRaftVoter",
        remove_raft_voter.API,
        lambda name: remove_raft_voter.RemoveRaftVoterRequest(),
        [on_cluster(ALTER)],
        CLUSTER_DENIED,
    ),
    Row(
        "UpdateRaftVoter",
        update_raft_voter.API,
        lambda name: update_raft_voter.UpdateRaftVoterRequest(),
        [on_cluster(AclOperation.CLUSTER_ACTION)],
        CLUSTER_DENIED,
    ),
]
