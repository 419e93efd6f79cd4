"""Quotas compared with all possible quotas: they allow the most racks, and of those are the most even."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from klamm.assignment.limited.quotas import rack_numbers, widest_quotas
from klamm.assignment.ranks import rank_within, stable_order


def all_quotas(capacity: list[int], total: int) -> Iterator[list[int]]:
    """Every way to hand out `total` replicas."""
    if not capacity:
        if total == 0:
            yield []
        return
    for first in range(min(capacity[0], total) + 1):
        for rest in all_quotas(capacity[1:], total - first):
            yield [first, *rest]


def spread(quotas: list[int], rack_of: list[int], rows: int) -> int:
    return sum(
        min(rows, sum(quota for quota, of in zip(quotas, rack_of, strict=True) if of == rack)) for rack in set(rack_of)
    )


def unevenness(quotas: list[int], held: list[int]) -> int:
    return sum((quota + before) ** 2 for quota, before in zip(quotas, held, strict=True))


@given(st.data())
def test_quotas_allow_the_most_racks_and_are_then_the_most_even(data: st.DataObject) -> None:
    brokers = data.draw(st.integers(1, 5))
    rows = data.draw(st.integers(1, 4))
    per_broker = st.lists(st.integers(0, rows), min_size=brokers, max_size=brokers)
    capacity, held = data.draw(per_broker), data.draw(per_broker)
    rack_of = data.draw(st.lists(st.integers(0, 2), min_size=brokers, max_size=brokers))
    favoured = data.draw(st.permutations(range(brokers)))
    replication_factor = data.draw(st.integers(1, brokers))
    least = [data.draw(st.just(0) | st.integers(0, room)) for room in capacity]
    assume(sum(capacity) >= rows * replication_factor >= sum(least))
    quotas = widest_quotas(
        np.array(capacity),
        np.array(held),
        np.array(rack_of),
        rows,
        replication_factor,
        np.array(favoured),
        np.array(least) if any(least) else None,
    ).tolist()
    assert sum(quotas) == rows * replication_factor
    assert all(low <= quota <= room for low, quota, room in zip(least, quotas, capacity, strict=True))
    best = max(
        (spread(other, rack_of, rows), -unevenness(other, held))
        for other in all_quotas(capacity, rows * replication_factor)
        if all(low <= quota for low, quota in zip(least, other, strict=True))
    )
    assert (spread(quotas, rack_of, rows), -unevenness(quotas, held)) == best


def test_the_first_favoured_broker_gets_the_odd_replica() -> None:
    for favoured in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        quotas = widest_quotas(np.full(3, 9), np.zeros(3, dtype=np.int64), np.arange(3), 10, 1, np.array(favoured))
        assert quotas[favoured[0]] == 4
        assert sorted(quotas.tolist()) == [3, 3, 4]


def test_least_quotas_count_for_the_racks_of_rows() -> None:
    zeros, least = np.zeros(3, dtype=np.int64), np.array([2, 0, 0])
    quotas = widest_quotas(np.full(3, 2), zeros, np.array([0, 0, 1]), 2, 2, np.arange(3), least)
    assert quotas.tolist() == [2, 0, 2]


def test_limits_near_javas_largest_long_do_not_overflow() -> None:
    held = np.array([2**63 - 3, 5, 2**63 - 1])
    quotas = widest_quotas(np.array([2, 10, 0]), held, np.array([0, 1, 2]), 10, 1, np.arange(3))
    assert quotas.tolist() == [0, 10, 0]


def test_quotas_beyond_the_capacity_are_refused_with_the_numbers() -> None:
    zeros = np.zeros(2, dtype=np.int64)
    with pytest.raises(ValueError, match="no room for 8 replicas in 7 places, at most 4 on a broker"):
        widest_quotas(np.array([3, 4]), zeros, zeros, 4, 2, np.arange(2))
    with pytest.raises(ValueError, match="at most 2 on a broker"):
        widest_quotas(np.array([3, 4]), zeros, zeros, 2, 2, np.arange(2))


def test_brokers_without_racks_are_racks_of_their_own() -> None:
    assert rack_numbers(["b", "a", "b"]).tolist() == [1, 0, 1]
    assert rack_numbers([None, None]).tolist() == [0, 1]
    assert rack_numbers(["b", None, "b"]).tolist() == [0, 1, 2]
    assert rack_numbers([]).tolist() == []


@given(st.lists(st.integers(0, 5) | st.integers(65_530, 65_540), max_size=30))
@example([65_535, 0, 65_536, 0])  # one more than 16 bits hold
def test_rank_within_counts_earlier_elements_of_the_same_group(groups: list[int]) -> None:
    array = np.array(groups, dtype=np.int64)
    assert rank_within(array).tolist() == [groups[:at].count(group) for at, group in enumerate(groups)]
    assert stable_order(array).tolist() == np.argsort(array, kind="stable").tolist()
