"""KIP-578 and KIP-409 during reassignments: which replicas count at which time, and what happens to placeholders."""

from collections.abc import Callable

import pytest

from klamm.controller.settings import Profile
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.reassignment_requests import in_progress, items, move, moved, moved_some, reassign
from tests.controller.handlers.test_limits import hold, set_config

Start = Callable[..., DrivenCluster]
REFUSED = ErrorCode.POLICY_VIOLATION
ON = {"enable.under.replicated.topic.creation": "true"}


def replicas(cluster: DrivenCluster, name: str) -> list[tuple[int, ...]]:
    return [partition.replicas for partition in cluster.partitions(name)]


def test_what_is_added_counts_at_once_and_what_goes_when_it_is_gone(start: Start, profile: Profile) -> None:
    cluster = start(4, profile=profile, configs={"max.broker.partitions": "2"})
    hold(cluster, 0, 0, 1)
    cluster.create_at("t", [1, 2], [1, 2])
    response = reassign(cluster, moved("t", [3, 2], [3, 2]))
    (first, _), (second, text) = items(response)
    assert (first, second) == (0, REFUSED)
    for said in ("max.broker.partitions=2", "max.partitions=9223372036854775807", "broker 3"):
        assert said in (text or "")
    # Broker 1 keeps replicas that are being removed until they are gone.
    assert cluster.create_at("u", [1]).error_code == REFUSED
    assert cluster.create_at("u", [3]).error_code == REFUSED
    cluster.tick()
    assert cluster.create_at("u", [1]).error_code == 0
    assert replicas(cluster, "t") == [(3, 2), (1, 2)]


def test_a_second_target_counts_only_what_it_adds_to_the_first(start: Start, profile: Profile) -> None:
    cluster = start(4, profile=profile, configs={"max.broker.partitions": "1"})
    cluster.create_at("t", [1, 2])
    cluster.lose(4)
    assert move(cluster, "t", [3, 4]) == [0]  # all four are full now
    assert move(cluster, "t", [4, 3]) == [0]
    assert move(cluster, "t", [1, 4, 2]) == [0]
    assert move(cluster, "t", None) == [0]
    assert cluster.create_at("u", [3], [3]).error_code == REFUSED
    assert cluster.create_at("u", [4, 3]).error_code == 0


def test_a_cancel_is_never_refused(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile)
    cluster.create_at("t", [1])
    cluster.create_at("u", [2])
    assert [*move(cluster, "t", [2]), *move(cluster, "u", [1])] == [0, 0]
    set_config(cluster, "max.broker.partitions", 1)
    set_config(cluster, "max.partitions", 1)
    assert move(cluster, "t", None) == [0]
    assert replicas(cluster, "t") == [(1,)]


def test_an_overfull_broker_may_be_left_and_max_partitions_has_no_say(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile)
    hold(cluster, 3, 0, 1)
    set_config(cluster, "max.broker.partitions", 1)
    set_config(cluster, "max.partitions", 1)
    assert move(cluster, "on-1", [2], [3], [1]) == [0, REFUSED, 0]
    cluster.tick()
    assert replicas(cluster, "on-1") == [(2,), (1,), (1,)]


def test_items_see_what_others_of_the_request_took_and_gave_back(start: Start, profile: Profile) -> None:
    cluster = start(4, profile=profile, configs={"max.broker.partitions": "2"})
    hold(cluster, 0, 0, 1)
    cluster.create_at("t", [1], [1])
    wanted: list[dict[int, list[int] | None]] = [{0: [3]}, {1: [3]}, {0: None}, {1: [3]}, {0: [3]}]
    response = reassign(cluster, *[moved_some("t", targets) for targets in wanted])
    assert [code for code, _ in items(response)] == [0, REFUSED, 0, 0, REFUSED]


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_the_internal_topics_move_without_limits(start: Start, profile: Profile, name: str) -> None:
    cluster = start(3, profile=profile, configs={"max.broker.partitions": "1"})
    hold(cluster, 0, 1)
    assert cluster.create_at(name, [1], [1]).error_code == 0
    assert move(cluster, name, [2], [2]) == [0, 0]
    cluster.tick()
    assert replicas(cluster, name) == [(2,), (2,)]
    assert move(cluster, "on-2", [3]) == [0]
    cluster.tick()
    assert cluster.create_at("t", [2]).error_code == 0


def test_the_limit_of_the_broker_that_is_asked_counts(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile)
    hold(cluster, 1, 1)
    set_config(cluster, "max.broker.partitions", 1, broker_id=2)
    request = moved("on-1", [2])
    assert [code for code, _ in items(reassign(cluster, request, broker_id=2))] == [REFUSED]
    assert [code for code, _ in items(reassign(cluster, request, broker_id=1))] == [0]


# Placeholders


def test_placeholders_stand_while_replicas_move_and_are_filled_after_a_cancel(start: Start, profile: Profile) -> None:
    cluster = start(1, profile=profile, configs=ON)
    cluster.create("t", 2, 3)
    cluster.join(2)
    assert replicas(cluster, "t") == [(1, 2, -2)] * 2
    cluster.register(3)  # fenced
    [size, good, bad] = reassign(
        cluster, moved_some("t", {0: [3, 1]}), allowed=False
    ), reassign(cluster, moved("t", [3, 1])), reassign(cluster, moved_some("t", {1: [1, -1]}))  # fmt: skip
    assert items(size) == [(ErrorCode.INVALID_REPLICATION_FACTOR, "The replication factor is changed from 3 to 2")]
    assert [code for code, _ in (*items(good), *items(bad))] == [0, ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert in_progress(cluster) == {"t-0": ([3, 1, 2, -2], [3], [2, -2])}
    cluster.join(4)
    assert replicas(cluster, "t") == [(3, 1, 2, -2), (1, 2, 4)]
    assert move(cluster, "t", None) == [0]
    assert replicas(cluster, "t") == [(1, 2, 4), (1, 2, 4)]
    cluster.tick()
    assert [set(partition.isr) for partition in cluster.partitions("t")] == [{1, 2, 4}] * 2


@pytest.mark.parametrize("count", [1, 20])  # a record, and a run of them
def test_a_cancel_that_changes_no_replicas_lets_placeholders_be_filled(
    start: Start, profile: Profile, count: int
) -> None:
    cluster = start(1, profile=profile, configs=ON)
    cluster.create("t", count, 3)
    cluster.join(2)
    cluster.lose(2)
    assert move(cluster, "t", *[[2]] * count) == [0] * count
    assert set(map(str, in_progress(cluster).values())) == {"([2, 1, -2], [], [1, -2])"}
    cluster.join(3)
    assert replicas(cluster, "t") == [(2, 1, -2)] * count
    assert move(cluster, "t", *[None] * count) == [0] * count
    assert replicas(cluster, "t") == [(2, 1, 3)] * count


def test_placeholders_are_gone_with_the_replicas_that_a_move_removes(start: Start, profile: Profile) -> None:
    cluster = start(1, profile=profile, configs=ON)
    cluster.create("t", 1, 3)
    cluster.join(2)
    assert move(cluster, "t", [2, 1]) == [0]
    assert replicas(cluster, "t") == [(2, 1)]
    cluster.join(3)
    assert replicas(cluster, "t") == [(2, 1)]
    assert cluster.image.usage.placeholders == 0


@pytest.mark.parametrize("count", [1, 20])  # a record, and a run of them
def test_a_completed_move_makes_room_for_placeholders(start: Start, profile: Profile, count: int) -> None:
    cluster = start(2, profile=profile, configs=ON)
    cluster.create_at("full", *[[2]] * (count + 1))
    set_config(cluster, "max.broker.partitions", count + 1)
    cluster.lose(2)
    cluster.ask(UnregisterBrokerRequest(broker_id=2))
    assert cluster.create("t", 1, 2).error_code == 0
    cluster.lives[2] += 1
    cluster.join(2)
    assert replicas(cluster, "t") == [(1, -1)]
    assert move(cluster, "full", *[[1]] * count) == [0] * count
    assert replicas(cluster, "t") == [(1, -1)]
    cluster.tick()
    while cluster.controller.has_work:
        cluster.controller.work()
    assert (replicas(cluster, "full"), replicas(cluster, "t")) == ([(1,)] * count + [(2,)], [(1, 2)])


def test_what_leaves_a_broker_of_a_topic_that_limits_do_not_count_makes_no_room(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile, configs={"max.broker.partitions": "1"})
    assert cluster.create_at("__consumer_offsets", [1, 2]).error_code == 0
    hold(cluster, 1, 1)
    response = reassign(cluster, moved("__consumer_offsets", [1]), moved("on-1", [2]))
    assert [code for code, _ in items(response)] == [0, REFUSED]
    assert replicas(cluster, "__consumer_offsets") == [(1,)], "it has left at once"


@pytest.mark.parametrize("target", [[2, 3], [3, 2]])
def test_of_several_brokers_without_room_the_lowest_is_named(start: Start, profile: Profile, target: list[int]) -> None:
    cluster = start(3, profile=profile, configs={"max.broker.partitions": "1"})
    hold(cluster, 1, 1, 1)
    assert "on broker 2 would exceed" in (items(reassign(cluster, moved("on-1", target)))[0][1] or "")
    assert "on broker 2 would exceed" in cluster.create_at("more", target).error_message
