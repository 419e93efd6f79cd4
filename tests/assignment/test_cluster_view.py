"""A ClusterView is always valid: its constructor refuses invalid arguments with their numbers."""

import dataclasses
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.assignment import MAX_BROKERS, NO_LIMIT, ClusterView, rack_alternated_order
from tests.assignment.strategies import clusters, seeded, small_cluster


@pytest.mark.parametrize(
    ("broker_ids", "racks", "numbers"),
    [
        ([1, 2, 1, 3, 3], (None,) * 5, "1, 3"),
        ([1, -7], (None,) * 2, "-7"),
        ([1, 2**31], (None,) * 2, "2147483648"),
        ([1, 2], ("a",), "2 brokers but 1 rack$"),
        ([[1, 2]], ("a",), "2 dimensions"),
        ([1.0, 2.0], (None,) * 2, "float64"),
        ([True, False], (None,) * 2, "bool"),
        (list(range(-50, 0)), (None,) * 50, "50 broker ids outside 0..2147483647: -50, -49, -48, -47, -46…"),
    ],
)
def test_an_invalid_view_is_refused_with_its_numbers(
    broker_ids: list[Any], racks: tuple[str | None, ...], numbers: str
) -> None:
    with pytest.raises(ValueError, match="^.*" + numbers.replace(".", r"\.")):
        ClusterView(np.array(broker_ids), racks)


def test_a_view_copies_its_arrays() -> None:
    given = np.array([5, 6], dtype=np.int32)
    view = ClusterView(given, (None, None))
    given[0] = 9
    assert view.broker_ids.tolist() == [5, 6]
    assert view.broker_ids.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        view.broker_ids[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        view.racks = ()  # type: ignore[misc]


def test_a_view_may_be_empty() -> None:
    assert len(ClusterView(np.array([], dtype=np.int32), ())) == 0


def test_racks_sort_as_java_strings() -> None:
    view = ClusterView(np.array([1, 2, 3]), ("\uff5e", "\U0001f600", "z"))
    order, rack_of = rack_alternated_order(view)
    assert view.broker_ids[order].tolist() == [3, 2, 1]
    assert rack_of.tolist() == [0, 1, 2]


def test_brokers_without_racks_have_no_rack_order() -> None:
    with pytest.raises(ValueError, match="1 of 2"):
        rack_alternated_order(ClusterView(np.array([1, 2]), ("a", None)))


@given(st.lists(st.integers(0, 60) | st.integers(0, 2**31 - 1), max_size=9, unique=True), st.data())
def test_index_of_finds_brokers_for_few_and_many_ids(ids: list[int], data: st.DataObject) -> None:
    view = ClusterView(np.array(ids, dtype=np.int32), (None,) * len(ids))
    anybody = st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 70)
    wanted = data.draw(st.lists(st.sampled_from(ids) | anybody if ids else anybody, max_size=80))
    found = view.index_of(np.array(wanted, dtype=np.int32).reshape(1, -1))
    assert found.tolist() == [[ids.index(broker_id) if broker_id in ids else -1 for broker_id in wanted]]


@given(clusters(), seeded())
def test_a_view_of_some_brokers_keeps_their_values_and_those_of_the_cluster(view: ClusterView, chance: Random) -> None:
    chosen = np.array([chance.random() < 0.5 for _ in view.racks])
    part = view.only(chosen)
    for column in ("broker_ids", "fenced", "replica_counts", "live", "room", "headroom"):
        assert getattr(part, column).tolist() == getattr(view, column)[chosen].tolist()
    assert part.racks == tuple(rack for rack, wanted in zip(view.racks, chosen.tolist(), strict=True) if wanted)
    for fact in ("replica_limit", "partition_count", "partition_limit"):
        assert getattr(part, fact) == getattr(view, fact)
    assert view.live_only().broker_ids.tolist() == view.broker_ids[~view.fenced].tolist()
    assert (view.live_only() is view) == (not view.fenced.any())


def test_a_full_broker_has_no_room_and_a_fenced_one_no_headroom() -> None:
    view = small_cluster([2, 0, -1, 2], fenced=np.array([False, False, False, True]))
    assert view.room.tolist() == [2, 0, 0, 2]
    assert view.headroom.tolist() == [2, 0, 0, 0]


@pytest.mark.parametrize("limit", [1, NO_LIMIT])
def test_limits_are_from_one_to_javas_largest_long(limit: int) -> None:
    ids, counts = np.array([0, 2**31 - 1], dtype=np.int32), np.array([0, NO_LIMIT])
    view = ClusterView(ids, (None, ""), replica_counts=counts, replica_limit=limit, partition_limit=limit)
    assert (view.replica_limit, view.partition_limit) == (limit, limit)
    assert view.room.tolist() == [limit, 0]


def test_a_view_may_have_max_brokers() -> None:
    assert len(ClusterView(np.arange(MAX_BROKERS, dtype=np.int32), (None,) * MAX_BROKERS)) == MAX_BROKERS == 100_000
    with pytest.raises(ValueError, match="100001 brokers"):
        ClusterView(np.arange(MAX_BROKERS + 1, dtype=np.int32), (None,) * (MAX_BROKERS + 1))
