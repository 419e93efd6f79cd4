"""AlterTopics: KIP-179 sentence by sentence, in both profiles, where they do not differ."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from klamm.controller.core import Call
from klamm.controller.settings import Profile
from klamm.controller.topic_policy import Unjudged
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.topics import alter_topics
from klamm.protocol.messages.topics.alter_topics import AlterTopicRequest, PartitionAssignment
from klamm.protocol.messages.topics.create_topics import CreatableTopicConfig
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from tests.controller.handlers.alteration_requests import alter, altered, answered, replicas, request
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.guarded_cluster import GuardedCluster, cluster_entry
from tests.controller.handlers.reassignment_requests import in_progress, move
from tests.controller.handlers.test_limits import hold
from tests.controller.image_facts import image_facts

Start = Callable[..., DrivenCluster]
NONE = ErrorCode.NONE
UNKNOWN_TOPIC = ErrorCode.INVALID_TOPIC_EXCEPTION
BAD_COUNT = ErrorCode.INVALID_PARTITIONS
BAD_FACTOR = ErrorCode.INVALID_REPLICATION_FACTOR
UNKNOWN_BROKER = ErrorCode.UNKNOWN_MEMBER_ID
CONTRADICTION = ErrorCode.INVALID_REQUEST
BAD_ASSIGNMENT = ErrorCode.INVALID_REPLICA_ASSIGNMENT
IN_PROGRESS = ErrorCode.REASSIGNMENT_IN_PROGRESS
REFUSED = ErrorCode.POLICY_VIOLATION
TWICE_0 = AlterTopicRequest(topic="t", partition_assignment=[PartitionAssignment(partition_id=0, brokers=[1, 2])] * 2)


@pytest.fixture
def cluster(start: Start, profile: Profile) -> DrivenCluster:
    """Four live brokers without racks, and a topic `t` of three partitions with two replicas each."""
    cluster = start(4, profile=profile, racks=())
    assert cluster.create_at("t", [1, 2], [2, 3], [3, 1]).error_code == NONE
    return cluster


@pytest.mark.parametrize(
    ("topic", "expected", "text"),
    [
        (altered("t", 4), NONE, ""),
        (altered("t", factor=3), NONE, ""),
        (altered("t", factor=1), NONE, ""),
        (altered("t", 5, 4), NONE, ""),
        (altered("t", 5, 1), NONE, ""),
        (altered("t", assignment={0: [4, 3]}), NONE, ""),
        (altered("t", assignment={2: [4, 3], 0: [2, 1]}), NONE, ""),
        (altered("t", assignment={0: [1], 1: [2], 2: [4]}), NONE, ""),
        (altered("t", assignment={2: [1, 2, 3], 1: [4, 3, 2], 0: [2, 3, 4]}), NONE, ""),
        (altered("t", 3, assignment={0: [4, 3]}), NONE, ""),  # The counts stay as they are.
        (altered("t", factor=2, assignment={0: [4, 3]}), NONE, ""),
        (altered("none", 5), UNKNOWN_TOPIC, "There is no topic 'none'."),
        (altered("", 5), UNKNOWN_TOPIC, ""),
        (altered("a b", 0, 0, {9: []}), UNKNOWN_TOPIC, ""),
        (altered("t", 2), BAD_COUNT, "currently has 3 partition(s); 2 would be fewer"),
        (altered("t", 0), BAD_COUNT, ""),
        (altered("t", -2), BAD_COUNT, ""),
        (altered("t", -(2**31), 3), BAD_COUNT, ""),
        (altered("t", 2, 0), BAD_COUNT, ""),
        (altered("t", 2, assignment={0: [9]}), BAD_COUNT, ""),
        (altered("t", factor=0), BAD_FACTOR, "larger than 0"),
        (altered("t", factor=-2), BAD_FACTOR, ""),
        (altered("t", factor=5), BAD_FACTOR, "factor of 5 cannot be reached because only 4 broker(s) are live"),
        (altered("t", factor=2**15 - 1), BAD_FACTOR, ""),
        (altered("t", 4, 5), BAD_FACTOR, "factor of 5 cannot be reached because only 4 broker(s) are live"),
        (altered("t", factor=0, assignment={0: [9]}), BAD_FACTOR, ""),
        (altered("t", assignment={0: [1, 9]}), UNKNOWN_BROKER, "partition 0 includes broker 9"),
        (altered("t", assignment={0: [1, -1]}), UNKNOWN_BROKER, ""),
        (altered("t", assignment={0: [1, 1], 1: [9, 9]}), UNKNOWN_BROKER, ""),
        (altered("t", 4, assignment={0: [9, 1]}), UNKNOWN_BROKER, ""),
        (altered("t", 4, assignment={0: [1, 2]}), CONTRADICTION, "together with another number of partitions"),
        (altered("t", factor=3, assignment={0: [1, 2, 3]}), CONTRADICTION, ""),
        (altered("t", 4, 3, {0: [1, 1]}), CONTRADICTION, ""),
        (altered("t", assignment={3: [1, 2]}), BAD_ASSIGNMENT, "There is no partition 3; the topic has 3."),
        (altered("t", assignment={-1: [1, 2]}), BAD_ASSIGNMENT, ""),
        (altered("t", 3, assignment={3: [1, 2]}), BAD_ASSIGNMENT, ""),
        (TWICE_0, BAD_ASSIGNMENT, "multiple manual partition assignments for partition 0"),
        (altered("t", assignment={0: [1, 1]}), BAD_ASSIGNMENT, "broker 1 more than once"),
        (altered("t", assignment={0: []}), BAD_ASSIGNMENT, "empty replica list"),
        (altered("t", assignment={0: [], 1: [], 2: []}), BAD_ASSIGNMENT, ""),
        (altered("t", assignment={0: [1]}), BAD_ASSIGNMENT, "1 replica(s)"),
        (altered("t", assignment={0: [1, 2, 3], 1: [1, 2, 3]}), BAD_ASSIGNMENT, "3 replica(s)"),
        (altered("t", assignment={0: [1, 2], 1: [1]}), BAD_ASSIGNMENT, ""),
        (altered("t", assignment={0: [1, 2, 3], 1: [1, 2, 3], 2: [1, 2]}), BAD_ASSIGNMENT, ""),
        (altered("t", 2**31 - 1), REFUSED, "2147483644 partitions"),
        (altered("t", 2**31 - 1, 9), REFUSED, ""),
    ],
    ids=lambda value: repr(value)[:90],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_one_topic(
    cluster: DrivenCluster, topic: AlterTopicRequest, expected: ErrorCode, text: str, validate_only: bool
) -> None:
    """With and without `validate_only` the same is checked; a refused or validated topic is not changed."""
    before = cluster.partitions("t")
    with cluster.writing() as written:
        [result] = cluster.ask(request(topic, validate_only=validate_only)).topic_errors
    assert (result.topic, result.error_code) == (topic.topic, expected)
    assert text in (result.error_message or "")
    assert (result.error_message is None) == (expected == NONE)
    changed = expected == NONE and not validate_only
    assert bool(written) == changed
    assert (cluster.partitions("t") != before) == changed


@pytest.mark.parametrize(
    "topic",
    [
        altered("t"),
        altered("t", 3),
        altered("t", factor=2),
        altered("t", 3, 2),
        altered("t", assignment={1: [2, 3]}),
        altered("t", 3, 2, {0: [1, 2], 1: [2, 3], 2: [3, 1]}),
    ],
    ids=repr,
)
def test_what_is_so_already_changes_nothing(cluster: DrivenCluster, topic: AlterTopicRequest) -> None:
    with cluster.writing() as written:
        assert alter(cluster, topic) == [NONE]
    assert written == []


# How replicas move


def test_a_larger_factor_is_a_reassignment_of_every_partition(cluster: DrivenCluster) -> None:
    cluster.lose(4)
    assert alter(cluster, altered("t", factor=3)) == [NONE]
    assert replicas(cluster) == [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    assert in_progress(cluster) == {
        "t-0": ([1, 2, 3], [3], []),
        "t-1": ([2, 3, 1], [1], []),
        "t-2": ([3, 1, 2], [2], []),
    }
    cluster.tick()
    assert in_progress(cluster) == {}
    assert [set(partition.isr) for partition in cluster.partitions("t")] == [{1, 2, 3}] * 3
    assert [partition.leader for partition in cluster.partitions("t")] == [1, 2, 3]


def test_it_is_cancelled_like_any_other(cluster: DrivenCluster) -> None:
    assert alter(cluster, altered("t", 5, 3)) == [NONE]
    assert move(cluster, "t", None, None, None, None) == [NONE] * 3 + [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]
    assert replicas(cluster)[:3] == [(1, 2), (2, 3), (3, 1)]
    assert [len(row) for row in replicas(cluster)] == [2, 2, 2, 3, 3]
    assert in_progress(cluster) == {}
    assert alter(cluster, altered("t", factor=3)) == [NONE]
    cluster.tick()
    assert [len(row) for row in replicas(cluster)] == [3] * 5


def test_a_smaller_factor_is_done_at_once_from_the_end_and_never_takes_the_leader(cluster: DrivenCluster) -> None:
    cluster.create_at("u", [1, 2, 3], [1, 2, 3])
    cluster.lose(1)
    cluster.come_back(1)
    assert [partition.leader for partition in cluster.partitions("u")] == [2, 2]
    with cluster.writing() as written:
        assert alter(cluster, altered("u", factor=1), altered("t", factor=1)) == [NONE, NONE]
    assert replicas(cluster, "u") == [(2,), (2,)]
    assert all(isinstance(record, PartitionChangeRecord) and record.leader != -2 for record in written)
    leaders = [partition.leader for partition in cluster.partitions("t")]
    assert replicas(cluster) == [(leader,) for leader in leaders]
    assert in_progress(cluster) == {}


def test_a_smaller_factor_waits_for_those_that_stay(start: Start, profile: Profile) -> None:
    """No in-sync replica leaves while one that stays is not in sync."""
    cluster = start(4, profile=profile)
    cluster.create_at("t", [1, 2, 3, 4])
    cluster.lose(3, 4)
    assert alter(cluster, altered("t", factor=3)) == [NONE]
    assert in_progress(cluster) == {"t-0": ([1, 2, 3, 4], [], [4])}
    cluster.come_back(3)
    assert (replicas(cluster), in_progress(cluster)) == ([(1, 2, 3)], {})


def test_replicas_on_brokers_that_are_gone_go_first(start: Start, profile: Profile) -> None:
    cluster = start(4, profile=profile)
    cluster.create_at("t", [1, 2, 3, 4])
    cluster.lose(2)
    assert alter(cluster, altered("t", factor=3)) == [NONE]
    assert replicas(cluster) == [(1, 3, 4)]


def test_racks_are_spread_as_well_as_can_be(start: Start, profile: Profile) -> None:
    cluster = start(6, profile=profile, racks=("a", "a", "b", "b", "c", "c"))
    cluster.create_at("t", [1, 2], [3, 1], [5, 6])
    assert alter(cluster, altered("t", 6, 3)) == [NONE]
    racks = [{"aabbcc"[replica - 1] for replica in row} for row in replicas(cluster)]
    assert [len(row) for row in racks] == [2, 3, 2, 3, 3, 3]
    cluster.tick()
    assert alter(cluster, altered("t", factor=2)) == [NONE]
    assert all(len({"aabbcc"[replica - 1] for replica in row}) == 2 for row in replicas(cluster))


@pytest.mark.parametrize(("profile", "racks"), [("kip", {1}), ("kafka", {2})])
def test_brokers_without_a_rack(start: Start, profile: Profile, racks: set[int]) -> None:
    """Racks are ignored where some brokers have none, so that the load decides; in profile kafka these brokers share a
    rack."""
    cluster = start(4, profile=profile, racks=("a", None, None, "a"))
    cluster.create_at("t", [2])
    hold(cluster, 3, 0, 0, 3)
    assert alter(cluster, altered("t", factor=2)) == [NONE]
    [(_, other)] = replicas(cluster)
    assert {1 if other == 3 else 2} == racks


def test_new_partitions_get_the_new_factor_and_are_there_at_once(cluster: DrivenCluster) -> None:
    with cluster.writing() as written:
        assert alter(cluster, altered("t", 13, 3)) == [NONE]
    made = [record for record in written if isinstance(record, PartitionRecord)]
    assert [record.partition_id for record in made] == list(range(3, 13))
    assert all(len(record.replicas) == len(record.isr) == 3 for record in made)
    assert sorted(in_progress(cluster)) == ["t-0", "t-1", "t-2"]
    assert {record.leader for record in made} == {1, 2, 3, 4}


def test_new_partitions_alone_get_the_factor_of_the_first(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile)
    cluster.create_at("t", [1, 2], [1, 2])
    move(cluster, "t", None, [1])
    assert alter(cluster, altered("t", 3)) == [NONE]
    assert [len(row) for row in replicas(cluster)] == [2, 1, 2]
    assert alter(cluster, altered("t", 4, assignment={0: [3, 1]})) == [CONTRADICTION]
    assert alter(cluster, altered("t", factor=2, assignment={0: [3, 1]})) == [CONTRADICTION]
    assert alter(cluster, altered("t", factor=2)) == [NONE]
    cluster.tick()
    assert [len(row) for row in replicas(cluster)] == [2, 2, 2]
    assert replicas(cluster)[0] == (1, 2)


def test_new_partitions_go_on_round_the_ring(start: Start) -> None:
    """Leaders are even over old and new partitions together, as with CreatePartitions in profile kip."""
    for seed in range(6):
        cluster = start(seed=seed)
        cluster.create("t", 1, 1)
        assert alter(cluster, altered("t", 6)) == [NONE]
        assert sorted(replicas(cluster)) == [(1,), (1,), (2,), (2,), (3,), (3,)]


def test_partitions_of_several_sizes_become_one_size(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile)
    cluster.create_at("t", [1, 2], [3, 2], [2, 3])
    assert move(cluster, "t", [1], [3, 1, 2]) == [NONE, NONE]
    cluster.tick()
    assert [len(row) for row in replicas(cluster)] == [1, 3, 2]
    assert alter(cluster, altered("t", factor=2)) == [NONE]
    cluster.tick()
    assert [(row[0], len(row)) for row in replicas(cluster)] == [(1, 2), (3, 2), (2, 2)]


def test_assignments_by_hand(cluster: DrivenCluster) -> None:
    """An assignment that only reorders or removes replicas is done at once; every other one is in progress until the
    new replicas are in sync."""
    assert alter(cluster, altered("t", assignment={0: [2, 1], 2: [4, 3]})) == [NONE]
    assert in_progress(cluster) == {"t-2": ([4, 3, 1], [4], [1])}
    assert replicas(cluster)[:2] == [(2, 1), (2, 3)]
    cluster.tick()
    assert replicas(cluster) == [(2, 1), (2, 3), (4, 3)]
    assert alter(cluster, altered("t", assignment={0: [1], 1: [3], 2: [3]})) == [NONE]
    assert (replicas(cluster), in_progress(cluster)) == ([(1,), (3,), (3,)], {})


def test_fenced_brokers_are_known_and_waited_for(cluster: DrivenCluster) -> None:
    cluster.lose(3, 4)
    assert alter(cluster, altered("t", assignment={0: [3, 4]})) == [NONE]
    assert in_progress(cluster) == {"t-0": ([3, 4, 1, 2], [3, 4], [1, 2])}
    cluster.come_back(3)
    cluster.come_back(4)
    assert replicas(cluster)[0] == (3, 4)


# Requests


def test_the_topics_of_a_request_stand_or_fall_alone_and_in_order(cluster: DrivenCluster) -> None:
    """A name that is given twice is answered once, at its first position, and is refused."""
    cluster.create("u", 1, 3)
    cluster.create("v", 1, 1)
    response = cluster.ask(
        request(altered("v", 9), altered("t", 1), altered("v", 7), altered("u", 3), altered("none", 5))
    )
    assert answered(response) == [
        ("v", CONTRADICTION),
        ("t", BAD_COUNT),
        ("u", NONE),
        ("none", UNKNOWN_TOPIC),
    ]
    assert [len(cluster.partitions(name)) for name in "tuv"] == [3, 3, 1]
    assert answered(cluster.ask(request())) == []


@pytest.mark.parametrize("timeout", [0, -1])
def test_without_time_nothing_is_altered(cluster: DrivenCluster, timeout: int) -> None:
    wanted = [altered("t", 4), altered("none", 4), altered("u"), altered("u")]
    timed_out = ErrorCode.REQUEST_TIMED_OUT
    assert alter(cluster, *wanted, timeout=timeout) == [timed_out, timed_out, CONTRADICTION]
    assert len(replicas(cluster)) == 3


def test_it_needs_cluster_action_and_says_so_of_every_topic() -> None:
    cluster = GuardedCluster()
    cluster.create("t", 1, 1)
    wanted = request(altered("t", 2), altered("none", 2), altered("t", 3), timeout=0)
    with cluster.asking():
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert answered(cluster.ask(wanted)) == [("t", denied), ("none", denied)]
        cluster.grant(cluster_entry(9))  # CLUSTER_ACTION
        assert alter(cluster, altered("t", 2)) == [NONE]
    assert len(replicas(cluster)) == 2


def test_a_log_is_all_that_a_restart_needs(cluster: DrivenCluster) -> None:
    alter(cluster, altered("t", 30, 3))
    before = cluster.partitions("t")
    cluster.restart()
    assert cluster.partitions("t") == before


# The create-topic policy


def call(verdicts: Mapping[str, ApiError | None] | None, *topics: AlterTopicRequest) -> Call:
    return Call(alter_topics.API, 0, request(*topics), broker_id=1, verdicts=verdicts)


@pytest.mark.parametrize(
    ("topic", "counts", "assignments"),
    [
        (altered("t", 5), (5, 2), None),
        (altered("t", factor=3), (3, 3), None),
        (altered("t", 4, 1), (4, 1), None),
        (altered("t", assignment={1: [4, 1]}), (None, None), {0: (1, 2), 1: (4, 1), 2: (3, 1)}),
        (altered("t", assignment={2: [4], 0: [1], 1: [2]}), (None, None), {0: (1,), 1: (2,), 2: (4,)}),
    ],
    ids=repr,
)
def test_the_policy_is_asked_about_the_topic_as_it_is_to_be(
    cluster: DrivenCluster, topic: AlterTopicRequest, counts: tuple[int | None, ...], assignments: Any
) -> None:
    """Its configs are those of the topic. Before the policy has answered nothing changes, not even the random
    generator."""
    cluster.create("u", 1, 1, configs=[CreatableTopicConfig(name="flush.ms", value="7")])
    partitions = cluster.partitions("t")
    before, chance = image_facts(cluster.image), cluster.controller.rng.bit_generator.state
    with pytest.raises(Unjudged) as unjudged:
        cluster.controller.submit(call({}, topic, altered("u", 2)))
    requested, other = unjudged.value.topics
    assert (requested.topic_name, (requested.num_partitions, requested.replication_factor)) == ("t", counts)
    assert (requested.replica_assignments, dict(requested.configs)) == (assignments, {})
    assert (other.topic_name, dict(other.configs)) == ("u", {"flush.ms": "7"})
    assert image_facts(cluster.image) == before
    assert cluster.controller.rng.bit_generator.state == chance
    no = ApiError(REFUSED, "no")
    answer: Any = cluster.controller.submit(call({"t": no, "u": None}, topic, altered("u", 2)))
    assert [(one.error_code, one.error_message) for one in answer.response.topic_errors] == [(44, "no"), (0, None)]
    assert len(replicas(cluster, "u")) == 2
    assert cluster.partitions("t") == partitions


@pytest.mark.parametrize(
    "topic",
    [altered("t"), altered("t", 3, 2), altered("t", 2), altered("t", factor=9), altered("t", assignment={0: [9]})],
    ids=repr,
)
def test_the_policy_is_not_asked_about_what_stays_or_cannot_be(
    cluster: DrivenCluster, topic: AlterTopicRequest
) -> None:
    answer: Any = cluster.controller.submit(call({}, topic))
    assert len(answer.response.topic_errors) == 1
