"""A broker leaves the ISRs of its replicas in log directories that went offline (KIP-858), at once or in steps."""

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest
from klamm.protocol.records.brokers import BrokerRegistrationChangeRecord
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.controller.handlers.cluster import START_MS, DrivenCluster, directory
from tests.controller.handlers.tiny_steps import finish, make_steps_tiny
from tests.controller.log.logs import append_records


@pytest.fixture
def tiny_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    make_steps_tiny(monkeypatch)


def lose_a_directory(cluster: DrivenCluster, every: int = 2) -> None:
    """A broker with two log directories reports one as offline that has every second of its partitions, or every
    n-th."""
    good, bad = directory(7, 0), directory(7, 1)
    cluster.join(7, log_dirs=[good, bad])
    cluster.create_at("t", *[[7, 1]] * 12)
    topic_id = cluster.image.topics_by_name["t"].topic_id
    homes = [bad if index % every == every - 1 else good for index in range(12)]
    placed = [
        PartitionChangeRecord(partition_id=index, topic_id=topic_id, directories=[home, directory(1)])
        for index, home in enumerate(homes)
    ]
    append_records(cluster.log, placed, START_MS)
    cluster.restart()
    assert not cluster.heartbeat(7, offline_log_dirs=[bad]).is_fenced
    assert cluster.image.brokers[7].log_dirs == (good,)


def in_sync(cluster: DrivenCluster) -> list[tuple[int, tuple[int, ...]]]:
    return [(row.leader, row.isr) for row in cluster.partitions("t")]


WITHOUT_THE_DIRECTORY = [(7, (7, 1)), (1, (1,))] * 6


@pytest.mark.usefixtures("tiny_steps")
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_directory_that_went_offline_is_left_in_steps(cluster: DrivenCluster, interrupted: bool) -> None:
    lose_a_directory(cluster)
    left = [pair[0] for pair in in_sync(cluster)].count(1)
    assert left < 6, "nobody waited for all of it"
    if interrupted:
        cluster.restart()
    assert finish(cluster) >= (6 - left) // 2
    assert in_sync(cluster) == WITHOUT_THE_DIRECTORY
    cluster.tick()
    finish(cluster)
    assert in_sync(cluster) == WITHOUT_THE_DIRECTORY, "it does not catch up there"


def test_a_start_with_all_directories_there_changes_nothing(cluster: DrivenCluster) -> None:
    lose_a_directory(cluster)
    assert in_sync(cluster) == WITHOUT_THE_DIRECTORY
    end_offset = cluster.log.end_offset
    cluster.restart()
    finish(cluster)
    assert cluster.log.end_offset == end_offset


@pytest.mark.usefixtures("tiny_steps")
def test_a_directory_that_is_there_again_keeps_what_it_has_left(cluster: DrivenCluster) -> None:
    lose_a_directory(cluster)
    assert cluster.register(7, log_dirs=[directory(7, 0), directory(7, 1)]).error_code == ErrorCode.NONE
    there = in_sync(cluster)
    assert [isr for _, isr in there].count((7, 1)) > 6, "some were left"
    finish(cluster)
    assert in_sync(cluster) == there


@pytest.mark.usefixtures("tiny_steps")
def test_few_replicas_in_a_directory_are_left_at_once_however_many_the_broker_has_elsewhere(
    cluster: DrivenCluster,
) -> None:
    with cluster.writing() as written:
        lose_a_directory(cluster, every=12)
    assert [type(record) for record in written[-2:]] == [PartitionChangeRecord, BrokerRegistrationChangeRecord], (
        "it is one batch: what is done later comes behind the change of the broker"
    )
    assert in_sync(cluster) == [(7, (7, 1))] * 11 + [(1, (1,))]


@pytest.mark.usefixtures("tiny_steps")
def test_a_broker_that_is_unregistered_meanwhile_leaves_all_of_it(cluster: DrivenCluster) -> None:
    lose_a_directory(cluster)
    assert cluster.ask(UnregisterBrokerRequest(broker_id=7)).error_code == ErrorCode.NONE
    assert any(isr != (1,) for _, isr in in_sync(cluster)), "both kinds of work are under way"
    finish(cluster)
    assert in_sync(cluster) == [(1, (1,))] * 12


def test_a_start_leaves_replicas_alone_of_which_no_directory_is_known(cluster: DrivenCluster) -> None:
    """Records from before KIP-858 name no directory: such replicas are in no directory that went offline."""
    topic_id = Uuid(b"\1" * 16)
    old = PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[1, 2], isr=[1, 2], leader=1)
    append_records(cluster.log, [TopicRecord(name="t", topic_id=topic_id), old], START_MS)
    cluster.restart()
    finish(cluster)
    assert in_sync(cluster) == [(1, (1, 2))]
