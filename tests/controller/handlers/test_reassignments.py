"""AlterPartitionReassignments and ListPartitionReassignments: the effects of a reassignment, and what is refused."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from klamm.controller import background
from klamm.controller.metadata.partition import Partition
from klamm.controller.settings import Profile
from klamm.controller.transitions import placement
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest
from klamm.protocol.messages.partitions.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from klamm.protocol.messages.topics.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.messages.topics.create_topics import CreatableTopicConfig
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest
from klamm.protocol.records.brokers import BrokerRegistrationChangeRecord
from klamm.protocol.records.partitions import PartitionChangeRecord
from tests.controller.handlers.cluster import ENOUGH_TIME_MS, START_MS, DrivenCluster, directory
from tests.controller.handlers.reassignment_requests import in_progress, items, move, moved, moved_some, reassign
from tests.controller.log.logs import append_records

Start = Callable[..., DrivenCluster]


def only(cluster: DrivenCluster, name: str = "t") -> Partition:
    [partition] = cluster.partitions(name)
    return partition


# How replicas move


def test_replicas_are_added_then_the_former_ones_go_and_the_leader_last(start: Start, profile: Profile) -> None:
    cluster = start(5, profile=profile)
    cluster.create_at("t", [1, 2])
    with cluster.writing() as begun:
        assert move(cluster, "t", [5, 4]) == [0]
    [record] = begun
    assert isinstance(record, PartitionChangeRecord)
    assert (record.replicas, record.adding_replicas, record.removing_replicas) == ((5, 4, 1, 2), (4, 5), (1, 2))
    assert record.directories == tuple(directory(broker_id) for broker_id in (5, 4, 1, 2))
    assert (record.isr, record.leader) == (None, -2)
    assert in_progress(cluster) == {"t-0": ([5, 4, 1, 2], [4, 5], [1, 2])}
    with cluster.writing() as completed:
        cluster.tick()
    [record] = completed
    assert isinstance(record, PartitionChangeRecord)
    assert (record.replicas, record.adding_replicas, record.removing_replicas) == ((5, 4), (), ())
    assert (record.isr, record.leader, record.directories) == ((4, 5), 5, (directory(5), directory(4)))
    partition = only(cluster)
    assert (partition.leader_epoch, partition.partition_epoch, partition.reassigning) == (1, 2, False)
    assert in_progress(cluster) == {}


@pytest.mark.parametrize(
    ("target", "replicas", "leader", "leader_epoch"),
    [
        ([1, 2, 3], (1, 2, 3), 1, 0),  # as it is: no record
        ([3, 2, 1], (3, 2, 1), 1, 0),  # another order: at once, and the leader stays
        ([1, 3], (1, 3), 1, 1),  # fewer, at once: the removed replica notices by the leader epoch
        ([3, 2], (3, 2), 3, 1),  # without the leader: the first replica in sync leads
        ([3], (3,), 3, 1),
    ],
)
def test_what_has_nothing_to_wait_for_is_done_at_once(
    cluster: DrivenCluster, target: list[int], replicas: tuple[int, ...], leader: int, leader_epoch: int
) -> None:
    cluster.create_at("t", [1, 2, 3])
    assert move(cluster, "t", target) == [0]
    partition = only(cluster)
    assert (partition.replicas, partition.leader, partition.leader_epoch) == (replicas, leader, leader_epoch)
    assert set(partition.isr) == set(replicas)
    assert partition.partition_epoch == (target != [1, 2, 3])
    assert not partition.reassigning


def test_a_broker_that_is_down_is_waited_for(start: Start, profile: Profile) -> None:
    cluster = start(4, profile=profile)
    cluster.create_at("t", [1, 2])
    cluster.lose(4)
    assert move(cluster, "t", [4, 1]) == [0]
    cluster.tick()
    assert in_progress(cluster) == {"t-0": ([4, 1, 2], [4], [2])}
    cluster.come_back(4)
    assert (only(cluster).replicas, only(cluster).leader, only(cluster).reassigning) == ((4, 1), 1, False)


def test_fewer_replicas_wait_until_all_that_stay_are_in_sync(start: Start, profile: Profile) -> None:
    cluster = start(4, profile=profile)
    cluster.create_at("t", [1, 2, 3])
    cluster.lose(3)
    assert move(cluster, "t", [2, 3]) == [0]
    assert in_progress(cluster) == {"t-0": ([2, 3, 1], [], [1])}
    assert only(cluster).leader == 1
    cluster.come_back(3)
    assert (only(cluster).replicas, set(only(cluster).isr), only(cluster).leader) == ((2, 3), {2, 3}, 2)


def test_whoever_leads_may_go_while_replicas_move(start: Start, profile: Profile) -> None:
    """Replicas that are being added count like others when they are in sync."""
    cluster = start(5, profile=profile)
    cluster.create_at("t", [1, 2])
    cluster.lose(5)
    assert move(cluster, "t", [4, 5]) == [0]
    cluster.tick()
    assert set(only(cluster).isr) == {1, 2, 4}
    cluster.lose(1)
    assert only(cluster).leader == 4
    cluster.lose(2)
    assert (only(cluster).isr, only(cluster).leader) == ((4,), 4)
    cluster.ask(UnregisterBrokerRequest(broker_id=2))
    assert in_progress(cluster) == {"t-0": ([4, 5, 1, 2], [4, 5], [1, 2])}
    cluster.come_back(5)
    assert (only(cluster).replicas, set(only(cluster).isr)) == ((4, 5), {4, 5})


def test_a_move_goes_on_after_a_restart(start: Start, profile: Profile) -> None:
    cluster = start(4, profile=profile)
    cluster.create_at("t", *[[1, 2]] * 20)
    assert move(cluster, "t", *[[3, 4]] * 20) == [0] * 20
    cluster.restart()
    assert len(in_progress(cluster)) == 20
    cluster.tick()
    assert {partition.replicas for partition in cluster.partitions("t")} == {(3, 4)}


def test_a_leader_whose_isr_completes_the_move_is_told_that_it_leads_no_more(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile)
    cluster.create_at("t", [1])
    assert move(cluster, "t", [3]) == [0]
    brokers, topic_id = cluster.image.brokers, cluster.image.topics_by_name["t"].topic_id
    wanted = PartitionData(
        partition_index=0,
        partition_epoch=1,
        new_isr_with_epochs=[BrokerState(broker_id=one, broker_epoch=brokers[one].broker_epoch) for one in (1, 3)],
    )
    response = cluster.ask(
        AlterPartitionRequest(
            broker_id=1,
            broker_epoch=brokers[1].broker_epoch,
            topics=[TopicData(topic_id=topic_id, partitions=[wanted])],
        )
    )
    [answer] = response.topics[0].partitions
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
    assert (only(cluster).replicas, only(cluster).isr, only(cluster).leader) == ((3,), (3,), 3)


def test_below_the_minimum_isr_who_was_removed_is_not_eligible(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile)
    cluster.create_at("t", [1, 2, 3], configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")])
    assert move(cluster, "t", [2]) == [0]
    assert (only(cluster).replicas, only(cluster).eligible_leader_replicas) == ((2,), ())


# Cancelling


def test_a_second_target_is_set_against_the_first_one(start: Start, profile: Profile) -> None:
    """Recorded from a real cluster: replicas that were to be removed are removed, even if the second target names
    them."""
    cluster = start(5, profile=profile)
    cluster.create_at("t", [1, 2])
    cluster.lose(3)
    steps = [
        ([3, 1], ([3, 1, 2], [3], [2])),
        ([1, 2, 3, 4], ([1, 2, 3, 4], [4], [2])),
        ([5], ([5, 1, 2, 3, 4], [5], [1, 2, 3, 4])),
        ([1, 2], ([1, 2, 3, 4, 5], [5], [3, 4, 5])),
    ]
    for target, moving in steps:
        assert move(cluster, "t", target) == [0]
        assert in_progress(cluster) == {"t-0": moving}
    cluster.tick()
    assert set(only(cluster).isr) == {1, 2, 4, 5}
    assert move(cluster, "t", None) == [0]
    assert only(cluster).replicas == (1, 2, 3, 4)


def test_a_leader_without_its_directory_leads_no_more_once_replicas_move(start: Start, profile: Profile) -> None:
    cluster = start(2, profile=profile)
    cluster.join(7, log_dirs=[directory(7, 0), directory(7, 1)])
    cluster.create_at("t", [7, 1])
    topic_id, epoch = cluster.image.topics_by_name["t"].topic_id, cluster.image.brokers[7].broker_epoch
    gone = [
        PartitionChangeRecord(partition_id=0, topic_id=topic_id, directories=[directory(7, 1), directory(1)]),
        BrokerRegistrationChangeRecord(broker_id=7, broker_epoch=epoch, log_dirs=[directory(7, 0)]),
    ]
    append_records(cluster.log, gone, START_MS)
    cluster.restart()
    assert move(cluster, "t", [7, 1, 2]) == [0]
    assert (only(cluster).replicas, only(cluster).leader) == ((7, 1, 2), 1)


def test_a_cancel_drops_what_is_added_and_keeps_the_order(start: Start, profile: Profile) -> None:
    cluster = start(4, profile=profile)
    cluster.create_at("t", [1, 2], [1, 2])
    cluster.lose(4)
    assert move(cluster, "t", [2, 4]) == [0]
    assert move(cluster, "t", None, None) == [0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]
    partition, _ = cluster.partitions("t")
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 1), (1, 2), 1)
    assert (partition.leader_epoch, partition.reassigning) == (1, False)


def test_a_cancel_that_would_be_unclean_is_refused_unless_the_topic_allows_it(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile)
    allow = [CreatableTopicConfig(name="unclean.leader.election.enable", value="true")]
    cluster.create_at("t", [1])
    cluster.create_at("u", [1], configs=allow)
    cluster.lose(3)
    assert [*move(cluster, "t", [2, 3]), *move(cluster, "u", [2, 3])] == [0, 0]
    cluster.tick()
    cluster.lose(1)
    assert (only(cluster).isr, only(cluster, "u").isr) == ((2,), (2,))
    [refused] = items(reassign(cluster, moved("t", None)))
    assert refused == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "Unable to revert partition assignment for t:0 because it would require an unclean leader election.",
    )
    assert only(cluster).reassigning
    assert move(cluster, "u", None) == [0]
    assert (only(cluster, "u").replicas, only(cluster, "u").reassigning) == ((1,), False)
    assert (only(cluster, "u").isr, only(cluster, "u").leader) == ((), -1), "it is down, so it is not in sync"


def test_after_an_unclean_cancel_who_is_there_leads(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile)
    cluster.create_at("u", [1], configs=[CreatableTopicConfig(name="unclean.leader.election.enable", value="true")])
    cluster.lose(3)
    assert move(cluster, "u", [2, 3]) == [0]
    cluster.tick()
    topic_id = cluster.image.topics_by_name["u"].topic_id
    cluster.controller._commit([PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[2], leader=2)])
    assert move(cluster, "u", None) == [0]
    assert (only(cluster, "u").replicas, only(cluster, "u").isr, only(cluster, "u").leader) == ((1,), (1,), 1)


# What is refused


BAD_TARGETS = [
    ([], "The manual partition assignment includes an empty replica list."),
    ([1, 1], "The manual partition assignment includes the broker 1 more than once."),
    ([1, 9], "The manual partition assignment includes broker 9, but no such broker is registered."),
    ([3, 3], "The manual partition assignment includes the broker 3 more than once."),
    ([9, 9], "The manual partition assignment includes broker 9, but no such broker is registered."),
    ([-1, 1], "The manual partition assignment includes broker -1, but no such broker is registered."),
]


@pytest.mark.parametrize(("target", "text"), BAD_TARGETS)
@pytest.mark.parametrize("allowed", [True, False])
def test_a_bad_target_is_refused_and_the_others_move(
    cluster: DrivenCluster, target: list[int], text: str, *, allowed: bool
) -> None:
    cluster.create_at("t", [1, 2], [1, 2])
    response = reassign(cluster, moved("t", target, [2, 3]), moved("nope", [1]), moved_some("t", {5: [1], -1: None}),
                        allowed=allowed)  # fmt: skip
    assert items(response) == [
        (ErrorCode.INVALID_REPLICA_ASSIGNMENT, text),
        (ErrorCode.NONE, None),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named nope."),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:5."),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:-1."),
    ]
    assert (response.error_code, response.error_message) == (0, None)
    assert response.allow_replication_factor_change is allowed
    assert cluster.partitions("t")[0].partition_epoch == 0
    assert list(in_progress(cluster)) == ["t-1"]


def test_another_replication_factor_may_be_refused(start: Start, profile: Profile) -> None:
    """During a reassignment the number of replicas in the target counts."""
    cluster = start(4, profile=profile)
    cluster.create_at("t", [1, 2])
    for target, size in (([1, 2, 3], 3), ([1], 1)):
        [refused] = items(reassign(cluster, moved("t", target), allowed=False))
        assert refused == (
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from 2 to {size}",
        )
    cluster.lose(4)
    assert move(cluster, "t", [3, 4, 1]) == [0]
    for target in ([2, 4], [2, 4, 3, 1]):
        assert move(cluster, "t", target, allowed=False) == [ErrorCode.INVALID_REPLICATION_FACTOR]
    assert move(cluster, "t", [2, 4, 3], allowed=False) == [0]
    assert move(cluster, "t", None, allowed=False) == [0]


def test_without_time_nothing_moves_and_without_topics_nothing_is_said(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [1, 2])
    for timeout_ms in (0, -1):
        response = reassign(cluster, moved("t", [3], None), timeout_ms=timeout_ms, allowed=False)
        assert (response.error_code, response.error_message) == (ErrorCode.REQUEST_TIMED_OUT, None)
        assert items(response) == [(ErrorCode.REQUEST_TIMED_OUT, None)] * 2
        assert response.allow_replication_factor_change is True  # as a real broker has it
    empty = reassign(cluster, timeout_ms=0, allowed=False)
    assert (empty.error_code, empty.error_message, list(empty.responses)) == (0, "", [])
    assert empty.allow_replication_factor_change is True
    assert only(cluster).partition_epoch == 0


def test_a_later_item_sees_what_an_earlier_one_changed(start: Start, profile: Profile) -> None:
    cluster = start(5, profile=profile)
    cluster.create_at("t", [1, 2], [1, 2])
    response = reassign(
        cluster,
        moved("t", [3, 1], [4, 5]),
        moved("t", None, [5, 1]),
        moved("t", None, [1, 2]),
    )
    assert [code for code, _ in items(response)] == [0, 0, 0, 0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, 0]
    first, second = cluster.partitions("t")
    assert (first.replicas, first.partition_epoch) == ((1, 2), 2)
    assert (second.replicas, second.partition_epoch) == ((1, 2, 4, 5), 3)
    assert (second.adding_replicas, second.removing_replicas) == ((4, 5), (4, 5))


def test_there_is_a_limit_to_what_one_request_changes(
    start: Start, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = start(3, profile=profile)
    cluster.create_at("t", *[[1, 2]] * 4)
    for limit in ("MAX_PARTITIONS_PER_REQUEST_KIP", "MAX_PARTITIONS_PER_REQUEST_KAFKA"):
        monkeypatch.setattr(placement, limit, 2)
    *accepted, refused = items(reassign(cluster, moved("t", [1, 3], [1, 2], [2, 3], [3, 1])))
    assert accepted == [(0, None)] * 3
    assert refused == (ErrorCode.POLICY_VIOLATION, "One request may change no more than 2 partitions.")
    assert len(in_progress(cluster)) == 2


# Listing


def test_what_moves_is_listed_and_nothing_is_said_of_the_rest(start: Start, profile: Profile) -> None:
    cluster = start(4, profile=profile)
    cluster.create_at("b", [1], [1], [1])
    cluster.create_at("a", [1])
    reassign(cluster, moved_some("b", {2: [2], 0: [1, 3, 4]}), moved("a", [4]))
    everything = {"b-0": ([1, 3, 4], [3, 4], []), "b-2": ([2, 1], [2], [1]), "a-0": ([4, 1], [4], [1])}
    assert in_progress(cluster) == everything
    assert list(in_progress(cluster)) == ["b-0", "b-2", "a-0"]
    assert in_progress(cluster, {}) == {}
    assert in_progress(cluster, {"a": [0, 1, -1], "nope": [0], "b": [1, 2]}) == {
        "a-0": everything["a-0"],
        "b-2": everything["b-2"],
    }
    cluster.ask(DeleteTopicsRequest(topic_names=["b"], timeout_ms=ENOUGH_TIME_MS), version=5)
    assert list(in_progress(cluster)) == ["a-0"]
    cluster.tick()
    assert in_progress(cluster) == {}


# Other requests during a reassignment


def test_a_topic_in_reassignment_gets_no_partitions_in_profile_kip(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile)
    cluster.create_at("t", [1], [1])
    cluster.create_at("u", [1])
    assert move(cluster, "t", [1], [2]) == [0, 0]
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=3, assignments=None) for name in ("t", "u")],
        timeout_ms=ENOUGH_TIME_MS,
    )
    refused = ErrorCode.REASSIGNMENT_IN_PROGRESS if profile == "kip" else ErrorCode.NONE
    assert [result.error_code for result in cluster.ask(request).results] == [refused, 0]
    cluster.tick()
    assert cluster.ask(request).results[0].error_code == (0 if profile == "kip" else ErrorCode.INVALID_PARTITIONS)


# Many


def test_many_complete_in_steps(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAX_CHANGES_AT_ONCE", 100)
    cluster = start(4)
    cluster.create("t", 60, 2)
    others = [[one for one in (1, 2, 3, 4) if one not in row.replicas] for row in cluster.partitions("t")]
    assert set(move(cluster, "t", *others)) == {0}
    left = []
    cluster.tick()
    while cluster.controller.has_work:
        left.append(len(cluster.image.partitions.reassigning))
        cluster.controller.work()
    assert left[0] > 0
    assert max(before - after for before, after in pairwise(left)) <= 100 // 20
    assert [list(row.replicas) for row in cluster.partitions("t")] == others
