"""ElectLeaders: the preferred leaders, unclean elections, and when there is nothing to elect."""

from collections.abc import Callable

import pytest

from klamm.controller.handlers.partitions.elect_leaders import PREFERRED, UNCLEAN
from klamm.controller.settings import Profile
from klamm.controller.transitions import placement
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.partitions import elect_leaders
from klamm.protocol.messages.topics.create_topics import CreatableTopicConfig
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.reassignment_requests import elect, move

Start = Callable[..., DrivenCluster]
DONE = (ErrorCode.NONE, None)
NOT_NEEDED = (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
NOT_AVAILABLE = (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
NOBODY_ELIGIBLE = (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def leaders(cluster: DrivenCluster, name: str = "t") -> list[int]:
    return [partition.leader for partition in cluster.partitions(name)]


def test_the_preferred_leader_leads_again(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [1, 2], [2, 3], [3, 1])
    cluster.lose(1)
    cluster.come_back(1)
    assert leaders(cluster) == [2, 2, 3]
    wanted = {"t": [0, 1, 9, -1], "nope": [0]}
    assert elect(cluster, wanted) == (
        0,
        {
            "t": [(0, *DONE), (1, *NOT_NEEDED), (9, UNKNOWN, "No such partition as t-9"),
                  (-1, UNKNOWN, "No such partition as t--1")],
            "nope": [(0, UNKNOWN, "No such topic as nope")],
        },
    )  # fmt: skip
    assert leaders(cluster) == [1, 2, 3]
    first = cluster.partitions("t")[0]
    assert (first.leader_epoch, first.leader_recovery_state, set(first.isr)) == (2, 0, {1, 2})


@pytest.mark.parametrize("times", [2, 20])
def test_an_election_asked_for_twice_is_held_twice_as_in_kafka(times: int, cluster: DrivenCluster) -> None:
    """Each is decided on the state before the request (recorded from Apache Kafka 4.3); twenty are logged as
    columns."""
    cluster.create_at("t", [1, 2])
    assert move(cluster, "t", [2, 1]) == [0]
    assert elect(cluster, {"t": [0] * times}) == (0, {"t": [(0, *DONE)] * times})
    partition = cluster.partitions("t")[0]
    assert (partition.leader, partition.leader_epoch, set(partition.isr)) == (2, times, {1, 2})
    assert elect(cluster, {"t": [0]}) == (0, {"t": [(0, *NOT_NEEDED)]})


def test_a_preferred_leader_that_is_away_or_behind_is_not_available(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile)
    cluster.create_at("t", [1, 2])
    cluster.lose(3)
    assert move(cluster, "t", [3, 2]) == [0]
    assert elect(cluster, {"t": [0]}) == (0, {"t": [(0, *NOT_AVAILABLE)]})
    assert leaders(cluster) == [1]


def test_all_partitions_are_those_without_the_leader_that_was_asked_for(start: Start, profile: Profile) -> None:
    """A preferred election is also needed where there is no leader; an unclean one only there."""
    cluster = start(3, profile=profile)
    cluster.lose(3)
    cluster.create_at("none", [2, 3], [1, 2])
    cluster.create_at("other", [2, 1], [1, 2])
    cluster.lose(2)
    assert (leaders(cluster, "none"), leaders(cluster, "other")) == ([-1, 1], [1, 1])
    unavailable = {"none": [(0, *NOT_AVAILABLE)], "other": [(0, *NOT_AVAILABLE)]}
    assert elect(cluster, None, PREFERRED) == (0, unavailable)
    assert elect(cluster, None, UNCLEAN) == (0, {"none": [(0, *NOBODY_ELIGIBLE)], "other": []})


def test_nobody_leads_uncleanly_unless_asked(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile)
    cluster.lose(3)
    cluster.create_at("t", [2, 3], [1, 2])
    cluster.lose(2)
    assert elect(cluster, {"t": [0, 1]}, UNCLEAN) == (0, {"t": [(0, *NOBODY_ELIGIBLE), (1, *NOT_NEEDED)]})
    cluster.come_back(3)
    assert leaders(cluster) == [-1, 1]
    assert elect(cluster, {"t": [0]}, PREFERRED) == (0, {"t": [(0, *NOT_AVAILABLE)]})
    assert elect(cluster, {"t": [0]}, UNCLEAN) == (0, {"t": [(0, *DONE)]})
    partition = cluster.partitions("t")[0]
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (3, (3,), ())
    assert partition.leader_recovery_state == 1


def test_for_all_partitions_every_topic_is_named_with_those_that_were_tried(start: Start, profile: Profile) -> None:
    cluster = start(3, profile=profile)
    cluster.create_at("t", [1, 2], [2, 1], [3, 1])
    cluster.create_at("u", [2, 1])
    assert move(cluster, "t", [2, 1]) == [0]
    cluster.lose(3)
    assert elect(cluster, None) == (0, {"t": [(0, *DONE), (2, *NOT_AVAILABLE)], "u": []})
    assert elect(cluster, None) == (0, {"t": [(2, *NOT_AVAILABLE)], "u": []})
    assert elect(cluster, None, UNCLEAN) == (0, {"t": [], "u": []})
    assert leaders(cluster) == [2, 2, 1]


@pytest.mark.parametrize("election_type", [-1, 2, 5])
def test_an_unknown_type_is_refused(cluster: DrivenCluster, election_type: int) -> None:
    cluster.create_at("t", [1])
    text = f"Unknown election type {election_type}"
    wanted = {"t": [0, 7], "nope": [0]}
    assert elect(cluster, wanted, election_type) == (
        ErrorCode.INVALID_REQUEST,
        {name: [(index, ErrorCode.INVALID_REQUEST, text) for index in found] for name, found in wanted.items()},
    )
    assert elect(cluster, None, election_type) == (ErrorCode.INVALID_REQUEST, {})
    assert elect(cluster, {}, election_type) == (0, {})


def test_without_time_there_is_no_election(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [1, 2])
    assert move(cluster, "t", [2, 1]) == [0]
    for timeout_ms in (0, -1):
        late = (ErrorCode.REQUEST_TIMED_OUT, {"t": [(0, ErrorCode.REQUEST_TIMED_OUT, None)]})
        assert elect(cluster, {"t": [0]}, timeout_ms=timeout_ms) == late
        assert elect(cluster, {"t": [0]}, 7, timeout_ms=timeout_ms) == late
        assert elect(cluster, None, timeout_ms=timeout_ms) == (ErrorCode.REQUEST_TIMED_OUT, {})
        assert elect(cluster, {}, timeout_ms=timeout_ms) == (0, {})
    assert leaders(cluster) == [1]


def test_the_first_version_knows_preferred_elections_only(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [1, 2])
    assert move(cluster, "t", [2, 1]) == [0]
    assert elect(cluster, {"t": [0, 1]}, version=0) == (
        0,
        {"t": [(0, *DONE), (1, UNKNOWN, "No such partition as t-1")]},
    )


def test_the_first_version_tells_a_refusal_of_the_whole_by_its_partitions_alone(cluster: DrivenCluster) -> None:
    """Found by scripts/fuzz: the answer had an error code that version 0 lacks, so the client got the answer of a
    bug."""
    cluster.create_at("t", [1, 2])
    late = {"t": [(0, ErrorCode.REQUEST_TIMED_OUT, None)]}
    assert elect(cluster, {"t": [0]}, timeout_ms=0, version=0) == (0, late)
    assert elect(cluster, {"t": []}, timeout_ms=0, version=0) == (0, {"t": []})


def test_too_many_elections_are_refused_as_a_whole(
    start: Start, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = start(3, profile=profile)
    cluster.create_at("t", *[[1, 2]] * 3)
    assert move(cluster, "t", *[[2, 1]] * 3) == [0] * 3
    for limit in ("MAX_PARTITIONS_PER_REQUEST_KIP", "MAX_PARTITIONS_PER_REQUEST_KAFKA"):
        monkeypatch.setattr(placement, limit, 2)
    assert elect(cluster, None) == (ErrorCode.POLICY_VIOLATION, {})
    text = "Unable to perform excessively large batch operation."
    refused = [(index, ErrorCode.POLICY_VIOLATION, text) for index in range(3)]
    assert elect(cluster, {"t": range(3)}) == (ErrorCode.POLICY_VIOLATION, {"t": refused})
    assert leaders(cluster) == [1, 1, 1]
    assert elect(cluster, {"t": [0, 1]}) == (0, {"t": [(0, *DONE), (1, *DONE)]})


def test_many_elections_come_as_runs(start: Start) -> None:
    cluster = start(3)
    cluster.create_at("t", *[[1, 2]] * 40)
    assert set(move(cluster, "t", *[[2, 1]] * 40)) == {0}
    code, results = elect(cluster, None)
    assert (code, results) == (0, {"t": [(index, *DONE) for index in range(40)]})
    assert set(leaders(cluster)) == {2}


@pytest.mark.parametrize("name", ["n" * 32_767, "\N{SNOWMAN}" * 10_922])
def test_a_name_as_long_as_a_request_may_have_is_answered(start: Start, name: str) -> None:
    """Also in the first version, in which a text has at most as many bytes as a name."""
    cluster = start(3)
    partitions = [elect_leaders.TopicPartitions(topic=name, partitions=[0, 1])]
    for version in (0, 2):
        request = elect_leaders.ElectLeadersRequest(topic_partitions=partitions, timeout_ms=1000)
        results = cluster.ask(request, version=version).replica_election_results[0].partition_result
        assert [one.error_code for one in results] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
        shown = name[: 249 if name.isascii() else 62]
        assert results[0].error_message == f"No such topic as {shown}…"
    assert move(cluster, name, [1], [2]) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


@pytest.mark.parametrize("min_isr", ["1", "3"])
def test_an_election_keeps_who_is_eligible_by_the_topic_s_own_minimum(cluster: DrivenCluster, min_isr: str) -> None:
    """The cluster's minimum is 1, with which no replica would be eligible beside one in sync."""
    config = CreatableTopicConfig(name="min.insync.replicas", value=min_isr)
    assert cluster.create_at("t", [2, 1, 3], configs=[config]).error_code == 0
    assert move(cluster, "t", [1, 2, 3]) == [0]
    cluster.lose(3)
    eligible = (3,) if min_isr == "3" else ()
    assert cluster.partitions("t")[0].eligible_leader_replicas == eligible
    assert elect(cluster, {"t": [0]}) == (0, {"t": [(0, 0, None)]})
    (partition,) = cluster.partitions("t")
    assert (partition.leader, partition.eligible_leader_replicas) == (1, eligible)
