"""On which brokers CreateTopics places replicas, by profile: racks, fenced brokers, controlled shutdowns, cordoned log
directories."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from klamm.controller.settings import Profile
from klamm.protocol.errors import ErrorCode
from tests.controller.handlers.cluster import DrivenCluster, directory

Start = Callable[..., DrivenCluster]


def replicas_of(cluster: DrivenCluster, name: str) -> list[tuple[int, ...]]:
    return [row.replicas for row in cluster.partitions(name)]


@pytest.mark.parametrize("replication_factor", [1, 2, 3, 4, 6])
def test_replicas_of_a_partition_spread_over_racks(start: Start, profile: Profile, replication_factor: int) -> None:
    """With as many racks as replicas each replica has its own, and no broker has much more than another. Leaders are
    even only by KIP-36: Kafka's stripes may skip a broker until they are shuffled."""
    cluster = start(6, profile=profile)
    cluster.create("t", 12, replication_factor)
    for row in replicas_of(cluster, "t"):
        assert len(set(row)) == replication_factor
        racks = Counter(cluster.image.brokers[replica].rack for replica in row)
        assert len(racks) == min(3, replication_factor)
        assert max(racks.values()) <= -(-replication_factor // 3)
    counts = Counter(replica for row in replicas_of(cluster, "t") for replica in row)
    assert max(counts.values()) - min(counts[broker_id] for broker_id in range(1, 7)) <= 2
    if profile == "kip":
        leaders = Counter(row[0] for row in replicas_of(cluster, "t"))
        assert max(leaders.values()) - min(leaders[broker_id] for broker_id in range(1, 7)) <= 1


def test_a_broker_without_a_rack_among_others(start: Start, profile: Profile) -> None:
    """By KIP-36's safe mode racks are then ignored; for Kafka's controller "no rack" is one rack of its own."""
    racks: Sequence[str | None] = ("a", "a", "a", None)
    cluster = start(4, profile=profile, racks=racks)
    cluster.create("t", 24, 2)
    on_the_odd_one = sum(4 in row for row in replicas_of(cluster, "t"))
    if profile == "kip":
        without = start(4, profile=profile, racks=())
        without.create("t", 24, 2)
        assert replicas_of(cluster, "t") == replicas_of(without, "t")
        assert on_the_odd_one == 12
    else:
        assert on_the_odd_one == 24


def test_a_fenced_broker_gets_replicas_in_profile_kafka_only(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile)
    cluster.lose(3)
    refused = cluster.create("all", 4, 3)
    if profile == "kip":
        assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert "only 2 broker(s) are live" in refused.error_message
        cluster.create("t", 6, 2)
        assert not any(3 in row for row in replicas_of(cluster, "t"))
    else:
        assert refused.error_code == ErrorCode.NONE
        for row in cluster.partitions("all"):
            assert set(row.replicas) == {1, 2, 3}
            assert row.replicas[0] != 3
            assert row.isr == tuple(replica for replica in row.replicas if replica != 3)
            assert row.leader == row.replicas[0]
        assert cluster.create("more", 1, 4).error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_fenced_broker_follows_where_its_rack_has_nobody_else(start: Start, profile: Profile) -> None:
    """As recorded: in profile `kafka` racks take turns, even if there are enough live brokers."""
    cluster = start(profile=profile)
    cluster.lose(3)
    cluster.create("t", 60, 2)
    with_3 = [row for row in replicas_of(cluster, "t") if 3 in row]
    assert not any(row[0] == 3 for row in with_3)
    assert bool(with_3) == (profile == "kafka")
    assert len(with_3) < 60


def test_a_fenced_broker_waits_until_the_live_ones_of_its_rack_are_used(start: Start, profile: Profile) -> None:
    cluster = start(6, profile=profile)
    cluster.lose(6)
    for number in range(20):
        name = f"t{number}"
        cluster.create(name, 5, 5)
        assert not any(6 in row and 3 not in row for row in replicas_of(cluster, name))


def test_a_broker_that_is_on_its_way_out_gets_nothing(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile)
    cluster.create_at("led-by-3", [3, 1])
    assert not cluster.heartbeat(3, want_shut_down=True).should_shut_down
    assert cluster.image.brokers[3].in_controlled_shutdown
    assert cluster.create("all", 1, 3).error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    cluster.create("t", 6, 2)
    assert not any(3 in row for row in replicas_of(cluster, "t"))


def test_a_broker_that_was_shut_down_is_a_fenced_one(start: Start, profile: Profile) -> None:
    """As recorded: a stopped broker is registered, and Kafka's controller uses it."""
    cluster = start(profile=profile)
    cluster.create_at("led-by-3", [3, 1])
    cluster.shut_down(3)
    expected = ErrorCode.NONE if profile == "kafka" else ErrorCode.INVALID_REPLICATION_FACTOR
    assert cluster.create("all", 1, 3).error_code == expected


def test_nobody_live_is_nobody_to_place_on(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile)
    cluster.lose(1, 2, 3)
    refused = cluster.create("t", 1, 1)
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    expected = "All brokers are currently fenced" if profile == "kafka" else "only 0 broker(s) are live"
    assert expected in refused.error_message
    assert cluster.create_at("u", [1]).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_an_empty_cluster_refuses_and_says_how_many_there_are(start: Start, profile: Profile) -> None:
    cluster = start(0, profile=profile)
    refused = cluster.create("t", 1, 1)
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "only 0 broker(s)" in refused.error_message


def test_a_broker_whose_log_directories_are_all_cordoned_gets_nothing(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile)
    cluster.heartbeat(2, cordoned_log_dirs=[directory(2)])
    refused = cluster.create("all", 1, 3)
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    found = "registered or some brokers have all their log directories cordoned" if profile == "kafka" else "live"
    assert refused.error_message == (
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
        f"only 2 broker(s) are {found}."
    )
    cluster.create("t", 6, 2)
    assert not any(2 in row for row in replicas_of(cluster, "t"))
    cluster.heartbeat(2, cordoned_log_dirs=[])
    assert cluster.create("all", 1, 3).error_code == ErrorCode.NONE


def test_one_cordoned_directory_of_two_closes_no_broker(start: Start, profile: Profile) -> None:
    cluster = start(2, profile=profile)
    cluster.join(3, log_dirs=[directory(3, 0), directory(3, 1)])
    cluster.heartbeat(3, cordoned_log_dirs=[directory(3, 1)])
    assert cluster.create("all", 1, 3).error_code == ErrorCode.NONE


@pytest.mark.parametrize("leader_first", [[3, 1], [1, 3]])
def test_a_manual_assignment_may_name_fenced_brokers_beside_a_live_one(
    start: Start, profile: Profile, leader_first: list[int]
) -> None:
    cluster = start(profile=profile)
    cluster.lose(3)
    assert cluster.create_at("t", leader_first).error_code == ErrorCode.NONE
    [row] = cluster.partitions("t")
    assert (row.replicas, row.isr, row.leader) == (tuple(leader_first), (1,), 1)


def test_the_seed_decides_where_topics_go(start: Start, profile: Profile) -> None:
    placements = []
    for seed in (1, 1, 2):
        cluster = start(6, profile=profile, seed=seed)
        for number in range(8):
            cluster.create(f"t{number}", 3, 2)
        placements.append([replicas_of(cluster, f"t{number}") for number in range(8)])
    assert placements[0] == placements[1]
    assert placements[0] != placements[2]
