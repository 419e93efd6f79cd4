"""Limits of KIP-578: Kafka's placement if it is within them, otherwise the best other one, whenever one exists.

A maximum flow decides whether one exists, and a flow of minimum cost which one is best (`oracles`). For small cases
both are compared with exhaustive search.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from klamm.assignment.audit import audit
from klamm.assignment.cluster_view import NO_LIMIT, BoolArray, ClusterView, Int32Array
from klamm.assignment.errors import CannotPlace, CannotPlaceReason
from klamm.assignment.kafka.java_random import JavaRandom
from klamm.assignment.limited.within_limits import MAX_REPLICAS_WITH_EVENEST_LEADERS
from klamm.assignment.place import Algorithm, PlacementSpec, place
from tests.assignment.oracles import (
    Rack,
    least_squares_of_leaders,
    placement_exists,
    spread_bound,
    spread_of,
    squares_of_leaders,
    widest_and_evenest,
    widest_and_evenest_by_trying,
)
from tests.assignment.reference import place_one_by_one
from tests.assignment.strategies import Seed, asked, clusters, seeds, small_cluster, specs, tight, without_limits

POLICY_VIOLATION = CannotPlaceReason.POLICY_VIOLATION
INVALID_REPLICATION_FACTOR = CannotPlaceReason.INVALID_REPLICATION_FACTOR
ANY_SEED = Seed(1)


def spec_of(partitions: int, replication_factor: int) -> PlacementSpec:
    return PlacementSpec(partitions=partitions, replication_factor=replication_factor)


def room_of(view: ClusterView, chosen: BoolArray) -> list[int]:
    """Room below the limit of each chosen broker, in the order of the view."""
    return [max(view.replica_limit - count, 0) for count in view.replica_counts[chosen].tolist()]


def live_room(view: ClusterView) -> list[int]:
    """Room below the limit of each live broker, in the order of the view."""
    return room_of(view, ~view.fenced)


def live_racks(view: ClusterView) -> list[Rack]:
    """The rack of each live broker; where nobody has one, every broker is one."""
    racks = [rack for rack, fenced in zip(view.racks, view.fenced.tolist(), strict=True) if not fenced]
    return list(range(len(racks))) if None in racks else list(racks)


def positions(view: ClusterView, placed: Int32Array) -> list[list[int]]:
    """The same rows with the position of each broker among the live ones."""
    position = {broker_id: at for at, broker_id in enumerate(view.broker_ids[~view.fenced].tolist())}
    return [[position[broker_id] for broker_id in row] for row in placed.tolist()]


def must_leave_kafkas(view: ClusterView, spec: PlacementSpec, seed: Seed) -> bool:
    """Whether what Kafka would place breaks a limit."""
    return bool(audit(view, place(without_limits(view), spec, seed.rng())))


def refusal(view: ClusterView, spec: PlacementSpec, seed: Seed = ANY_SEED) -> CannotPlace:
    with pytest.raises(CannotPlace) as refused:
        place(view, spec, seed.rng())
    return refused.value


@pytest.mark.parametrize("algorithm", list(Algorithm))
@given(view=clusters(), spec=specs(), seed=seeds(), spare=st.lists(st.integers(0, 2), min_size=7, max_size=7))
# Stripes go on to the next rack even where only a fenced broker is there, however many live ones are left elsewhere.
@example(
    view=replace(small_cluster([8] * 4, ["a", "a", "a", "b"]), fenced=np.array([False, False, False, True])),
    spec=spec_of(1, 2),
    seed=ANY_SEED,
    spare=[0] * 7,
)
def test_kafkas_placement_is_kept_if_it_is_just_within_the_limits(
    algorithm: Algorithm, view: ClusterView, spec: PlacementSpec, seed: Seed, spare: list[int]
) -> None:
    """Limits with exactly as much room as Kafka's placement takes, and a little more on some brokers."""
    striped = algorithm is Algorithm.STRIPED
    candidates = len(view) if striped else int(view.live.sum())
    assume(view.live.any())
    spec = replace(spec, algorithm=algorithm, replication_factor=min(spec.replication_factor, candidates))
    unlimited = place(without_limits(view), spec, seed.rng())
    taken = [np.count_nonzero(unlimited == broker_id) for broker_id in view.broker_ids]
    limit = spec.partitions + 2
    narrow = replace(
        view,
        replica_limit=limit,
        replica_counts=np.array([limit - uses - more for uses, more in zip(taken, spare, strict=False)]),
        partition_limit=view.partition_count + spec.partitions,
    )
    assert place(narrow, spec, seed.rng()).tolist() == unlimited.tolist()


@given(clusters(), specs(), seeds())
def test_without_limits_the_placement_is_kafkas_on_the_live_brokers(
    view: ClusterView, spec: PlacementSpec, seed: Seed
) -> None:
    """Drawn or fixed: the start first, then the shift; a start that is fixed is the first shift, too."""
    brokers = [
        (broker_id, rack)
        for broker_id, rack, fenced in zip(view.broker_ids.tolist(), view.racks, view.fenced.tolist(), strict=True)
        if not fenced
    ]
    assume(spec.replication_factor <= len(brokers))
    dice = JavaRandom(seed.number)
    start, shift = dice.next_int(len(brokers)), dice.next_int(len(brokers))
    if spec.start_index is not None:
        start = shift = spec.start_index
    assert place(without_limits(view), spec, JavaRandom(seed.number)).tolist() == place_one_by_one(
        brokers, spec.partitions, spec.replication_factor, start, shift, max(spec.first_partition, 0)
    )


@given(asked() | tight(least_slack=-2), seeds())
def test_a_placement_is_found_if_and_only_if_one_exists(case: tuple[ClusterView, PlacementSpec], seed: Seed) -> None:
    view, spec = case
    room = live_room(view)
    partitions, replication_factor = spec.partitions, spec.replication_factor
    reason = None
    if replication_factor > len(room):
        reason = INVALID_REPLICATION_FACTOR
    elif (
        not placement_exists(partitions, replication_factor, room)
        or view.partition_count + partitions > view.partition_limit
    ):
        reason = POLICY_VIOLATION
    if reason is None:
        placed = place(view, spec, seed.rng())
        assert placed.dtype == np.int32
        assert placed.shape == (spec.partitions, spec.replication_factor)
        assert placed.min() >= 0
        assert audit(view, placed) == []
    else:
        assert refusal(view, spec, seed).reason is reason


@given(tight(), seeds())
def test_placements_have_the_most_racks_and_then_the_most_even_replicas(
    case: tuple[ClusterView, PlacementSpec], seed: Seed
) -> None:
    """Replicas of the topic that is placed: Kafka evens topics, not brokers."""
    view, spec = case
    assume(must_leave_kafkas(view, spec, seed))
    rows = positions(view, place(view, spec, seed.rng()))
    room, racks = live_room(view), live_racks(view)
    taken = np.bincount(np.array(rows).ravel(), minlength=len(room))
    assert (spread_of(rows, racks), int((taken**2).sum())) == widest_and_evenest(
        spec.partitions, spec.replication_factor, room, [0] * len(room), racks
    )


@given(tight(racked=False), seeds())
def test_without_racks_replicas_on_brokers_with_room_differ_by_at_most_one(
    case: tuple[ClusterView, PlacementSpec], seed: Seed
) -> None:
    view, spec = case
    assume(must_leave_kafkas(view, spec, seed))
    taken = np.bincount(
        np.array(positions(view, place(view, spec, seed.rng()))).ravel(), minlength=len(live_room(view))
    )
    has_room = taken < np.array(live_room(view))
    assume(has_room.any())
    assert int(taken[has_room].max() - taken[has_room].min()) <= 1


@given(tight(), seeds())
# No lead can go straight to a broker with two fewer: one must pass through another broker.
@example((small_cluster([4, 1, 2, 2]), spec_of(4, 2)), Seed(69))
def test_leaders_are_as_even_as_the_brokers_of_each_row_allow(
    case: tuple[ClusterView, PlacementSpec], seed: Seed
) -> None:
    view, spec = case
    assume(must_leave_kafkas(view, spec, seed))
    rows = positions(view, place(view, spec, seed.rng()))
    assert squares_of_leaders(rows) == least_squares_of_leaders(rows)


@given(st.integers(0, 4), st.integers(1, 3), st.lists(st.integers(0, 4), min_size=3, max_size=5), st.data())
def test_the_oracles_agree_with_exhaustive_search_and_the_rack_bound_is_reached(
    partitions: int, replication_factor: int, room: list[int], data: st.DataObject
) -> None:
    racks: list[Rack] = [data.draw(st.sampled_from("ab")) for _ in room]
    held = [data.draw(st.integers(0, 3)) for _ in room]
    best = widest_and_evenest_by_trying(partitions, replication_factor, room, held, racks)
    assert (best is not None) == placement_exists(partitions, replication_factor, room)
    if best is not None and partitions:
        assert best == widest_and_evenest(partitions, replication_factor, room, held, racks)
        assert best[0] == spread_bound(partitions, replication_factor, room, racks)


@st.composite
def large(draw: st.DrawFn) -> tuple[ClusterView, PlacementSpec]:
    """Up to 10,000 replicas on up to 40 brokers of uneven racks, of which about half run into their limits."""
    size = draw(st.integers(4, 40))
    replication_factor = draw(st.integers(1, 4))
    partitions = draw(st.integers(1, 10_000 // replication_factor))
    rack_of = draw(st.lists(st.integers(0, 6), min_size=size, max_size=size))
    share = partitions * replication_factor // size + 1
    places = draw(st.lists(st.integers(0, 2 * share) | st.just(partitions), min_size=size, max_size=size))
    view = small_cluster(places, [f"rack-{rack**2 // 8}" for rack in rack_of], limit=2 * share + partitions)
    return view, spec_of(partitions, replication_factor)


@given(large(), seeds())
def test_the_rack_bound_is_reached_up_to_ten_thousand_replicas(
    case: tuple[ClusterView, PlacementSpec], seed: Seed
) -> None:
    view, spec = case
    room, racks = live_room(view), live_racks(view)
    if sum(min(space, spec.partitions) for space in room) < spec.partitions * spec.replication_factor:
        assert refusal(view, spec, seed).reason is POLICY_VIOLATION
        return
    placed = place(view, spec, seed.rng())
    assert audit(view, placed) == []
    if must_leave_kafkas(view, spec, seed):
        assert spread_of(positions(view, placed), racks) == spread_bound(
            spec.partitions, spec.replication_factor, room, racks
        )


@pytest.mark.parametrize(
    ("racks", "replication_factor"), [(None, 6), (["a"] * 23, 6), ([*"abc"] * 7 + ["a", "b"], 3)], ids=str
)
def test_in_large_placements_leaders_are_even_on_brokers_with_room(
    racks: list[str | None] | None, replication_factor: int
) -> None:
    """Half the brokers fill up on the way. With racks, replicas differ between them, as the widest spread demands."""
    full = [29605, 1749, 18550, 19690, 42265, 35553, 46979, 1806, 2242, 2563, 25235, 34122]
    places = [room for space in full for room in (space, 600_000)][:-1]
    partitions = MAX_REPLICAS_WITH_EVENEST_LEADERS // replication_factor + 5
    view, spec = small_cluster(places, racks, limit=600_000), spec_of(partitions, replication_factor)
    placed = place(view, spec, JavaRandom(1))
    assert audit(view, placed) == []
    has_room = np.array(places) == 600_000
    led = np.bincount(placed[:, 0] - 10)[has_room]
    assert int(led.max() - led.min()) <= 1
    for rack in set(racks or [None]):
        of_rack = np.bincount(placed.ravel() - 10)[has_room & np.array([other == rack for other in view.racks])]
        assert int(of_rack.max() - of_rack.min()) <= 1


@given(tight(), seeds())
def test_the_same_seed_gives_the_same_placement(case: tuple[ClusterView, PlacementSpec], seed: Seed) -> None:
    view, spec = case
    again = replace(view, broker_ids=view.broker_ids.copy())
    assert place(view, spec, seed.rng()).tolist() == place(again, spec, seed.rng()).tolist()


def test_another_seed_gives_another_placement() -> None:
    view = small_cluster([5, 8, 8, 9])
    found = {
        place(view, spec_of(10, 3), Seed(number, java).rng()).tobytes() for number in range(9) for java in (False, True)
    }
    assert len(found) > 9


def test_kip_578_example_counts_8_6_9_below_10_one_partition_of_three_replicas_fits() -> None:
    view = replace(small_cluster([2, 4, 1], limit=10), broker_ids=np.array([1, 2, 3]))
    assert view.replica_counts.tolist() == [8, 6, 9]
    placed = place(view, spec_of(1, 3), JavaRandom(0))
    assert sorted(placed[0].tolist()) == [1, 2, 3]
    then = replace(view, replica_counts=np.array([9, 7, 10]))
    assert refusal(then, spec_of(1, 3)).reason is POLICY_VIOLATION
    assert sorted(place(then, spec_of(1, 2), JavaRandom(0))[0].tolist()) == [1, 2]


def test_kip_578_example_counts_8_6_9_below_10_two_partitions_of_three_replicas_are_refused_entirely() -> None:
    refused = refusal(small_cluster([2, 4, 1], limit=10), spec_of(2, 3))
    assert refused.reason is POLICY_VIOLATION
    assert "max.broker.partitions=10" in refused.message


def test_kip_578_example_counts_10_20_30_below_40_thirty_partitions_of_two_replicas_fit_exactly() -> None:
    view = small_cluster([30, 20, 10], limit=40)
    for number in range(20):
        placed = place(view, spec_of(30, 2), JavaRandom(number))
        assert audit(view, placed) == []
        assert np.bincount(placed.ravel())[10:].tolist() == [30, 20, 10]
    assert refusal(view, spec_of(31, 2)).reason is POLICY_VIOLATION


@pytest.mark.parametrize("partitions", [1, 3, 4, 100])
def test_max_partitions_is_enforced(partitions: int) -> None:
    view = small_cluster([20, 20, 20], partition_count=7, partition_limit=10)
    if partitions <= 3:
        assert audit(view, place(view, spec_of(partitions, 2), JavaRandom(0))) == []
    else:
        assert refusal(view, spec_of(partitions, 2)).reason is POLICY_VIOLATION


@pytest.mark.parametrize("algorithm", list(Algorithm))
@pytest.mark.parametrize("partitions", [2, 3, 4])
def test_the_partitions_of_the_cluster_are_limited_where_brokers_are_not(partitions: int, algorithm: Algorithm) -> None:
    brokers = np.arange(1, 4, dtype=np.int32)
    view = ClusterView(broker_ids=brokers, racks=(None,) * 3, partition_count=7, partition_limit=10)
    spec = PlacementSpec(partitions=partitions, replication_factor=2, algorithm=algorithm)
    if partitions <= 3:
        assert audit(view, place(view, spec, JavaRandom(0))) == []
    else:
        found = refusal(view, spec)
        assert found.reason is POLICY_VIOLATION
        assert "the cluster has 7 partitions" in found.message


def test_of_two_limits_that_are_exceeded_that_of_the_cluster_is_named() -> None:
    view = small_cluster([1, 1, 1], partition_count=7, partition_limit=10)
    assert "the cluster has 7 partitions" in refusal(view, spec_of(8, 2)).message


def test_a_cluster_above_max_partitions_gets_no_partition() -> None:
    view = small_cluster([20, 20], partition_count=12, partition_limit=10)
    assert refusal(view, spec_of(1, 1)).reason is POLICY_VIOLATION


@pytest.mark.parametrize(
    ("places", "partition_limit", "partitions"),
    [
        pytest.param([9, 9, 9], 12, 8, id="the cluster's limit decides"),
        pytest.param([2, 2, 2], 99, 8, id="the brokers' limit decides"),
        pytest.param([2, 2, 2], 12, 8, id="both do"),
        pytest.param([2, 2, 2], NO_LIMIT, 8, id="there is only one"),
    ],
)
def test_a_refusal_names_both_limits_with_their_values_and_what_was_asked(
    places: list[int], partition_limit: int, partitions: int
) -> None:
    view = small_cluster(places, limit=31, partition_count=5, partition_limit=partition_limit)
    refused = refusal(view, spec_of(partitions, 2))
    assert refused.reason is POLICY_VIOLATION
    for part in (
        "max.broker.partitions=31",
        f"max.partitions={partition_limit}",
        f"{partitions} partitions",
        "factor 2",
    ):
        assert part in refused.message


def test_too_few_live_brokers_are_reported_before_limits() -> None:
    view = replace(
        small_cluster([0, 0, 0], partition_count=9, partition_limit=9), fenced=np.array([False, False, True])
    )
    refused = refusal(view, spec_of(5, 3))
    assert refused.reason is INVALID_REPLICATION_FACTOR
    assert "3 " in refused.message
    assert "2" in refused.message
    assert refusal(view, spec_of(5, 2)).reason is POLICY_VIOLATION


def test_an_empty_fenced_broker_has_no_room() -> None:
    view = replace(small_cluster([20, 1, 20, 1]), fenced=np.array([True, False, False, False]))
    assert audit(view, place(view, spec_of(2, 2), JavaRandom(0))) == []
    assert refusal(view, spec_of(3, 2)).reason is POLICY_VIOLATION


@pytest.mark.parametrize("racks", [None, ["a", "a", "b", "b", "b"]])
def test_limits_and_counts_near_the_largest_long_do_not_overflow(racks: list[str | None] | None) -> None:
    """No sum may pass 2^63, and none may be a rounded float."""
    limit = NO_LIMIT - 1
    counts = np.array([limit - 3, limit - 3, limit - 4, 0, NO_LIMIT])
    view = replace(small_cluster([0] * 5, racks), replica_counts=counts, replica_limit=limit)
    for seed in range(10):
        assert audit(view, place(view, spec_of(5, 3), JavaRandom(seed))) == []
    assert refusal(view, spec_of(6, 3)).reason is POLICY_VIOLATION


@pytest.mark.parametrize("seed", range(10))
def test_brokers_without_a_rack_and_those_of_the_rack_without_a_name_are_two_racks(seed: int) -> None:
    """Broker 1 is alone in its rack, so each row has it. Broker 0 has less room than Kafka's placement takes."""
    view = ClusterView(
        broker_ids=np.arange(3, dtype=np.int32),
        racks=(None, "", None),
        replica_counts=np.array([3, 0, 0]),
        replica_limit=4,
    )
    spec = PlacementSpec(partitions=4, replication_factor=2, algorithm=Algorithm.STRIPED)
    placed = place(view, spec, JavaRandom(seed))
    assert (placed == 1).any(axis=1).all(), placed
