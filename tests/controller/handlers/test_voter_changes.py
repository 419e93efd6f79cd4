"""AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter: what the recording in tests/behaviour lacks."""

from typing import Any

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.raft.add_raft_voter import AddRaftVoterRequest, Listener
from klamm.protocol.messages.raft.remove_raft_voter import RemoveRaftVoterRequest
from klamm.protocol.messages.raft.update_raft_voter import KRaftVersionFeature, UpdateRaftVoterRequest
from klamm.protocol.messages.raft.update_raft_voter import Listener as UpdatedListener
from klamm.protocol.uuid import ZERO_UUID, Uuid
from tests.controller.handlers.cluster import DrivenCluster

DYNAMIC = {"controller.quorum.bootstrap.servers": "h:1"}
DIRECTORY = Uuid(b"a directory's id")
AT = Listener(name="CONTROLLER", host="localhost", port=9)


@pytest.fixture(params=[1, None])
def asked(request: pytest.FixtureRequest) -> int | None:
    """A broker, and the controller's listener."""
    broker_id: int | None = request.param
    return broker_id


def add(cluster: DrivenCluster, asked: int | None = 1, **fields: Any) -> tuple[int, str | None]:
    wanted: dict[str, Any] = {"cluster_id": None, "voter_id": 2, "voter_directory_id": DIRECTORY, "listeners": [AT]}
    answer = cluster.ask(AddRaftVoterRequest(**{**wanted, **fields}), broker_id=asked)
    return answer.error_code, answer.error_message


def remove(cluster: DrivenCluster, asked: int | None = 1, **fields: Any) -> tuple[int, str | None]:
    wanted: dict[str, Any] = {"cluster_id": None, "voter_id": 2, "voter_directory_id": DIRECTORY}
    answer = cluster.ask(RemoveRaftVoterRequest(**{**wanted, **fields}), broker_id=asked)
    return answer.error_code, answer.error_message


def test_a_static_quorum_does_not_change(asked: int | None) -> None:
    cluster = DrivenCluster(1)
    for change, verb in ((add, "adding"), (remove, "removing")):
        assert change(cluster, asked) == (
            ErrorCode.UNSUPPORTED_VERSION,
            f"Cluster doesn't support {verb} voter because the kraft.version feature is 0",
        )
        assert change(cluster, asked, cluster_id="x")[0] == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert change(cluster, asked, voter_id=-1)[0] == ErrorCode.INVALID_REQUEST
    assert add(cluster, asked, listeners=[])[0] == ErrorCode.INVALID_REQUEST


def test_voters_make_the_quorum_static_beside_bootstrap_servers() -> None:
    cluster = DrivenCluster(1, configs={**DYNAMIC, "controller.quorum.voters": "1@h:1"})
    assert add(cluster)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_a_new_voter_cannot_be_reached_and_the_only_one_stays(asked: int | None) -> None:
    cluster = DrivenCluster(1, configs=DYNAMIC)
    assert add(cluster, asked)[0] == ErrorCode.REQUEST_TIMED_OUT
    assert add(cluster, asked, voter_id=3000)[0] == ErrorCode.DUPLICATE_VOTER
    assert remove(cluster, asked, voter_id=3000)[0] == ErrorCode.VOTER_NOT_FOUND
    assert cluster.log.end_offset == cluster.log.durable_offset


def test_the_cluster_is_checked_before_the_voter_and_the_voter_before_the_listeners() -> None:
    cluster = DrivenCluster(1, configs=DYNAMIC)
    nothing: Any = {"voter_id": -1, "voter_directory_id": ZERO_UUID, "listeners": []}
    assert add(cluster, cluster_id="x", **nothing)[0] == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert add(cluster, **nothing) == (ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter")
    assert "endpoint" in (add(cluster, listeners=[], voter_id=3000)[1] or "")


def test_the_default_listener_has_the_configured_name() -> None:
    cluster = DrivenCluster(1, configs={**DYNAMIC, "controller.listener.names": "quorum,CONTROLLER"})
    code, text = add(cluster)
    assert code == ErrorCode.INVALID_REQUEST
    assert text == (
        "Add voter request didn't include the endpoint (Endpoints(endpoints={ListenerName(CONTROLLER)=localhost/"
        "<unresolved>:9})) for the default listener ListenerName(QUORUM)"
    )


def updated(cluster: DrivenCluster, **fields: Any) -> Any:
    wanted: dict[str, Any] = {
        "cluster_id": None,
        "current_leader_epoch": cluster.log.leader_epoch,
        "voter_id": 3000,
        "voter_directory_id": cluster.log.directory_id,
        "listeners": [UpdatedListener(name="CONTROLLER", host="host", port=4711)],
        "kraft_version_feature": KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    }
    return cluster.ask(UpdateRaftVoterRequest(**{**wanted, **fields}), broker_id=None)


def test_the_voter_may_say_what_it_is() -> None:
    cluster = DrivenCluster(1, configs=DYNAMIC)
    cluster.controller.advertise("host", 4711)
    answer = updated(cluster)
    leader = answer.current_leader
    assert answer.error_code == 0
    assert (leader.leader_id, leader.leader_epoch, leader.host, leader.port) == (
        3000, cluster.log.leader_epoch, "host", 4711,
    )  # fmt: skip


@pytest.mark.parametrize(("fields", "code"), [
    ({"cluster_id": "x", "current_leader_epoch": 0}, ErrorCode.INCONSISTENT_CLUSTER_ID),
    ({"current_leader_epoch": 0, "voter_id": -1}, ErrorCode.FENCED_LEADER_EPOCH),
    ({"current_leader_epoch": 2, "voter_id": -1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ({"voter_id": -1}, ErrorCode.INVALID_REQUEST),
    ({"voter_directory_id": ZERO_UUID}, ErrorCode.INVALID_REQUEST),
    ({"listeners": []}, ErrorCode.INVALID_REQUEST),
    ({"kraft_version_feature": KRaftVersionFeature(min_supported_version=1)}, ErrorCode.INVALID_REQUEST),
    ({"kraft_version_feature": KRaftVersionFeature(min_supported_version=-1)}, ErrorCode.INVALID_REQUEST),
    ({"voter_id": 1}, ErrorCode.VOTER_NOT_FOUND),
    ({"voter_directory_id": DIRECTORY}, ErrorCode.VOTER_NOT_FOUND),
    ({"listeners": [UpdatedListener(name="CONTROLLER", host="host", port=1)]}, ErrorCode.INVALID_REQUEST),
])  # fmt: skip
def test_other_updates_are_refused(fields: dict[str, Any], code: ErrorCode) -> None:
    cluster = DrivenCluster(1, configs=DYNAMIC)
    cluster.controller.advertise("host", 4711)
    answer = updated(cluster, **fields)
    assert answer.error_code == code
    assert answer.current_leader.leader_id == 3000
