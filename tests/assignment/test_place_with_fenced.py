"""Limits of KIP-578 in striped placement, in which rows may have fenced brokers: one is found whenever one exists.

A maximum flow, in which every row has at least one live broker, decides whether one exists (`oracles`).
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from klamm.assignment.audit import audit
from klamm.assignment.cluster_view import BoolArray, ClusterView
from klamm.assignment.errors import CannotPlace, CannotPlaceReason
from klamm.assignment.kafka.java_random import JavaRandom
from klamm.assignment.limited.fill_rows import fill_rows
from klamm.assignment.limited.live_leaders import with_live_leaders
from klamm.assignment.place import Algorithm, PlacementSpec, place
from tests.assignment.oracles import (
    Rack,
    least_squares_of_leaders,
    led_placement_exists,
    spread_of,
    squares_of_leaders,
    widest_and_evenest,
)
from tests.assignment.strategies import Seed, asked, seeded, seeds, small_cluster, tight, without_limits

ANY_SEED = Seed(1)


def room_of(view: ClusterView, chosen: BoolArray) -> list[int]:
    """Room below the limit of each chosen broker, in the order of the view."""
    return [max(view.replica_limit - count, 0) for count in view.replica_counts[chosen].tolist()]


@st.composite
def shared_with_fenced(draw: st.DrawFn) -> tuple[ClusterView, PlacementSpec]:
    """Live and fenced brokers with about as many places together as stripes ask for."""
    view, spec = draw(tight(least_slack=-2, algorithm=Algorithm.STRIPED, mixed=True))
    chance = draw(seeded())
    fenced = np.array([chance.random() < 0.4 for _ in view.racks])
    fenced[chance.randrange(len(view))] = False
    if chance.random() < 0.3:
        spec = replace(spec, replication_factor=chance.randint(1, min(len(view), 4)))
    return replace(view, fenced=fenced), spec


def with_stripes(places: list[int], fenced: list[bool], racks: str, partitions: int, replication_factor: int) -> Any:
    """A case for an example: brokers whose racks have names of one letter."""
    view = replace(small_cluster(places, list(racks)), fenced=np.array(fenced))
    return view, PlacementSpec(
        partitions=partitions, replication_factor=replication_factor, algorithm=Algorithm.STRIPED
    )


def must_leave_kafkas(view: ClusterView, spec: PlacementSpec, seed: Seed) -> bool:
    """Whether the stripes that Kafka would place break a limit."""
    return bool(audit(view, place(without_limits(view), spec, seed.rng()), fenced_allowed=True))


@given(asked(Algorithm.STRIPED, mixed=True) | shared_with_fenced(), seeds())
# Every row takes both live brokers and one of three fenced ones, which have six places for six rows, unevenly.
@example(with_stripes([9, 9, 3, 1, 2], [False, False, True, True, True], "aaaaa", 6, 3), ANY_SEED)
# The live brokers have room for three replicas of two rows: no whole column is live.
@example(with_stripes([2, 1, 1], [False, False, True], "abc", 2, 2), ANY_SEED)
# There is room for all replicas, but for one live broker too few; and the other way round.
@example(with_stripes([1, 2, 2], [False, True, True], "abc", 2, 2), ANY_SEED)
@example(with_stripes([2, 1, 0], [False, True, True], "abc", 2, 2), ANY_SEED)
def test_striped_placement_is_found_if_and_only_if_live_brokers_can_lead_all_rows(
    case: tuple[ClusterView, PlacementSpec], seed: Seed
) -> None:
    view, spec = case
    assume(spec.replication_factor <= len(view) and view.live.any())
    if view.partition_count + spec.partitions > view.partition_limit or not led_placement_exists(
        spec.partitions, spec.replication_factor, room_of(view, view.live), room_of(view, view.fenced)
    ):
        with pytest.raises(CannotPlace) as refused:
            place(view, spec, seed.rng())
        assert refused.value.reason is CannotPlaceReason.POLICY_VIOLATION
        return
    placed = place(view, spec, seed.rng())
    assert placed.shape == (spec.partitions, spec.replication_factor)
    assert audit(view, placed, fenced_allowed=True) == []
    assert not view.fenced[view.index_of(placed[:, 0])].any()


@given(shared_with_fenced(), seeds())
@example(with_stripes([2, 1, 1], [False, False, True], "abc", 2, 2), ANY_SEED)
def test_beyond_kafkas_placement_fenced_brokers_get_only_what_live_ones_cannot_hold(
    case: tuple[ClusterView, PlacementSpec], seed: Seed
) -> None:
    """Then live ones are full. Racks are as many as that allows, and leaders as even as the live ones of rows allow."""
    view, spec = case
    live, partitions, wanted = view.live, spec.partitions, spec.partitions * spec.replication_factor
    room, fenced_room = room_of(view, live), room_of(view, view.fenced)
    assume(live.any() and led_placement_exists(partitions, spec.replication_factor, room, fenced_room))
    assume(must_leave_kafkas(view, spec, seed))
    rows = view.index_of(place(view, spec, seed.rng()))
    taken = np.bincount(rows.ravel(), minlength=len(view))
    on_live = min(sum(min(space, partitions) for space in room), wanted)
    assert taken[live].sum() == on_live
    assert squares_of_leaders(rows.tolist()) == least_squares_of_leaders(
        [[broker for broker in row if live[broker]] for row in rows.tolist()]
    )
    racks = racks_to_stripes(view)
    if on_live == wanted:
        live_racks = [rack for rack, is_live in zip(racks, live.tolist(), strict=True) if is_live]
        best = widest_and_evenest(partitions, spec.replication_factor, room, [0] * len(room), live_racks)
        assert (spread_of(rows.tolist(), racks), int((taken**2).sum())) == best
    else:
        assert spread_of(rows.tolist(), racks) == widest_with_fenced(view, racks, partitions, wanted - on_live)


@pytest.mark.parametrize("spare", [0, 1])
def test_with_just_enough_room_on_live_brokers_the_number_of_fenced_ones_does_not_matter(spare: int) -> None:
    """Four rows on four live brokers: Kafka draws as often with one fenced broker in rack a as with two or three."""
    places, racks = [4, 2, 1, 1 + spare], "abab"
    for seed in range(20):
        placed = set()
        for fenced in (1, 2, 3):
            view, spec = with_stripes(places + [9] * fenced, [False] * 4 + [True] * fenced, racks + "a" * fenced, 4, 2)
            assert must_leave_kafkas(view, spec, Seed(seed))
            placed.add(place(view, spec, Seed(seed).rng()).tobytes())
        assert len(placed) == 1


def racks_to_stripes(view: ClusterView) -> list[Rack]:
    """The rack of each broker: no rack is one like any other, unless nobody has one; then every broker is one."""
    return list(range(len(view))) if set(view.racks) == {None} else list(view.racks)


def widest_with_fenced(view: ClusterView, racks: list[Rack], partitions: int, on_fenced: int) -> int:
    """Racks of all rows where live brokers are full, and fenced ones take so many replicas more."""
    capacity = np.minimum(room_of(view, view.live | view.fenced), partitions)
    met = unmet = 0
    for rack in set(racks):
        of_rack = np.array([rack == other for other in racks])
        met += (by_live := min(int(capacity[of_rack & view.live].sum()), partitions))
        unmet += min(int(capacity[of_rack & view.fenced].sum()), partitions - by_live)
    return met + min(unmet, on_fenced)


@given(st.data(), st.integers(1, 12), st.integers(1, 4), st.integers(0, 2**32))
def test_rows_get_a_live_broker_without_losing_a_rack(
    data: st.DataObject, partitions: int, width: int, seed: int
) -> None:
    quotas = data.draw(st.lists(st.integers(0, partitions), min_size=width, max_size=8))
    short = partitions * width - sum(quotas)
    for broker, quota in enumerate(quotas):
        change = min(max(short, -quota), partitions - quota)
        quotas[broker] += change
        short -= change
    live = np.array([data.draw(st.booleans()) for _ in quotas])
    assume(np.array(quotas)[live].sum() >= partitions)
    rack_of = np.array([data.draw(st.integers(0, 4)) for _ in quotas])
    before = fill_rows(np.array(quotas), rack_of, partitions, JavaRandom(seed))
    after = with_live_leaders(before, live, rack_of)
    assert np.bincount(after.ravel(), minlength=len(quotas)).tolist() == quotas
    assert all(len(set(row)) == width for row in after.tolist())
    assert live[after[:, 0]].all()
    racks: list[Rack] = rack_of.tolist()
    assert spread_of(after.tolist(), racks) == spread_of(before.tolist(), racks)


@pytest.mark.parametrize(
    ("rows", "racks"),
    [
        pytest.param([[0, 1], [2, 3]], "abcd", id="the only row without one gets one"),
        pytest.param([[2, 3], [0, 1]], "abcd", id="the first row gets one of the last"),
        pytest.param([[0, 4], [3, 5], [1, 2]], "abcdef", id="not from a row that has no more than one"),
        pytest.param([[0, 1], [3, 2]], "abab", id="for one of its own rack, which is not the first"),
        pytest.param([[0, 1, 2], [2, 3, 4]], "cdaab", id="not for one that the other row has already"),
        pytest.param([[0, 1, 2], [3, 4, 5], [3, 4, 5]], "abcdef", id="two get one, in the end of the same row"),
    ],
)
def test_with_one_live_replica_per_row_each_row_gets_one(rows: list[list[int]], racks: str) -> None:
    live = np.arange(len(racks)) < len(rows)
    after = with_live_leaders(np.array(rows), live, np.array([ord(rack) for rack in racks])).tolist()
    assert all(live[row[0]] and len(set(row)) == len(row) for row in after)
    assert sorted(np.ravel(after).tolist()) == sorted(np.ravel(rows).tolist())
    assert spread_of(after, list(racks)) == spread_of(rows, list(racks))


def test_fewer_live_replicas_than_rows_are_refused_with_the_numbers() -> None:
    rows = np.array([[0, 1], [1, 2], [1, 2]])
    with pytest.raises(ValueError, match="1 live replica in 3 rows"):
        with_live_leaders(rows, np.array([True, False, False]), np.arange(3))
