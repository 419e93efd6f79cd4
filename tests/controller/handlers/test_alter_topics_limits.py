"""AlterTopics within the available room: live brokers, placeholders (KIP-409), limits (KIP-578) and sizes."""

from collections.abc import Callable, Mapping

import pytest

from klamm.controller.context import Ledger, RequestContext
from klamm.controller.core import Call
from klamm.controller.settings import Profile
from klamm.controller.transitions import placement
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest
from tests.controller.handlers.alteration_requests import alter, altered, refusal, replicas
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.reassignment_requests import in_progress, move
from tests.controller.handlers.test_limits import held, hold, set_config

Start = Callable[..., DrivenCluster]
NONE = ErrorCode.NONE
UNKNOWN_TOPIC = ErrorCode.INVALID_TOPIC_EXCEPTION
BAD_FACTOR = ErrorCode.INVALID_REPLICATION_FACTOR
UNKNOWN_BROKER = ErrorCode.UNKNOWN_MEMBER_ID
CONTRADICTION = ErrorCode.INVALID_REQUEST
IN_PROGRESS = ErrorCode.REASSIGNMENT_IN_PROGRESS
REFUSED = ErrorCode.POLICY_VIOLATION
ON = {"enable.under.replicated.topic.creation": "true"}


# Which brokers get replicas, and placeholders


@pytest.mark.parametrize("configs", [{}, ON], ids=["", "KIP-409"])
def test_too_few_live_brokers_make_no_placeholders(start: Start, profile: Profile, configs: Mapping[str, str]) -> None:
    """Fenced brokers receive no replicas either, in both profiles."""
    cluster = start(3, profile=profile, configs=configs)
    cluster.create_at("t", [1, 2])
    cluster.lose(3)
    too_few = "factor of 3 cannot be reached because only 2 broker(s) are live"
    for topic in (altered("t", factor=3), altered("t", 2, 3)):
        code, text = refusal(cluster, topic)
        assert code == BAD_FACTOR
        assert too_few in text
    assert alter(cluster, altered("t", 9)) == [NONE]
    assert all(set(row) == {1, 2} for row in replicas(cluster))
    cluster.lose(2)
    assert alter(cluster, altered("t", 10), altered("t", factor=1)) == [CONTRADICTION]
    assert alter(cluster, altered("t", 10)) == [BAD_FACTOR]
    assert alter(cluster, altered("t", 10, 1)) == [NONE]
    assert all(row == (1,) for row in replicas(cluster))


def test_a_replica_on_a_fenced_broker_counts_for_its_partition(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile)
    cluster.create_at("t", [1, 3])
    cluster.lose(3)
    assert alter(cluster, altered("t", factor=3)) == [NONE]
    assert replicas(cluster) == [(1, 3, 2)]
    assert alter(cluster, altered("t", 2)) == [IN_PROGRESS]
    cluster.tick()
    assert in_progress(cluster) == {}


def test_brokers_that_leave_or_are_cordoned_get_nothing(start: Start, profile: Profile) -> None:
    cluster = start(4, profile=profile)
    cluster.create_at("t", [1])
    cluster.heartbeat(3, cordoned_log_dirs=cluster.image.brokers[3].log_dirs, version=2)
    cluster.shut_down(4)
    code, text = refusal(cluster, altered("t", factor=3))
    assert (code, text.endswith("of 3 cannot be reached because only 2 broker(s) are live.")) == (BAD_FACTOR, True)
    assert alter(cluster, altered("t", 2, 2)) == [NONE]
    assert [set(row) for row in replicas(cluster)] == [{1, 2}, {1, 2}]


def test_a_broker_that_is_cordoned_keeps_what_it_has(start: Start, profile: Profile) -> None:
    """It loses replicas last, like a broker that is not cordoned; only brokers that are down lose theirs before it."""
    cluster = start(3, profile=profile)
    cluster.create_at("t", [1, 3, 2])
    cluster.heartbeat(3, cordoned_log_dirs=cluster.image.brokers[3].log_dirs, version=2)
    assert alter(cluster, altered("t", factor=2)) == [NONE]
    cluster.tick()
    assert replicas(cluster) == [(1, 3)]


def test_placeholders_give_way_and_go_first(start: Start, profile: Profile) -> None:
    cluster = start(1, profile=profile, configs=ON)
    for name in "tuvw":
        cluster.create(name, 1, 3)
    assert replicas(cluster) == [(1, -1, -2)]
    # Placeholders count as replicas: nothing changes here, and they are still filled.
    assert alter(cluster, altered("t", factor=3)) == [NONE]
    assert alter(cluster, altered("u", factor=2), altered("v", factor=1)) == [NONE, NONE]
    assert [replicas(cluster, name) for name in "uv"] == [[(1, -1)], [(1,)]]
    assert in_progress(cluster) == {}
    assert alter(cluster, altered("t", 2)) == [BAD_FACTOR]
    cluster.join(2)
    assert [replicas(cluster, name) for name in "tuv"] == [[(1, 2, -2)], [(1, 2)], [(1,)]]
    assert alter(cluster, altered("t", factor=4), altered("w", assignment={0: [2, 1, -2]})) == [
        BAD_FACTOR,
        UNKNOWN_BROKER,
    ]
    for broker_id in (3, 4):  # not live yet when they are registered
        cluster.register(broker_id)
    set_config(cluster, "max.broker.partitions", 4)
    assert alter(cluster, altered("w", assignment={0: [3, 4, 1]})) == [NONE]
    assert in_progress(cluster) == {"w-0": ([3, 4, 1, 2, -2], [3, 4], [2, -2])}
    assert move(cluster, "w", None) == [NONE]
    assert replicas(cluster, "w") == [(1, 2, -2)]
    cluster.heartbeat(3)
    cluster.heartbeat(4)
    cluster.tick()
    assert [len(row) for name in "tw" for row in replicas(cluster, name) if min(row) > 0] == [3, 3]


def test_a_larger_factor_replaces_placeholders(start: Start, profile: Profile) -> None:
    """The limit of the cluster kept them from being filled; the limit of the broker that gets the request is higher."""
    cluster = start(4, profile=profile, configs=ON)
    hold(cluster, 0, 1, 1, 1)
    cluster.lose(2, 3, 4)
    for broker_id in (2, 3, 4):
        cluster.ask(UnregisterBrokerRequest(broker_id=broker_id))
        cluster.lives[broker_id] += 1
    assert cluster.create("t", 1, 3).error_code == NONE
    set_config(cluster, "max.broker.partitions", 1)
    for broker_id in (2, 3, 4):
        cluster.join(broker_id)
    assert replicas(cluster) == [(1, -1, -2)]
    assert alter(cluster, altered("t", factor=4)) == [REFUSED]
    set_config(cluster, "max.broker.partitions", 2, broker_id=1)
    assert alter(cluster, altered("t", factor=4)) == [NONE]
    [(lists, adding, removing)] = in_progress(cluster).values()
    assert (lists[0], adding, removing, lists[4:]) == (1, [2, 3, 4], [-1, -2], [-1, -2])
    cluster.tick()
    assert [sorted(row) for row in replicas(cluster)] == [[1, 2, 3, 4]]


# Limits


def test_limits_count_what_is_added_and_name_themselves(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile, configs={"max.broker.partitions": "3"})
    hold(cluster, 0, 1, 2)
    cluster.create_at("t", [1], [1])
    code, text = refusal(cluster, altered("t", 4, 2))
    assert code == REFUSED
    for said in ("max.broker.partitions=3", "max.partitions=9223372036854775807"):
        assert said in text
    assert held(cluster) == {1: 2, 2: 1, 3: 2}
    code, text = refusal(cluster, altered("t", assignment={0: [3], 1: [3]}))
    assert code == REFUSED
    for said in ("2 new replicas beside the 2 on broker 3", "max.broker.partitions=3", "max.partitions=9223372036"):
        assert said in text
    assert alter(cluster, altered("t", factor=2)) == [NONE]
    assert max(held(cluster).values()) <= 3


def test_max_partitions_counts_new_ones_alone(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile, configs={"max.partitions": "3"})
    cluster.create_at("t", [1], [1])
    assert alter(cluster, altered("t", 4, 2)) == [REFUSED]
    assert alter(cluster, altered("t", 3, 2)) == [NONE]
    cluster.tick()
    assert alter(cluster, altered("t", factor=3)) == [NONE]
    cluster.tick()
    set_config(cluster, "max.partitions", 1)
    assert alter(cluster, altered("t", factor=1)) == [NONE]


def test_topics_see_what_those_before_them_took_and_gave_back(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile, configs={"max.broker.partitions": "2", "max.partitions": "6"})
    cluster.create_at("a", [1, 2])
    cluster.create_at("b", [1])
    cluster.create_at("c", [3])
    cluster.create_at("d", [2])
    grown, moved = altered("b", factor=3), altered("c", assignment={0: [2]})
    # Broker 2 is full; when a has left it, one of them gets the place.
    assert alter(cluster, grown, moved, validate_only=True) == [REFUSED, REFUSED]
    assert alter(cluster, altered("a", factor=1), grown, moved, validate_only=True) == [NONE, NONE, REFUSED]
    assert alter(cluster, altered("a", factor=1), moved, grown) == [NONE, NONE, REFUSED]
    assert [*replicas(cluster, "a"), *replicas(cluster, "b")] == [(1,), (1,)]
    # The replicas that c loses count until they are gone.
    assert alter(cluster, altered("d", assignment={0: [3]}), altered("b", 2)) == [NONE, REFUSED]
    assert alter(cluster, altered("a", 3), altered("b", 9)) == [REFUSED, REFUSED]


def test_topics_see_the_partitions_that_those_before_them_made(start: Start, profile: Profile) -> None:
    for limit in ("max.partitions", "max.broker.partitions"):
        cluster = start(1, profile=profile, configs={limit: "4"})
        hold(cluster, 1)
        cluster.create_at("t", [1])
        assert alter(cluster, altered("t", 3), altered("on-1", 2)) == [NONE, REFUSED]


def test_count_and_factor_together_find_a_way_if_there_is_one(start: Start, profile: Profile) -> None:
    """Each broker has room for one more replica. Partition 0 is on broker 1 already, so the new partition must not be
    on both of the others, where it would be placed on its own."""
    for seed in range(6):
        cluster = start(3, profile=profile, racks=(), seed=seed, configs={"max.broker.partitions": "4"})
        hold(cluster, 2, 3, 3)
        cluster.create_at("t", [1])
        assert alter(cluster, altered("t", 2, 2)) == [NONE]
        assert held(cluster) == {1: 4, 2: 4, 3: 4}
        first, new = map(set, replicas(cluster))
        assert (1 in first, 1 in new, len(first), len(new)) == (True, True, 2, 2)
        assert alter(cluster, altered("on-1", factor=2)) == [REFUSED]


def test_the_internal_topics_have_no_limits(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile, configs={"max.broker.partitions": "1", "max.partitions": "3"})
    hold(cluster, 1, 1, 1)
    for name in ("__consumer_offsets", "__transaction_state"):
        cluster.create_at(name, [1])
        assert alter(cluster, altered(name, 3, 3), altered("on-1", 2)) == [NONE, REFUSED]
        cluster.tick()
        assert alter(cluster, altered(name, assignment={0: [3, 2, 1]})) == [NONE]


def test_the_limit_of_the_broker_that_is_asked_counts(start: Start, profile: Profile) -> None:
    cluster = start(2, profile=profile)
    hold(cluster, 1, 1)
    set_config(cluster, "max.broker.partitions", 1, broker_id=2)
    assert alter(cluster, altered("on-1", factor=2), broker_id=2) == [REFUSED]
    assert alter(cluster, altered("on-1", factor=2), broker_id=1) == [NONE]


def test_a_request_makes_and_changes_no_more_than_it_may(
    start: Start, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = start(3, profile=profile)
    cluster.create_at("c", *[[1]] * 5)
    monkeypatch.setattr(placement, "MAX_PARTITIONS_PER_REQUEST_KIP", 4)
    monkeypatch.setattr(placement, "MAX_PARTITIONS_PER_REQUEST_KAFKA", 4)
    assert alter(cluster, altered("c", assignment={index: [2] for index in range(5)})) == [REFUSED]
    cluster.create_at("a", [1], [1], [1])
    cluster.create_at("b", [1], [1])
    assert alter(cluster, altered("a", 5, 2), altered("b", 7)) == [REFUSED, REFUSED]
    assert alter(cluster, altered("a", 4, 2), altered("b", 3)) == [NONE, REFUSED]
    # Partitions that do not change are not counted.
    assert alter(cluster, altered("b", assignment={0: [1], 1: [2]}), altered("a", 5)) == [NONE, IN_PROGRESS]
    cluster.tick()
    wanted = [altered("b", assignment={0: [2], 1: [1]}), altered("a", 6), altered("a2", 1)]
    assert alter(cluster, *wanted) == [NONE, NONE, UNKNOWN_TOPIC]
    _, text = refusal(cluster, altered("a", 11))
    assert "5 partitions" in text
    assert "the 4 that this request" in text


def test_a_request_places_no_more_replicas_than_it_may(
    start: Start, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = start(3, profile=profile)
    cluster.create_at("t", [1], [1], [1])
    cluster.create_at("u", [1], [1], [1])
    context = cluster.controller.context

    def few(call: Call, now_ms: int) -> RequestContext:
        made = context(call, now_ms)
        made.ledger = Ledger(replicas_left=7)
        return made

    monkeypatch.setattr(cluster.controller, "context", few)
    full = {0: [2, 3], 1: [2, 3], 2: [2, 3]}
    for first in (altered("t", factor=2), altered("t", assignment=full)):
        for second in (altered("u", factor=2), altered("u", assignment=full), altered("u", 4, 2), altered("u", 5)):
            assert alter(cluster, first, second, validate_only=True) == [NONE, REFUSED]
