"""Rows made from quotas use up each quota exactly, have no broker twice, and have as many racks as quotas allow."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.assignment import JavaRandom
from klamm.assignment.limited.fill_rows import fill_rows


@st.composite
def quotas(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """Quotas that add up to whole rows, a rack for each broker, and how many rows."""
    rows = draw(st.integers(1, 12))
    drawn = draw(st.lists(st.integers(0, rows), min_size=1, max_size=12))
    while sum(drawn) % rows or not sum(drawn):
        drawn = [*drawn, min(rows, rows - sum(drawn) % rows)]
    rack_of = draw(st.lists(st.integers(0, 4), min_size=len(drawn), max_size=len(drawn)))
    return drawn, rack_of, rows


@given(quotas(), st.integers(0, 99))
@example(([1], [0], 1), 0)
@example(([2, 2, 2], [0, 0, 0], 2), 0)  # one rack, which meets every row three times
def test_rows_use_up_the_quotas_with_as_many_racks_as_they_allow(
    case: tuple[list[int], list[int], int], seed: int
) -> None:
    wanted, rack_of, rows = case
    placed = fill_rows(np.array(wanted), np.array(rack_of), rows, JavaRandom(seed))
    assert placed.shape == (rows, sum(wanted) // rows)
    assert np.bincount(placed.ravel(), minlength=len(wanted)).tolist() == wanted
    assert all(len(set(row)) == len(row) for row in placed.tolist())
    racks = sum(len({rack_of[broker] for broker in row}) for row in placed.tolist())
    in_rack = np.bincount(rack_of, weights=wanted)
    assert racks == np.minimum(in_rack, rows).sum()


@given(quotas(), st.integers(0, 99))
def test_brokers_lead_their_share_of_the_rows(case: tuple[list[int], list[int], int], seed: int) -> None:
    wanted, rack_of, rows = case
    placed = fill_rows(np.array(wanted), np.array(rack_of), rows, JavaRandom(seed))
    led = np.bincount(placed[:, 0], minlength=len(wanted))
    assert (np.abs(led - np.array(wanted) / placed.shape[1]) <= 2).all()


def test_brokers_share_rows_with_many_others() -> None:
    """Rows are mixed: with 30 brokers in 3 racks nearly each pair across racks shares a row."""
    rows, brokers = 3_000, 30
    placed = fill_rows(np.full(brokers, 3 * rows // brokers), np.arange(brokers) % 3, rows, JavaRandom(5))
    pairs = {frozenset((row[0], other)) for row in placed.tolist() for other in row[1:]}
    assert len(pairs) == 300  # 10 × 10 pairs for each two racks
