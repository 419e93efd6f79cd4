"""Invalid arguments raise CannotPlace or ValueError with their numbers, before large arrays are allocated."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from klamm.assignment.audit import audit
from klamm.assignment.cluster_view import NO_LIMIT, ClusterView
from klamm.assignment.errors import CannotPlace, CannotPlaceReason
from klamm.assignment.kafka.java_random import JavaRandom
from klamm.assignment.place import Algorithm, PlacementSpec, place
from tests.assignment.strategies import small_cluster

INT32_MAX = 2**31 - 1
MOST_ALLOCATED = 1_000_000  # bytes, by a refusal

REASON = CannotPlaceReason
BOTH = pytest.mark.parametrize("algorithm", list(Algorithm))


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_ALLOCATED


def refusal(view: ClusterView, **asked: Any) -> CannotPlace:
    with little_memory(), pytest.raises(CannotPlace) as refused:
        place(view, PlacementSpec(**asked), JavaRandom(0))
    return refused.value


def says_so(message: str, asked: int) -> bool:
    """AdminUtils' words have the smallest number that would do, StripedReplicaPlacer's the number that was asked."""
    return "larger than 0" in message or str(asked) in message


FIVE_BROKERS = small_cluster([100] * 5, limit=100)


@BOTH
@pytest.mark.parametrize("under_replicated", [False, True])
@pytest.mark.parametrize("replication_factor", [0, -1, -INT32_MAX - 1])
def test_a_replication_factor_below_one_is_refused(
    replication_factor: int, under_replicated: bool, algorithm: Algorithm
) -> None:
    refused = refusal(
        FIVE_BROKERS,
        partitions=1,
        replication_factor=replication_factor,
        under_replicated=under_replicated,
        algorithm=algorithm,
    )
    assert refused.reason is REASON.INVALID_REPLICATION_FACTOR
    assert says_so(refused.message, replication_factor)


@BOTH
@pytest.mark.parametrize("replication_factor", [6, 32_767, INT32_MAX, 2**63])
def test_a_replication_factor_above_the_brokers_is_refused(replication_factor: int, algorithm: Algorithm) -> None:
    refused = refusal(FIVE_BROKERS, partitions=1, replication_factor=replication_factor, algorithm=algorithm)
    assert refused.reason is REASON.INVALID_REPLICATION_FACTOR
    assert str(replication_factor) in refused.message
    assert "5" in refused.message


@BOTH
def test_without_brokers_nothing_can_be_placed(algorithm: Algorithm) -> None:
    nobody = ClusterView(np.array([], dtype=np.int32), ())
    refused = refusal(nobody, partitions=1, replication_factor=1, algorithm=algorithm)
    assert refused.reason is REASON.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    ("partitions", "algorithm"),
    [
        (0, Algorithm.ROUND_ROBIN),
        *((partitions, algorithm) for partitions in (-1, -INT32_MAX - 1, -(2**63)) for algorithm in Algorithm),
    ],
)
def test_fewer_than_one_partition_are_refused(partitions: int, algorithm: Algorithm) -> None:
    refused = refusal(FIVE_BROKERS, partitions=partitions, replication_factor=1, algorithm=algorithm)
    assert refused.reason is REASON.INVALID_PARTITIONS
    assert says_so(refused.message, partitions)


def test_striped_placement_of_no_partition_is_empty_as_kafka_recorded_it() -> None:
    """Kafka's placer draws for it as for any other: what is placed next depends on that."""
    requested = PlacementSpec(partitions=0, replication_factor=2, algorithm=Algorithm.STRIPED)
    assert place(FIVE_BROKERS, requested, JavaRandom(0)).shape == (0, 2)


@BOTH
@pytest.mark.parametrize("limit", [100, NO_LIMIT])
@pytest.mark.parametrize("partitions", [33_333_334, 2**30, INT32_MAX, 2**62, 10**30])
def test_more_replicas_than_one_placement_holds_are_refused_before_they_are_allocated(
    partitions: int, limit: int, algorithm: Algorithm
) -> None:
    """2^30 partitions of 3 replicas no longer fit an int32, 2^62 no longer an int64."""
    view = small_cluster([100] * 5, limit=100)
    view = ClusterView(view.broker_ids, view.racks, replica_limit=limit)
    refused = refusal(view, partitions=partitions, replication_factor=3, algorithm=algorithm)
    assert refused.reason is REASON.INVALID_PARTITIONS
    assert str(partitions) in refused.message


@BOTH
def test_a_placement_beyond_the_limits_is_refused_before_it_is_allocated(algorithm: Algorithm) -> None:
    """A million partitions of 3 replicas are allowed by their number, and would take 12 MB."""
    refused = refusal(FIVE_BROKERS, partitions=1_000_000, replication_factor=3, algorithm=algorithm)
    assert refused.reason is REASON.POLICY_VIOLATION
    assert "1000000" in refused.message
    assert "max.broker.partitions=100" in refused.message


def test_partition_ids_beyond_int32_are_refused() -> None:
    refused = refusal(FIVE_BROKERS, partitions=10, replication_factor=3, first_partition=INT32_MAX - 9)
    assert refused.reason is REASON.INVALID_PARTITIONS
    assert str(INT32_MAX - 9) in refused.message
    last = PlacementSpec(partitions=10, replication_factor=3, first_partition=INT32_MAX - 10)
    assert place(FIVE_BROKERS, last, JavaRandom(0)).shape == (10, 3)


@pytest.mark.parametrize("limit", [100, NO_LIMIT])
def test_round_robin_refuses_a_mix_of_brokers_with_and_without_racks(limit: int) -> None:
    mixed = ClusterView(np.arange(3, dtype=np.int32), ("a", None, "b"), replica_limit=limit)
    assert refusal(mixed, partitions=1, replication_factor=1).reason is REASON.MIXED_RACKS
    # Only those who are asked count: the one without a rack is fenced.
    requested = ClusterView(
        np.arange(3, dtype=np.int32), ("a", None, "b"), fenced=np.array([False, True, False]), replica_limit=limit
    )
    assert place(requested, PlacementSpec(partitions=1, replication_factor=2), JavaRandom(0)).shape == (1, 2)


@pytest.mark.parametrize(
    ("facts", "numbers"),
    [
        pytest.param({"replica_limit": 0}, "replica limit.* 1 .*not 0", id="no replica at all"),
        pytest.param({"replica_limit": -5}, "replica limit.*not -5", id="less than none"),
        pytest.param({"replica_limit": NO_LIMIT + 1}, "replica limit.*not 9223372036854775808", id="beyond a long"),
        pytest.param({"partition_limit": 0}, "partition limit.* 1 .*not 0", id="no partition at all"),
        pytest.param({"partition_limit": -1}, "partition limit.*not -1", id="less than no partition"),
        pytest.param({"partition_count": -3}, "partition count.* 0 .*not -3", id="fewer partitions than none"),
        pytest.param({"replica_counts": np.array([0, -4])}, "1 replica count .*: -4", id="fewer replicas than none"),
        pytest.param({"replica_counts": np.array([1, 2, 3])}, "2 integers.*3", id="more counts than brokers"),
        pytest.param({"replica_counts": np.array([1.0, 2.0])}, "2 integers, not float64", id="counts with a fraction"),
        pytest.param(
            {"fenced": np.array([True])}, r"2 booleans, not bool of shape \(1,\)", id="fewer fences than brokers"
        ),
        pytest.param({"fenced": np.array([0, 1])}, "boolean.*not int64", id="numbers for fences"),
        pytest.param({"broker_ids": np.array([7, 7])}, "1 broker id .*more than once: 7", id="a broker twice"),
        pytest.param({"broker_ids": np.array([7, -1])}, "1 broker id .*: -1", id="a negative broker id"),
        pytest.param({"broker_ids": np.array([7, 2**31])}, "1 broker id .*: 2147483648", id="an id beyond an int32"),
        pytest.param({"broker_ids": np.array([7, 2**64 - 1], dtype=np.uint64)}, "18446744073709551615", id="unsigned"),
        pytest.param({"racks": ("a",)}, "2 brokers.*1 rack$", id="fewer racks than brokers"),
    ],
)
def test_an_invalid_cluster_view_is_refused(facts: dict[str, Any], numbers: str) -> None:
    sound = {"broker_ids": np.array([1, 2]), "racks": (None, None)}
    with little_memory(), pytest.raises(ValueError, match=numbers):
        ClusterView(**{**sound, **facts})


@pytest.mark.parametrize(
    "made_of", [lambda: np.arange(1_000_000), lambda: list(range(1_000_000))], ids=["an array", "a list"]
)
def test_a_million_brokers_are_refused_before_they_are_copied(made_of: Callable[[], Any]) -> None:
    ids, racks = made_of(), (None,) * 1_000_000
    with little_memory(), pytest.raises(ValueError, match="1000000 brokers, more than 100000"):
        ClusterView(ids, racks)


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ({"start_index": -1}, "not -1"),
        ({"min_insync_replicas": 0}, "1 or more, not 0"),
        ({"min_insync_replicas": -2}, "1 or more, not -2"),
    ],
)
def test_invalid_arguments_of_a_placement_raise_value_error(asked: dict[str, Any], numbers: str) -> None:
    with pytest.raises(ValueError, match=numbers):
        PlacementSpec(partitions=1, replication_factor=1, **asked)


def test_an_algorithm_may_be_given_by_its_exact_name() -> None:
    assert PlacementSpec(partitions=1, replication_factor=1, algorithm="striped").algorithm is Algorithm.STRIPED  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bogus"):
        PlacementSpec(partitions=1, replication_factor=1, algorithm="bogus")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["partitions", "replication_factor", "first_partition", "min_insync_replicas"])
@pytest.mark.parametrize("value", [2.0, "2", True, None])
def test_counts_are_whole_numbers(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name.replace('_', ' ')}: a whole number, not {value!r}"):
        PlacementSpec(**{"partitions": 1, "replication_factor": 1, name: value})


@pytest.mark.parametrize("rng", [7, None])
def test_only_random_sources_with_the_same_numbers_everywhere_are_accepted(rng: Any) -> None:
    with pytest.raises(ValueError, match=f"not {rng!r}"):
        place(FIVE_BROKERS, PlacementSpec(partitions=1, replication_factor=1), rng)


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1])
def test_a_seed_is_a_java_long(seed: int) -> None:
    with pytest.raises(ValueError, match=str(seed)):
        JavaRandom(seed)


@pytest.mark.parametrize(("facts", "shown"), [({"racks": (1, 2)}, "not 1"), ({"replica_limit": None}, "not None")])
def test_arguments_of_the_wrong_type_are_refused(facts: dict[str, Any], shown: str) -> None:
    with pytest.raises(ValueError, match=shown):
        ClusterView(**{"broker_ids": np.array([1, 2]), "racks": (None, None), **facts})


def test_the_auditor_accepts_lists() -> None:
    view = small_cluster([9, 9])
    first, second = view.broker_ids.tolist()
    assert audit(view, [[first, second]], [[first]]) == []
