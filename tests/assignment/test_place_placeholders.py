"""Placeholders of KIP-409 replace missing brokers, never full ones, and are filled in the KIP's order."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from klamm.assignment.audit import audit
from klamm.assignment.cluster_view import ClusterView
from klamm.assignment.errors import CannotPlace, CannotPlaceReason
from klamm.assignment.kafka.java_random import JavaRandom
from klamm.assignment.place import MAX_PLACEHOLDERS, Algorithm, PlacementSpec, place
from klamm.assignment.placeholders import fill_placeholders
from tests.assignment.oracles import fill_one_by_one, placement_exists
from tests.assignment.strategies import Seed, clusters, seeded, seeds, small_cluster, specs

POLICY_VIOLATION = CannotPlaceReason.POLICY_VIOLATION
INVALID_REPLICATION_FACTOR = CannotPlaceReason.INVALID_REPLICATION_FACTOR


def under_replicated(partitions: int, replication_factor: int, min_insync_replicas: int = 1) -> PlacementSpec:
    return PlacementSpec(
        partitions=partitions,
        replication_factor=replication_factor,
        under_replicated=True,
        min_insync_replicas=min_insync_replicas,
    )


def refusal(view: ClusterView, spec: PlacementSpec) -> CannotPlace:
    with pytest.raises(CannotPlace) as refused:
        place(view, spec, JavaRandom(0))
    return refused.value


@given(clusters(), specs(), st.integers(1, 6), seeds())
# Full brokers are live: one of the two has no room, and two rows are refused rather than padded.
@example(small_cluster([3, 0]), under_replicated(2, 3), 1, Seed(0))
def test_placeholders_replace_missing_brokers_and_never_full_ones(
    view: ClusterView, spec: PlacementSpec, min_insync_replicas: int, seed: Seed
) -> None:
    """What is real is what the live brokers alone would have got."""
    wanted, live = spec.replication_factor, int(view.live.sum())
    spec = replace(spec, under_replicated=True, min_insync_replicas=min_insync_replicas)
    real = min(wanted, live)
    room = [max(space, 0) for space in (view.replica_limit - view.replica_counts)[view.live].tolist()]
    if live < min(min_insync_replicas, wanted):
        assert refusal(view, spec).reason is INVALID_REPLICATION_FACTOR
    elif (
        not placement_exists(spec.partitions, real, room)
        or view.partition_count + spec.partitions > view.partition_limit
    ):
        assert refusal(view, spec).reason is POLICY_VIOLATION
    else:
        placed = place(view, spec, seed.rng())
        assert placed.dtype == np.int32
        assert placed[:, real:].tolist() == [list(range(-1, real - wanted - 1, -1))] * spec.partitions
        narrow = replace(spec, replication_factor=real, under_replicated=False)
        assert placed[:, :real].tolist() == place(view, narrow, seed.rng()).tolist()
        assert audit(view, placed) == []


@given(clusters(), specs(), seeds())
def test_with_enough_live_brokers_there_are_no_placeholders(view: ClusterView, spec: PlacementSpec, seed: Seed) -> None:
    def outcome(asked: PlacementSpec) -> object:
        try:
            return place(view, asked, seed.rng()).tolist()
        except CannotPlace as refused:
            return refused.reason, refused.message

    assume(spec.replication_factor <= view.live.sum())
    assert outcome(replace(spec, under_replicated=True, min_insync_replicas=9)) == outcome(spec)


def test_placeholders_need_under_replicated() -> None:
    refused = refusal(small_cluster([9, 9]), replace(under_replicated(1, 3), under_replicated=False))
    assert refused.reason is INVALID_REPLICATION_FACTOR
    assert "3" in refused.message
    assert "2" in refused.message


@pytest.mark.parametrize(
    ("replication_factor", "min_insync_replicas", "needed"),
    [(5, 3, 3), (5, 4, 4), (3, 3, 3), (3, 9, 3), (30, 30, 30)],
)
def test_too_few_live_brokers_for_min_insync_replicas_are_refused_with_the_numbers(
    replication_factor: int, min_insync_replicas: int, needed: int
) -> None:
    view = replace(small_cluster([9] * 3), fenced=np.array([False, True, False]))
    refused = refusal(view, under_replicated(1, replication_factor, min_insync_replicas))
    assert refused.reason is INVALID_REPLICATION_FACTOR
    for number in ("2 live", f"at least {needed} ", f"factor: {replication_factor} "):
        assert number in refused.message


def test_min_insync_replicas_is_capped_at_the_replication_factor() -> None:
    view = small_cluster([9, 9])
    assert place(view, under_replicated(2, 2, 5), JavaRandom(0)).min() >= 10
    assert place(view, under_replicated(1, 3, 2), JavaRandom(0))[0, 2] == -1


def test_too_few_live_brokers_are_reported_before_limits() -> None:
    full = small_cluster([0, 0], partition_count=9, partition_limit=9)
    assert refusal(full, under_replicated(5, 3, 3)).reason is INVALID_REPLICATION_FACTOR
    assert refusal(full, under_replicated(5, 20, 1)).reason is INVALID_REPLICATION_FACTOR
    assert refusal(full, under_replicated(5, 3, 2)).reason is POLICY_VIOLATION


def test_full_brokers_are_a_policy_violation_even_if_others_are_missing() -> None:
    refused = refusal(small_cluster([3, 0], limit=20), under_replicated(1, 3))
    assert refused.reason is POLICY_VIOLATION
    assert "max.broker.partitions=20" in refused.message


def test_without_a_live_broker_placeholders_are_refused() -> None:
    view = replace(small_cluster([9, 9]), fenced=np.array([True, True]))
    assert refusal(view, under_replicated(1, 3)).reason is INVALID_REPLICATION_FACTOR
    nobody = ClusterView(np.array([], dtype=np.int32), ())
    assert refusal(nobody, under_replicated(1, 3)).reason is INVALID_REPLICATION_FACTOR


def test_sixteen_placeholders_are_made_and_seventeen_are_not() -> None:
    view = small_cluster([9, 9])
    assert place(view, under_replicated(1, 18), JavaRandom(0))[0, 2:].tolist() == list(range(-1, -17, -1))
    refused = refusal(view, under_replicated(1, 19))
    assert refused.reason is INVALID_REPLICATION_FACTOR
    for number in ("17", "19", "2", str(MAX_PLACEHOLDERS)):
        assert number in refused.message


def test_a_huge_replication_factor_is_refused_before_allocation() -> None:
    assert refusal(small_cluster([9, 9]), under_replicated(1, 2**31)).reason is INVALID_REPLICATION_FACTOR


def test_striped_placement_uses_fenced_brokers_before_placeholders() -> None:
    """As in semantics.md: min ISR is compared with live brokers, placeholders with registered ones."""
    view = replace(small_cluster([9] * 3), fenced=np.array([False, True, False]))
    spec = replace(under_replicated(4, 5, 2), algorithm=Algorithm.STRIPED)
    placed = place(view, spec, JavaRandom(0))
    assert placed[:, 3:].tolist() == [[-1, -2]] * 4
    assert set(placed[:, 0].tolist()) == {10, 12}
    assert audit(view, placed, fenced_allowed=True) == []
    refused = refusal(view, replace(spec, min_insync_replicas=3))
    assert refused.reason is INVALID_REPLICATION_FACTOR
    assert "2 live" in refused.message
    # Where as many are registered as there are to be replicas, nothing stands in for anybody.
    enough = place(view, replace(spec, replication_factor=3, min_insync_replicas=3), JavaRandom(0))
    assert [sorted(row) for row in enough.tolist()] == [[10, 11, 12]] * 4


@st.composite
def gaps(draw: st.DrawFn) -> list[list[int]]:
    """Rows over brokers 10 to 14 that end in placeholders, some of which have been filled already."""
    chance = draw(seeded())
    width, full = chance.choice((1, 2, 3, 4, 4, 5)), chance.choice((0, 0.3))
    rows = []
    for _ in range(chance.randint(1, 9)):
        count = width if chance.random() < full else chance.randint(1, max(width - 1, 1))
        real = chance.sample(range(10, 15), count)
        first = chance.choice((1, 1, 2, 3))
        rows.append([*real, *range(-first, -first - width + len(real), -1)])
    return rows


def counts_of(rows: list[list[int]], elsewhere: int) -> list[int]:
    return [elsewhere + sum(row.count(broker_id) for row in rows) for broker_id in range(10, 15)]


class Filling(NamedTuple):
    """Rows with gaps, the broker that comes up, and how many replicas it has room for."""

    rows: list[list[int]]
    broker_id: int
    room: int


@st.composite
def fillings(draw: st.DrawFn) -> Filling:
    """The broker is in some of the rows already, and its room is often less than the rest asks for."""
    rows, chance = draw(gaps()), draw(seeded())
    return Filling(rows, chance.randint(10, 14), chance.choice((-1, 0, 1, 2, 3, 9)))


@given(fillings())
# Nobody waits, one row waits but has the broker, and the row with fewest replicas is not the first.
@example(Filling([[10, 11]], 12, 5))
@example(Filling([[12, -1]], 12, 5))
@example(Filling([[10, 11, -1], [10, -1, -2], [11, -2, -3]], 12, 2))
def test_placeholders_are_filled_as_by_a_loop_over_rows(filling: Filling) -> None:
    rows, broker_id, room = filling
    counts = np.array(counts_of(rows, elsewhere=3))
    limit = max(int(counts[broker_id - 10]) + room, 1)
    view = replace(small_cluster([0] * 5), replica_counts=counts, replica_limit=limit)
    before = np.array(rows, dtype=np.int32)
    filled = fill_placeholders(view, before, broker_id)
    assert filled.dtype == np.int32
    assert filled.tolist() == fill_one_by_one(rows, broker_id, room)
    assert before.tolist() == rows
    assert audit(view, filled, before) == []


@given(gaps(), st.permutations(range(10, 15)))
def test_returning_brokers_fill_all_placeholders_that_can_be_filled(rows: list[list[int]], order: list[int]) -> None:
    filled = np.array(rows, dtype=np.int32)
    for broker_id in order:
        view = replace(small_cluster([0] * 5, limit=100), replica_counts=np.array(counts_of(filled.tolist(), 0)))
        filled = fill_placeholders(view, filled, broker_id)
    assert (filled >= 0).all()


def test_kip_409_a_broker_that_joins_replaces_the_leftmost_placeholder_and_the_others_keep_their_numbers() -> None:
    view = small_cluster([9] * 5)
    rows = np.array([[10, -1, -2], [10, 11, -1]], dtype=np.int32)
    assert fill_placeholders(view, rows, 12).tolist() == [[10, 12, -2], [10, 11, 12]]
    assert fill_placeholders(view, np.array([[10, 12, -2]], dtype=np.int32), 11).tolist() == [[10, 12, 11]]


@pytest.mark.parametrize("broker_id", [12, 99, -1])
def test_only_a_live_broker_of_the_view_fills_placeholders(broker_id: int) -> None:
    """Registering leaves a broker fenced: it gets its replicas when it is unfenced."""
    view = replace(small_cluster([9] * 5), fenced=np.array([False, False, True, False, False]))
    with pytest.raises(ValueError, match=str(broker_id)):
        fill_placeholders(view, np.array([[10, -1]], dtype=np.int32), broker_id)
