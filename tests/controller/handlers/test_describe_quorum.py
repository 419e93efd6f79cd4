"""DescribeQuorum: a quorum of one voter, on both listeners, in every version, before and after a restart."""

import pytest

from klamm.controller.metadata_log import CONTROLLER_ID
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.raft.describe_quorum import (
    DescribeQuorumRequest,
    Listener,
    PartitionData,
    ReplicaState,
    TopicData,
)
from klamm.protocol.uuid import ZERO_UUID
from tests.controller.handlers.cluster import DrivenCluster


def request(*named: tuple[str, tuple[int, ...]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            TopicData(topic_name=name, partitions=[PartitionData(partition_index=index) for index in indexes])
            for name, indexes in named
        ]
    )


METADATA = request(("__cluster_metadata", (0,)))


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("broker_id", [1, None])
def test_the_controller_leads_as_the_only_voter(version: int, broker_id: int | None) -> None:
    cluster = DrivenCluster(1)
    cluster.clock.advance(5)
    response = cluster.ask(METADATA, version=version, broker_id=broker_id)
    now_ms = cluster.clock.now_ms if version else -1
    [topic] = response.topics
    [quorum] = topic.partitions
    assert (quorum.partition_index, quorum.error_code) == (0, 0)
    assert (quorum.leader_id, quorum.leader_epoch) == (CONTROLLER_ID, cluster.log.leader_epoch)
    assert quorum.high_watermark == cluster.log.durable_offset
    assert list(quorum.current_voters) == [
        ReplicaState(
            replica_id=CONTROLLER_ID,
            replica_directory_id=ZERO_UUID,
            log_end_offset=cluster.log.end_offset,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )
    ]
    assert [node.node_id for node in response.nodes] == ([CONTROLLER_ID] if version == 2 else [])
    (observer,) = quorum.observers
    assert (observer.replica_id, observer.log_end_offset) == (1, cluster.log.end_offset)
    assert (observer.last_fetch_timestamp, observer.last_caught_up_timestamp) == (now_ms, now_ms)
    assert (observer.replica_directory_id != ZERO_UUID) is (version == 2)


def test_fenced_brokers_do_not_observe() -> None:
    cluster = DrivenCluster(3)
    cluster.lose(2)
    quorum = cluster.ask(METADATA).topics[0].partitions[0]
    assert [one.replica_id for one in quorum.observers] == [1, 3]


def test_the_voter_of_a_dynamic_quorum_has_a_directory() -> None:
    cluster = DrivenCluster(1, configs={"controller.quorum.bootstrap.servers": "h:1"})
    for version, directory_id in ((1, ZERO_UUID), (2, cluster.log.directory_id)):
        (voter,) = cluster.ask(METADATA, version=version).topics[0].partitions[0].current_voters
        assert voter.replica_directory_id == directory_id


def test_offsets_grow_with_the_log() -> None:
    cluster = DrivenCluster(1)
    before = cluster.ask(METADATA).topics[0].partitions[0]
    cluster.create("t", 3)
    after = cluster.ask(METADATA).topics[0].partitions[0]
    assert after.high_watermark == before.high_watermark + 4
    assert after.current_voters[0].log_end_offset == cluster.controller.log_end_offset


def test_the_node_has_its_listener_if_there_is_one() -> None:
    cluster = DrivenCluster(1)
    assert not cluster.ask(METADATA).nodes[0].listeners
    cluster.controller.advertise("host", 4711)
    assert list(cluster.ask(METADATA).nodes[0].listeners) == [Listener(name="CONTROLLER", host="host", port=4711)]


@pytest.mark.parametrize(
    "asked",
    [
        (),
        (("t", (0,)),),
        (("__cluster_metadata", ()),),
        (("__cluster_metadata", (1,)),),
        (("__cluster_metadata", (0, 0)),),
        (("__cluster_metadata", (0,)), ("t", ())),
        (("__cluster_metadata", (0,)), ("__cluster_metadata", (0,))),
    ],
)
def test_anything_else_is_an_unknown_partition_everywhere(asked: tuple[tuple[str, tuple[int, ...]], ...]) -> None:
    response = DrivenCluster(1).ask(request(*asked))
    assert (response.error_code, tuple(response.nodes)) == (0, ())
    assert [
        (topic.topic_name, tuple(one.partition_index for one in topic.partitions)) for topic in response.topics
    ] == list(asked)
    for topic in response.topics:
        for one in topic.partitions:
            assert one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert (one.leader_id, one.leader_epoch, one.high_watermark, len(one.current_voters)) == (0, 0, 0, 0)
