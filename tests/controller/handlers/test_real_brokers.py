"""What brokers of other processes ask the controller for: blocks of producer ids, directories of replicas, ISRs."""

from collections.abc import Mapping, Sequence

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.allocate_producer_ids import AllocateProducerIdsRequest
from klamm.protocol.messages.brokers.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from klamm.protocol.records.brokers import ProducerIdsRecord
from klamm.protocol.uuid import Uuid
from tests.controller.handlers.cluster import DrivenCluster, directory, incarnation


@pytest.fixture
def cluster() -> DrivenCluster:
    return DrivenCluster(3)


def epoch_of(cluster: DrivenCluster, broker_id: int) -> int:
    return cluster.image.brokers[broker_id].broker_epoch


def test_each_block_of_producer_ids_is_given_once_and_logged_with_its_broker(cluster: DrivenCluster) -> None:
    given = []
    with cluster.writing() as written:
        for broker_id in (1, 2, 1):
            request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch_of(cluster, broker_id))
            answer = cluster.ask(request, broker_id=None)
            assert (answer.error_code, answer.producer_id_len) == (0, 1_000)
            given.append(answer.producer_id_start)
    assert given == [0, 1_000, 2_000]
    assert written == [
        ProducerIdsRecord(broker_id=at, broker_epoch=epoch_of(cluster, at), next_producer_id=start + 1_000)
        for at, start in zip((1, 2, 1), given, strict=True)
    ]


@pytest.mark.parametrize(("broker_id", "more"), [(1, 1), (1, -1), (9, 0)])
def test_another_life_of_a_broker_gets_no_producer_ids(broker_id: int, more: int, cluster: DrivenCluster) -> None:
    epoch = epoch_of(cluster, 1) + more
    with cluster.writing() as written:
        answer = cluster.ask(AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch), broker_id=None)
    assert (answer.error_code, answer.producer_id_start, written) == (ErrorCode.STALE_BROKER_EPOCH, 0, [])


def assigning(
    cluster: DrivenCluster, wanted: Mapping[Uuid, Sequence[tuple[Uuid, int]]], broker_id: int = 2
) -> AssignReplicasToDirsRequest:
    return AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=epoch_of(cluster, broker_id),
        directories=[
            DirectoryData(
                id=place,
                topics=[
                    TopicData(topic_id=topic_id, partitions=[PartitionData(partition_index=index)])
                    for topic_id, index in replicas
                ],
            )
            for place, replicas in wanted.items()
        ],
    )


def codes(cluster: DrivenCluster, request: AssignReplicasToDirsRequest) -> list[int]:
    answer = cluster.ask(request, broker_id=None)
    assert answer.error_code == 0
    assert [place.id for place in answer.directories] == [place.id for place in request.directories]
    return [one.error_code for place in answer.directories for topic in place.topics for one in topic.partitions]


@pytest.fixture
def moved(cluster: DrivenCluster) -> DrivenCluster:
    """Topic t, of which broker 2 has three replicas and broker 3 a fourth partition; broker 2 has two directories."""
    assert cluster.register(2, log_dirs=[directory(2), directory(2, 1)]).error_code == 0
    assert not cluster.heartbeat(2).is_fenced
    assert cluster.create_at("t", [1, 2], [2, 1], [2, 3], [3, 1]).error_code == 0
    return cluster


def test_replicas_are_in_the_directories_that_their_broker_names(moved: DrivenCluster) -> None:
    topic_id = moved.image.topics_by_name["t"].topic_id
    first, second = directory(2), directory(2, 1)
    before = [moved.partitions("t")[at] for at in range(3)]
    request = assigning(moved, {second: [(topic_id, 0), (topic_id, 2)], first: [(topic_id, 1)]})
    with moved.writing() as written:
        assert codes(moved, request) == [0, 0, 0]
    after = [moved.partitions("t")[at] for at in range(3)]
    for index, (old, new) in enumerate(zip(before, after, strict=True)):
        own = new.replicas.index(2)
        assert new.directories[own] == (first if index == 1 else second)
        assert new.directories[1 - own] == old.directories[1 - own]
        assert (new.leader, new.isr, new.leader_epoch) == (old.leader, old.isr, old.leader_epoch)
    changed = sum(old.directories != new.directories for old, new in zip(before, after, strict=True))
    assert len(written) == changed
    with moved.writing() as again:
        assert codes(moved, request) == [0, 0, 0]
    assert again == [], "what is known already is not logged"


def test_each_replica_that_is_not_the_broker_s_has_its_own_error(moved: DrivenCluster) -> None:
    topic_id, unknown = moved.image.topics_by_name["t"].topic_id, incarnation(99)
    request = assigning(moved, {directory(2): [(topic_id, 3), (topic_id, 9), (unknown, 0), (topic_id, 0)]})
    assert codes(moved, request) == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        0,
    ]


def test_replicas_in_a_directory_that_is_not_online_leave_the_isr(moved: DrivenCluster) -> None:
    topic_id = moved.image.topics_by_name["t"].topic_id
    assert codes(moved, assigning(moved, {directory(2, 7): [(topic_id, 1)], directory(2): [(topic_id, 2)]})) == [0, 0]
    moved.tick()
    lost, kept = moved.partitions("t")[1], moved.partitions("t")[2]
    assert (lost.leader, lost.isr) == (1, (1,))
    assert 2 in kept.isr


def test_another_life_of_a_broker_assigns_nothing(moved: DrivenCluster) -> None:
    request = assigning(moved, {directory(2): []})
    request.broker_epoch += 1
    answer = moved.ask(request, broker_id=None)
    assert (answer.error_code, list(answer.directories)) == (ErrorCode.STALE_BROKER_EPOCH, [])


def test_a_leader_of_another_process_says_itself_who_has_caught_up(cluster: DrivenCluster) -> None:
    """It reports by AlterPartition, also when the partition has no records here. Leaders of this process are simulated
    with all their followers."""
    assert cluster.create_at("outside", [1, 2]).error_code == 0
    assert cluster.create_at("inside", [3, 2]).error_code == 0
    cluster.lose(2)
    for broker_id in (1, 2):
        cluster.brokers.by_id.pop(broker_id)
    cluster.lives[2] += 1
    assert cluster.controller.submit(cluster.call(cluster.registration(2), broker_id=None)).response is not None
    cluster.heartbeat(2)
    cluster.clock.advance(1_000)
    cluster.heartbeat(1)
    cluster.heartbeat(3)
    cluster.tick()
    assert cluster.image.brokers[2].live
    assert cluster.partitions("outside")[0].isr == (1,)
    assert cluster.partitions("inside")[0].isr == (2, 3)
