"""Vote, BeginQuorumEpoch and EndQuorumEpoch at a leader that is the only voter: the order of checks, and that nothing
changes the leader or its epoch."""

from typing import Any

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.raft import begin_quorum_epoch, end_quorum_epoch, vote
from klamm.protocol.uuid import ZERO_UUID, Uuid
from tests.controller.handlers.cluster import CLUSTER_ID, DrivenCluster, directory

OWN, OTHER = directory(3000), Uuid(bytes(15) + b"\5")
EPOCH = 1
NONE, INVALID = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
FENCED, UNKNOWN = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
WRONG_VOTER, FOREIGN = ErrorCode.INVALID_VOTER_KEY, ErrorCode.INCONSISTENT_CLUSTER_ID


def a_vote(cluster_id: str | None = CLUSTER_ID, voter_id: int = -1, **given: Any) -> vote.VoteRequest:
    partition = vote.PartitionData(**{"replica_id": 3001, "replica_epoch": EPOCH, "last_offset": 5, **given})
    topic = vote.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=voter_id, topics=[topic])


def a_begin(
    cluster_id: str | None = CLUSTER_ID, voter_id: int = -1, **given: Any
) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    partition = begin_quorum_epoch.PartitionData(**{"leader_id": 3000, "leader_epoch": EPOCH, **given})
    topic = begin_quorum_epoch.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    return begin_quorum_epoch.BeginQuorumEpochRequest(cluster_id=cluster_id, voter_id=voter_id, topics=[topic])


def an_end(cluster_id: str | None = CLUSTER_ID, **given: Any) -> end_quorum_epoch.EndQuorumEpochRequest:
    partition = end_quorum_epoch.PartitionData(**{"leader_id": 3000, "leader_epoch": EPOCH, **given})
    topic = end_quorum_epoch.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    return end_quorum_epoch.EndQuorumEpochRequest(cluster_id=cluster_id, topics=[topic])


def asked(request: Message, version: int) -> Any:
    cluster = DrivenCluster(1)
    cluster.controller.advertise("h", 9093)
    end_offset = cluster.log.end_offset
    response = cluster.ask(request, broker_id=None, version=version)
    assert cluster.log.end_offset == end_offset
    assert cluster.controller.identity.leader_epoch == EPOCH
    return response


@pytest.mark.parametrize(("request_", "code"), [
    (a_vote(), NONE),
    (a_vote(None), NONE),
    (a_vote("x", replica_epoch=0), FOREIGN),
    (a_vote(last_offset=-1, replica_epoch=0), INVALID),
    (a_vote(last_offset=0), NONE),
    (a_vote(last_offset_epoch=-1), INVALID),
    (a_vote(last_offset_epoch=EPOCH), INVALID),
    (a_vote(last_offset_epoch=EPOCH, pre_vote=True), NONE),
    (a_vote(last_offset_epoch=EPOCH + 1, pre_vote=True), INVALID),
    (a_vote(replica_epoch=EPOCH - 1, last_offset_epoch=0, pre_vote=True, replica_id=-1), FENCED),
    (a_vote(replica_id=-1, voter_id=5), INVALID),
    (a_vote(replica_epoch=EPOCH + 1), NONE),
    (a_vote(replica_epoch=2**31 - 1), NONE),
    (a_vote(voter_id=3000), NONE),
    (a_vote(voter_id=3000, voter_directory_id=OWN), NONE),
    (a_vote(voter_id=3000, voter_directory_id=OTHER), WRONG_VOTER),
    (a_vote(voter_id=3001), WRONG_VOTER),
    (a_begin(), NONE),
    (a_begin("x"), FOREIGN),
    (a_begin(leader_epoch=EPOCH - 1, leader_id=-1), FENCED),
    (a_begin(leader_id=-1), INVALID),
    (a_begin(leader_id=3001), INVALID),
    (a_begin(leader_id=3001, leader_epoch=EPOCH + 1, voter_id=5), UNKNOWN),
    (a_begin(voter_id=3000, voter_directory_id=OTHER), WRONG_VOTER),
    (an_end(), NONE),
    (an_end("x"), FOREIGN),
    (an_end(leader_epoch=EPOCH - 1), FENCED),
    (an_end(leader_id=3001), INVALID),
    (an_end(leader_epoch=EPOCH + 1), UNKNOWN),
])  # fmt: skip
def test_the_first_fault_in_kafkas_order_is_the_answer(request_: Any, code: ErrorCode) -> None:
    response = asked(request_, 2 if isinstance(request_, vote.VoteRequest) else 1)
    if code == FOREIGN:
        assert (response.error_code, list(response.topics)) == (code, [])
        return
    (topic,) = response.topics
    (partition,) = topic.partitions
    assert (response.error_code, topic.topic_name, partition.partition_index) == (0, "__cluster_metadata", 0)
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (code, 3000, EPOCH)
    assert not getattr(partition, "vote_granted", False)


@pytest.mark.parametrize("request_", [a_vote(), a_begin(), an_end()])
def test_the_end_point_of_the_leader_is_there_from_version_1_on(request_: Any) -> None:
    assert list(asked(request_, 0).node_endpoints) == []
    (at,) = asked(request_, 1).node_endpoints
    assert (at.node_id, at.host, at.port) == (3000, "h", 9093)
    bare = DrivenCluster(1).ask(request_, broker_id=None, version=1)
    assert not bare.node_endpoints


@pytest.mark.parametrize("request_", [a_vote(), a_begin(), an_end()])
@pytest.mark.parametrize("change", ["no topic", "two topics", "no partition", "two partitions", "topic", "partition"])
def test_any_other_partition_refuses_the_whole_request(request_: Any, change: str) -> None:
    topic = type(request_.topics[0])(topic_name="__cluster_metadata", partitions=list(request_.topics[0].partitions))
    partition = type(topic.partitions[0])(partition_index=1)
    topics = {
        "no topic": [],
        "two topics": [topic, type(topic)(topic_name="t")],
        "no partition": [type(topic)(topic_name="__cluster_metadata")],
        "two partitions": [type(topic)(topic_name="__cluster_metadata", partitions=[*topic.partitions, partition])],
        "topic": [type(topic)(topic_name="t", partitions=topic.partitions)],
        "partition": [type(topic)(topic_name="__cluster_metadata", partitions=[partition])],
    }[change]
    response = asked(type(request_)(cluster_id=CLUSTER_ID, topics=topics), 1)
    assert (response.error_code, list(response.topics)) == (INVALID, [])


def test_a_voter_without_a_directory_is_named_by_its_id_alone() -> None:
    """A static quorum knows no directories; version 0 has none."""
    assert a_vote().topics[0].partitions[0].voter_directory_id == ZERO_UUID
    (topic,) = asked(a_vote(voter_id=3001), 0).topics
    assert topic.partitions[0].error_code == NONE  # version 0 cannot name the voter
