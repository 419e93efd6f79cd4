"""Rebalancing keeps limits, gives the most racks and the most even loads that are possible, and needs few moves.

A flow of minimum cost finds the best result; it is compared with exhaustive search. Steps that can replace each other
are also tested separately, because together they would hide each other's faults.
"""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from klamm.assignment.audit import audit
from klamm.assignment.cluster_view import ClusterView, Int32Array
from klamm.assignment.errors import CannotPlace, CannotPlaceReason
from klamm.assignment.kafka.java_random import JavaRandom
from klamm.assignment.kafka.round_robin import place_round_robin
from klamm.assignment.limited.exchange import move_along_chains, move_through_others, repair_racks, return_to_origin
from klamm.assignment.limited.moves import Cells, vacate_repeated_racks
from klamm.assignment.rebalance import rebalance
from klamm.assignment.wording import counted
from tests.assignment.oracles import least_squares_of_leaders, spread_of, squares_of_leaders
from tests.assignment.rebalancing import (
    STRANGER,
    Situation,
    anything,
    best_by_flow,
    best_by_trying,
    least_above_limits,
    most_placed,
    rackless,
    situations,
    unlimited_or_just_so,
)
from tests.assignment.strategies import Seed, seeds

ANY_SEED = Seed(1)
# A broker whose only row has the one that lacks: x gives d a replica in the other row, and takes that of s.
CHAIN = Situation(rows=((0, 1), (2, 3)), racks=(None,) * 4, held=(2, 0, 1, 1))
# What leaves the brokers that have too many is what racks want, too.
BOTH = Situation(rows=((0, 1), (0, 1)), racks=("a", "a", "b", "b"), held=(0,) * 4)
# There is room for six replicas, but not for four brokers in the second row: broker 0 must keep one of its two.
UNEVEN = Situation(rows=((0, 1, -1, -2), (0, 3, 1, 2)), racks=("a", "a", "b", "b"), held=(4, 0, 0, 0), limit=4)
# There is room for four replicas, but in the first row only for two; broker 0, over its limit, may not come to help.
STUCK = Situation(rows=((STRANGER, 1, 2), (0, -1, -2)), racks=(None,) * 4, held=(4, 0, 0, 4), limit=4)
# No quotas of 3 and 2 can be met: the first row needs the broker that holds most.
WIDE_ROW = Situation(rows=((0, 1, 2), (0, -1, -2), (0, -1, -2)), racks=(None,) * 3, held=(0, 0, 9))
# The last step, exchanges between rows, is what finds the sixth rack.
LAST_RACK = Situation(((3, 4, 2, 1), (3, -1, -2, -3), (2, 3, -1, -2), (3, -1, -2, -3)), (*"bbbcb",), (0, 1, 1, 1, 3), 3)
# A broker over its limit that gives up a replica may have to take it back.
TAKEN_BACK = Situation(rows=((2, 0, 3), (1, 3, -1)), racks=(*"bbaa",), held=(1, 4, 4, 1), limit=3)
# Brokers over their limit are in other racks than those that have room.
OVERFULL = Situation(rows=((1, 3), (3, 1), (2, 0)), racks=(*"abaca",), held=(0, 0, 0, 3, 3), limit=1)
# Another placement is as good, but no better.
AS_GOOD = Situation(rows=((2, 4, -1, -2), (2, 1, 4, 3)), racks=(*"abbab",), held=(1, 0, 0, 0, 0), limit=4)


@given(unlimited_or_just_so | rackless, seeds())
@example(CHAIN, ANY_SEED)
@example(BOTH, ANY_SEED)
@example(WIDE_ROW, ANY_SEED)
@example(LAST_RACK, ANY_SEED)
def test_rebalancing_is_optimal_and_the_lower_bound_on_moves_holds(case: Situation, seed: Seed) -> None:
    result = case.rebalanced(seed)
    spread, squares, fewest = best_by_flow(case)
    assert case.after(result).quality() == (spread, squares)
    assert result.fewest_moves <= fewest <= result.moves
    assert fewest or not result.moves


@given(situations(tight=True, most=3))
def test_the_flow_oracle_agrees_with_exhaustive_search(case: Situation) -> None:
    assert best_by_flow(case) == best_by_trying(case)


@pytest.mark.parametrize(("partitions", "size", "cases"), [(13, 6, 60), (60, 12, 12)])
def test_moves_are_close_to_the_lower_bound(partitions: int, size: int, cases: int) -> None:
    moves = fewest = bound = 0
    for number in range(cases):
        chance = np.random.Generator(np.random.PCG64(number))
        draws = chance.random((partitions, size)) ** (1 / (0.05 + chance.random(size) ** (number % 5)))
        rows = np.argsort(-draws, axis=1, kind="stable")[:, : 1 + number % 3].tolist()
        kinds = 5 if number % 4 == 3 else 2
        racks = tuple("abcde"[broker * kinds // size] for broker in range(size)) if number % 2 else (None,) * size
        case = Situation(tuple(map(tuple, rows)), racks, (0,) * size)
        result = case.rebalanced()
        moves, fewest, bound = moves + result.moves, fewest + best_by_flow(case)[2], bound + result.fewest_moves
    assert moves <= 1.01 * fewest
    assert bound >= 0.986 * fewest


@given(anything, seeds())
@example(UNEVEN, ANY_SEED)
@example(TAKEN_BACK, ANY_SEED)
def test_limits_are_met_and_replicas_placed_whenever_that_is_possible(case: Situation, seed: Seed) -> None:
    assume(max(map(len, case.real)) <= len(case.usable))
    outcome, least = case.outcome(seed), least_above_limits(case)
    if isinstance(outcome, CannotPlace):
        assert outcome.reason is CannotPlaceReason.POLICY_VIOLATION
        assert f"{counted(case.replicas, 'replica')} of {counted(len(case.rows), 'partition')}, " in outcome.message
        assert f"max.broker.partitions={case.limit}" in outcome.message
        assert least is None
    else:
        assert least is None or case.after(outcome).above_limit <= least
        assert most_placed(case, case.keeping, over_may_gain=True) == case.replicas


@given(unlimited_or_just_so | anything, seeds(), seeds())
@example(STUCK, ANY_SEED, ANY_SEED)
@example(OVERFULL, ANY_SEED, ANY_SEED)
@example(AS_GOOD, ANY_SEED, ANY_SEED)
def test_results_pass_the_audit_stay_as_they_are_and_are_reported(case: Situation, seed: Seed, other: Seed) -> None:
    once = case.outcome(seed)
    if isinstance(once, CannotPlace):
        assert str(case.outcome(other)) == str(once)
        return
    after = case.after(once)
    assert once.placement.dtype == np.int32
    assert audit(case.view(), once.placement, case.placement) == []
    assert {broker for row in after.real for broker in row} <= set(case.usable)
    assert [[min(b, 0) for b in row] for row in after.rows] == [[min(b, 0) for b in row] for row in case.rows]
    assert once.placement.tolist() == case.rebalanced(seed).placement.tolist()
    assert squares_of_leaders(after.real) == least_squares_of_leaders(after.real)
    pairs = list(zip(after.rows, case.rows, strict=True))
    assert once.moves == sum(len(set(row) - set(before)) for row, before in pairs)
    assert once.leaders_moved == sum(row[0] != before[0] for row, before in pairs)
    kept = [[broker for broker in row if broker in case.usable] for row in case.real]
    assert (once.racks_before, once.racks_after) == (spread_of(kept, case.rack_of), after.quality()[0])
    again = after.rebalanced(other)
    assert again.placement.tolist() == once.placement.tolist()
    assert (again.moves, again.fewest_moves, again.leaders_moved) == (0, 0, 0)


@st.composite
def cells_with_gaps(draw: st.DrawFn, *, whole: bool = True) -> Cells:
    """Rows with vacant cells, and the quotas of other rows; unless `whole`, placeholders and closed brokers."""
    size, count = draw(st.integers(2, 6)), draw(st.integers(1, 7))
    width, chance = draw(st.integers(1, size)), Random(draw(st.integers(0, 2**32)))
    rows, others = (np.array([chance.sample(range(size), width) for _ in range(count)]) for _ in range(2))
    if not whole:
        rows[:, -1] = np.where([chance.random() < 0.3 for _ in rows], size + 1, rows[:, -1])
    rack_of = np.unique([chance.randrange(4) for _ in range(size)], return_inverse=True)[1]
    closed = np.array([not whole and chance.random() < 0.3 for _ in range(size)])
    cells = Cells(rows, rack_of, np.bincount(others.ravel(), minlength=size), closed)
    gone = np.array([cell for cell in np.flatnonzero(rows < size).tolist() if chance.random() < 0.3], dtype=np.int64)
    cells.put(gone, np.full(len(gone), cells.vacant))
    return cells


def is_valid(cells: Cells) -> bool:
    real = [[broker for broker in row if broker < cells.vacant] for row in cells.now.tolist()]
    counts = np.bincount(cells.now.ravel(), minlength=cells.vacant + 2)[: cells.vacant]
    return all(len(set(row)) == len(row) for row in real) and counts.tolist() == cells.counts.tolist()


@given(cells_with_gaps() | cells_with_gaps(whole=False), st.booleans())
def test_takers_of_agrees_with_a_test_of_each_pair(cells: Cells, fitting: bool) -> None:
    for giver in range(cells.vacant + 1):
        cell = np.flatnonzero(cells.now == giver)
        allowed = cells.fits if fitting else cells.admits
        tried = np.array([allowed(cell, np.full(len(cell), taker)).any() for taker in range(cells.vacant)])
        counted = cells.takers_of(cell, fitting=fitting)
        assert (tried <= counted if fitting and cells.closed.any() else tried == counted).all()


def cells_of(rows: Sequence[Sequence[int]], racks: Sequence[int], quotas: Sequence[int], closed: int = -1) -> Cells:
    return Cells(np.array(rows), np.array(racks), np.array(quotas), np.arange(len(quotas)) == closed)


@given(cells_with_gaps())
@example(cells_of([[0, 1, 2], [3, 4, 5], [3, 4, 5]], racks=[0, 0, 0, 1, 2, 3], quotas=[1, 1, 1, 2, 2, 2]))
def test_chains_meet_any_quotas_and_exchanges_reach_the_most_racks(cells: Cells) -> None:
    move_along_chains(cells, fitting=False)
    repair_racks(cells)
    in_rack = np.bincount(cells.rack_of[:-2], weights=cells.quotas)
    assert spread_of(cells.now.tolist(), cells.rack_of.tolist()) == np.minimum(in_rack, len(cells.now)).sum()
    assert not cells.missing.any()
    assert is_valid(cells)


@given(cells_with_gaps(), st.integers(0, 2**32))
def test_moves_by_way_of_others_leave_rows_valid(cells: Cells, seed: int) -> None:
    move_through_others(cells, JavaRandom(seed))
    assert is_valid(cells)


def test_a_replica_without_a_better_place_returns_to_its_row() -> None:
    cells = cells_of([[0, 1], [1, 2]], racks=[0, 1, 2], quotas=[1, 1, 2])
    cells.put(np.array([0, 2]), np.array([3, 3]))
    return_to_origin(cells)
    assert cells.now.tolist() == [[0, 1], [3, 2]]


def test_a_chain_takes_the_cell_that_was_given_last() -> None:
    cells = cells_of([[1], [0]], racks=[0, 1, 2], quotas=[0, 1, 1])
    cells.put(np.array([1]), np.array([1]))
    move_along_chains(cells, fitting=True)
    assert cells.now.tolist() == [[1], [2]]


def test_only_racks_with_more_replicas_than_rows_may_be_repeated() -> None:
    cells = cells_of([[0, 1, 3], [0, 2, 3]], racks=[0, 0, 0, 1, 2], quotas=[2, 1, 0, 2, 1])
    assert (cells.may_repeat[:3].tolist(), cells.everywhere.tolist()) == ([True, False, False], [0, 1])
    # Rack 1 must stay in the row: nobody else can take the place of 3. Rack 0 may be there twice.
    assert cells.takers_of(np.array([2]), fitting=True).tolist() == [False] * 5
    assert cells.takers_of(np.array([1]), fitting=True).tolist() == [False, False, True, False, True]


def test_closed_brokers_leave_a_repeated_rack_only_if_they_have_too_many() -> None:
    for quota, left in ((1, [[4, 0], [2, 4]]), (0, [[1, 4], [2, 4]])):
        cells = cells_of([[1, 0], [2, 3]], racks=[0, 0, 1, 1], quotas=[quota, 2 - quota, 1, 1], closed=0)
        vacate_repeated_racks(cells)
        assert cells.now.tolist() == left


def cluster(brokers: int, racks: int, placement: Int32Array) -> ClusterView:
    names = tuple(f"rack-{broker % racks}" if racks else None for broker in range(brokers))
    counts = np.bincount(placement.ravel(), minlength=brokers)
    return ClusterView(np.arange(brokers, dtype=np.int32), names, replica_counts=counts)


@pytest.mark.parametrize("racks", [0, 3, 10])
@pytest.mark.parametrize(
    ("before", "after"),
    [(90, range(90)), (90, range(120)), (120, range(90)), (60, range(60, 120)), (120, range(0, 120, 2))],
)
def test_adding_and_draining_a_broker_take_the_fewest_moves(racks: int, before: int, after: Sequence[int]) -> None:
    empty = cluster(before, racks, np.empty(0, dtype=np.int32))
    placement = place_round_robin(empty, 9000, 3, start_index=5, shift=3)
    view = cluster(max(before, max(after) + 1), racks, placement)
    result = rebalance(view, placement, JavaRandom(1), after)
    assert audit(view, result.placement, placement) == []
    assert result.racks_after == 27000
    for replicas in (result.placement, result.placement[:, 0]):
        assert int(np.ptp(np.bincount(replicas.ravel(), minlength=len(view))[list(after)])) <= 1
    assert result.moves == result.fewest_moves
    assert (result.placement.tolist() == placement.tolist()) == (after == range(before)) == (result.moves == 0)


def test_too_few_brokers_for_a_row_are_refused_with_the_numbers() -> None:
    case = Situation(rows=((0, 1, 2),), racks=(None,) * 4, held=(0,) * 4, fenced=1, chosen=(0, 1, 3))
    refusal = case.outcome(ANY_SEED)
    assert isinstance(refusal, CannotPlace)
    assert refusal.reason is CannotPlaceReason.INVALID_REPLICATION_FACTOR
    assert "rows of 3 replicas, but only 2 of 4 brokers" in refusal.message


def test_broker_id_0_is_valid() -> None:
    view = ClusterView(np.arange(3, dtype=np.int32), (None,) * 3, np.zeros(3, dtype=np.bool_), np.ones(3, dtype=int))
    with pytest.raises(CannotPlace) as refused:
        rebalance(view, np.array([[0, 1, 2]], dtype=np.int32), JavaRandom(1), [1, 2])
    assert refused.value.reason is CannotPlaceReason.INVALID_REPLICATION_FACTOR
    assert "rows of 3 replicas, but only 2 of 3 brokers" in refused.value.message
    result = rebalance(view, np.array([[1, 2], [0, -1]], dtype=np.int32), JavaRandom(1))
    assert (result.placement.tolist(), result.moves) == ([[1, 2], [0, -1]], 0)


def test_an_empty_placement_is_unchanged() -> None:
    result = rebalance(CHAIN.view(), np.empty((0, 3), dtype=np.int32), JavaRandom(1))
    assert (result.placement.shape, result.moves, result.fewest_moves, result.leaders_moved) == ((0, 3), 0, 0, 0)


@pytest.mark.parametrize(
    ("placement", "brokers", "message"),
    [
        ([10, 11], None, r"not int32 of shape \(2,\)"),
        ([[], []], None, r"not shape \(2, 0\)"),
        ([[10, 11], [12, 12]], None, "1 row with a broker twice, first row 1"),
        ([[10, -1, 11]], None, "1 row with a placeholder before a broker: 0"),
        ([[10, 11], [12, -1], [-1, 10], [-1, 11]], None, "2 rows with a placeholder before a broker: 2, 3"),
        ([[10, 11], [10, 12], [10, 11]], None, "1 broker with fewer replicas .*: 11"),
        ([[10, 11]], [], r"one broker id or more, not .* of shape \(0,\)"),
        ([[10, 11]], [10, 99, 98], "not in the cluster: 2 of 3 chosen brokers, 99, 98"),
        ([[10, 11]], [10, 11, 10], "given more than once: 1 of 3 chosen brokers"),
    ],
)
def test_bad_input_is_a_value_error(placement: list[object], brokers: list[int] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rebalance(CHAIN.view(), np.array(placement, dtype=np.int32), JavaRandom(1), brokers)
