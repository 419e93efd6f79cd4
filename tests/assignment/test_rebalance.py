"""Rebalancing: never beyond the limits, as many racks and as even as any placement can be, and hardly a move too many.

What can be is asked of a flow of least cost over the placement's own rows, and that of exhaustive search.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from assignment.audit import audit
from assignment.cluster_view import NO_LIMIT, ClusterView, Int32Array
from assignment.errors import CannotPlace, CannotPlaceReason
from assignment.kafka.java_random import JavaRandom
from assignment.kafka.round_robin import place_round_robin
from assignment.rebalance import Rebalanced, rebalance
from tests.assignment.oracles import Rack, least_squares_of_leaders, spread_of, squares_of_leaders
from tests.assignment.strategies import Seed, seeds

POLICY_VIOLATION = CannotPlaceReason.POLICY_VIOLATION
INVALID_REPLICATION_FACTOR = CannotPlaceReason.INVALID_REPLICATION_FACTOR
STRANGER = 900
ANY_SEED = Seed(1)
FIRST_ID = 10
RACKS: tuple[tuple[str | None, ...], ...] = ((None,), ("a",), ("a", "b"), ("a", "b", "c"), ("a", "b", None))


@dataclass(frozen=True)
class Situation:
    """Rows of brokers 0 to n - 1, or of others, or placeholders; broker b has the id 10 + b."""

    rows: tuple[tuple[int, ...], ...]
    racks: tuple[str | None, ...]
    held: tuple[int, ...]
    limit: int = NO_LIMIT
    fenced: tuple[bool, ...] = ()
    chosen: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        return len(self.racks)

    @property
    def usable(self) -> list[int]:
        chosen = range(self.size) if self.chosen is None else self.chosen
        return [broker for broker in chosen if not (self.fenced and self.fenced[broker])]

    @property
    def real(self) -> list[list[int]]:
        return [[broker for broker in row if broker >= 0] for row in self.rows]

    @property
    def replicas(self) -> int:
        return sum(map(len, self.real))

    @property
    def rack_of(self) -> list[Rack]:
        """Racks as rebalancing sees them: of the brokers in use all have one, or everybody is one."""
        ignored = any(self.racks[broker] is None for broker in self.usable)
        return list(range(self.size)) if ignored else list(self.racks)

    @property
    def room(self) -> list[int]:
        return [min(max(self.limit - held, 0), len(self.rows)) for held in self.held]

    @property
    def own(self) -> list[int]:
        return [sum(broker in row for row in self.rows) for broker in range(self.size)]

    @property
    def placement(self) -> Int32Array:
        return np.array([[b if b < 0 else b + FIRST_ID for b in row] for row in self.rows], dtype=np.int32)

    @property
    def brokers(self) -> list[int] | None:
        return None if self.chosen is None else [broker + FIRST_ID for broker in self.chosen]

    def view(self) -> ClusterView:
        return ClusterView(
            broker_ids=np.arange(FIRST_ID, FIRST_ID + self.size, dtype=np.int32),
            racks=self.racks,
            fenced=np.array(self.fenced or [False] * self.size, dtype=np.bool_),
            replica_counts=np.array(self.held) + np.array(self.own),
            replica_limit=self.limit,
        )

    def after(self, placement: Int32Array) -> "Situation":
        """The same with another placement."""
        rows = [[b if b < 0 else b - FIRST_ID for b in row] for row in placement.tolist()]
        return replace(self, rows=tuple(map(tuple, rows)))

    def rebalanced(self, seed: Seed = ANY_SEED) -> Rebalanced:
        return rebalance(self.view(), self.placement, seed.rng(), self.brokers)

    def loads(self) -> list[int]:
        return [self.held[broker] + self.own[broker] for broker in self.usable]

    def quality(self) -> tuple[int, int]:
        """Distinct racks of all rows, and the sum of squares of the loads."""
        return spread_of(self.real, self.rack_of), sum(load**2 for load in self.loads())


def best_by_flow(case: Situation) -> tuple[int, int, int]:
    """Most racks, then least Σ loads², then fewest moves: a flow of least cost from rows through their racks."""
    dearer = case.replicas + 1
    dearest = dearer * (1 + sum((case.held[broker] + len(case.rows)) ** 2 for broker in case.usable))
    network = nx.MultiDiGraph()
    network.add_node("source", demand=-case.replicas)
    network.add_node("sink", demand=case.replicas)
    for broker in case.usable:
        for load in range(case.held[broker], case.held[broker] + case.room[broker]):
            network.add_edge(("broker", broker), "sink", capacity=1, weight=dearer * (2 * load + 1))
    for row, members in enumerate(case.real):
        network.add_edge("source", ("row", row), capacity=len(members), weight=0)
        for rack in {case.rack_of[broker] for broker in case.usable}:
            network.add_edge(("row", row), ("rack", row, rack), capacity=1, weight=-dearest)
            network.add_edge(("row", row), ("rack", row, rack), capacity=len(members), weight=0)
        for broker in case.usable:
            moved = 0 if broker in members else 1
            network.add_edge(("rack", row, case.rack_of[broker]), ("broker", broker), capacity=1, weight=moved)
    cost, _ = nx.network_simplex(network)
    spread = -(cost // dearest)
    rest = cost + spread * dearest
    return int(spread), int(rest // dearer) + sum(case.held[broker] ** 2 for broker in case.usable), int(rest % dearer)


def best_by_trying(case: Situation) -> tuple[int, int, int]:
    """The same, by looking at every placement there is."""
    found = []
    for rows in product(*(combinations(case.usable, len(members)) for members in case.real)):
        other = replace(case, rows=rows)
        if all(other.own[broker] <= case.room[broker] for broker in case.usable):
            moves = sum(len(set(row) - set(members)) for row, members in zip(rows, case.real, strict=True))
            spread, squares = other.quality()
            found.append((-spread, squares, moves))
    spread, squares, moves = min(found)
    return -spread, squares, moves


def outcome_of(case: Situation, seed: Seed) -> Rebalanced | CannotPlace:
    try:
        return case.rebalanced(seed)
    except CannotPlace as refusal:
        return refusal


def most_placed(case: Situation, most: Sequence[int], *, may_gain: Sequence[bool]) -> int:
    """Maximum flow: replicas that find a broker, none with more than `most`; who may not gain is in its own rows."""
    network = nx.DiGraph()
    network.add_nodes_from(("source", "sink"))
    for broker in case.usable:
        network.add_edge(("broker", broker), "sink", capacity=most[broker])
    for row, members in enumerate(case.real):
        network.add_edge("source", ("row", row), capacity=len(members))
        for broker in case.usable:
            if may_gain[broker] or broker in members:
                network.add_edge(("row", row), ("broker", broker), capacity=1)
    return int(nx.maximum_flow_value(network, "source", "sink"))


def fits_within_limits(case: Situation) -> bool:
    return most_placed(case, case.room, may_gain=[True] * case.size) == case.replicas


def least_excess(case: Situation) -> int | None:
    """Replicas above limits if nobody who is over its limit gains any; None where replicas have nowhere to go."""
    may_gain = [own <= room for own, room in zip(case.own, case.room, strict=True)]
    within = most_placed(case, case.room, may_gain=may_gain)
    keeping = [max(pair) for pair in zip(case.own, case.room, strict=True)]
    # Every augmenting path adds one and takes none away: what fits within the limits is part of a flow of all.
    return case.replicas - within if most_placed(case, keeping, may_gain=may_gain) == case.replicas else None


@st.composite
def situations(
    draw: st.DrawFn, *, limits: str = "none", ragged: bool = False, most_brokers: int = 6, most_rows: int = 8
) -> Situation:
    """Placements by chance, lopsided; limits are none, `enough` for all replicas (mostly just so), or `any`."""
    size = draw(st.integers(1, most_brokers))
    width = draw(st.integers(1, min(size, 4)))
    liked = draw(st.lists(st.integers(1, 9), min_size=size, max_size=size))
    rows: list[tuple[int, ...]] = []
    for chance in draw(st.lists(st.randoms(use_true_random=False), min_size=1, max_size=most_rows)):
        row = sorted(range(size), key=lambda broker: chance.random() ** (1 / liked[broker]), reverse=True)[:width]
        if draw(st.integers(0, 9)) == 0:
            row[-1] = STRANGER
        placeholders = draw(st.integers(0, width - 1)) if ragged else 0
        rows.append((*row[: width - placeholders], *range(-1, -1 - placeholders, -1)))
    names: tuple[str | None, ...] = draw(st.sampled_from(RACKS))
    fence = draw(st.integers(-size, size - 1)) if size > width else -1
    case = Situation(
        rows=tuple(rows),
        racks=tuple(draw(st.lists(st.sampled_from(names), min_size=size, max_size=size))),
        held=tuple(draw(st.just([0] * size) | st.lists(st.integers(0, 6), min_size=size, max_size=size))),
        fenced=tuple(broker == fence for broker in range(size)),
    )
    if draw(st.booleans()):
        least = draw(st.permutations(case.usable))
        case = replace(case, chosen=tuple(sorted(least[: draw(st.integers(width, len(least)))])))
    if limits == "any":
        return replace(case, limit=draw(st.integers(1, 3 + max(case.loads()))))
    if limits == "enough":
        enough = next(limit for limit in range(1, 99) if _has_room(replace(case, limit=limit)))
        return replace(case, limit=enough + draw(st.integers(0, 2)))
    return case


def _has_room(case: Situation) -> bool:
    return sum(case.room[broker] for broker in case.usable) >= case.replicas


# A broker whose only row has the one that lacks: x gives d a replica in the other row, and takes that of s.
CHAIN = Situation(rows=((0, 1), (2, 3)), racks=(None,) * 4, held=(2, 0, 1, 1))
# Two rows, each with a rack twice; nobody has too much.
EXCHANGE = Situation(rows=((0, 1), (2, 3)), racks=("a", "a", "b", "b"), held=(0,) * 4)
# Limits have room for six replicas, but not for four brokers in the second row: broker 0 must keep one of its two.
UNEVEN = Situation(rows=((0, 1, -1, -2), (0, 3, 1, 2)), racks=("a", "a", "b", "b"), held=(4, 0, 0, 0), limit=4)
# The one row is at its limit, and the only other broker is in it.
FULL = Situation(rows=((0, 1), (STRANGER, 1)), racks=(None,) * 2, held=(1, 1), limit=2)


@given(situations() | situations(limits="enough"), seeds())
@example(CHAIN, ANY_SEED)
@example(EXCHANGE, ANY_SEED)
def test_no_placement_has_more_racks_or_is_more_even(case: Situation, seed: Seed) -> None:
    result = case.rebalanced(seed)
    spread, squares, _ = best_by_flow(case)
    assert case.after(result.placement).quality() == (spread, squares)
    assert result.racks_after == spread


@given(situations() | situations(limits="enough"), seeds())
@example(CHAIN, ANY_SEED)
@example(EXCHANGE, ANY_SEED)
def test_the_bound_on_moves_is_one_and_moves_are_counted(case: Situation, seed: Seed) -> None:
    result = case.rebalanced(seed)
    pairs = list(zip(result.placement.tolist(), case.placement.tolist(), strict=True))
    assert result.moves == sum(len(set(row) - set(before)) for row, before in pairs)
    assert result.leaders_moved == sum(row[0] != before[0] for row, before in pairs)
    assert result.fewest_moves <= best_by_flow(case)[2] <= result.moves


@given(situations(limits="enough", most_brokers=4, most_rows=3))
@example(CHAIN)
@example(EXCHANGE)
def test_the_flow_that_judges_agrees_with_looking_at_every_placement(case: Situation) -> None:
    assert best_by_flow(case) == best_by_trying(case)


def test_hardly_a_move_is_wasted_on_small_clusters() -> None:
    moves = fewest = bound = 0
    for number in range(60):
        chance = np.random.Generator(np.random.PCG64(number))
        size, width = 6, 1 + number % 3
        rows = chance.random((12, size)) ** (1 / (0.05 + chance.random(size)))
        racks = tuple("abc"[int(rack)] for rack in chance.integers(0, 3, size)) if number % 2 else (None,) * size
        lopsided = np.argsort(-rows, axis=1, kind="stable")[:, :width].tolist()
        case = Situation(rows=tuple(map(tuple, lopsided)), racks=racks, held=(0,) * size)
        result = case.rebalanced()
        moves, fewest, bound = moves + result.moves, fewest + best_by_flow(case)[2], bound + result.fewest_moves
    assert moves <= 1.01 * fewest
    assert bound >= 0.95 * fewest


@given(situations(limits="any") | situations(limits="any", ragged=True), seeds())
@example(FULL, ANY_SEED)
@example(UNEVEN, ANY_SEED)
def test_limits_are_met_and_replicas_placed_whenever_they_can_be(case: Situation, seed: Seed) -> None:
    assume(max(map(len, case.real)) <= len(case.usable))
    outcome = outcome_of(case, seed)
    excess = 0 if fits_within_limits(case) else least_excess(case)
    if isinstance(outcome, CannotPlace):
        assert outcome.reason is POLICY_VIOLATION
        assert excess is None
    else:
        after = case.after(outcome.placement)
        above = sum(max(after.own[broker] - case.room[broker], 0) for broker in case.usable)
        assert excess is None or above <= excess


@given(situations(limits="any") | situations(limits="any", ragged=True), seeds())
@example(FULL, ANY_SEED)
def test_what_fits_nowhere_is_refused_with_the_numbers(case: Situation, seed: Seed) -> None:
    assume(max(map(len, case.real)) <= len(case.usable))
    keeping = [max(pair) for pair in zip(case.own, case.room, strict=True)]
    assume(most_placed(case, keeping, may_gain=[True] * case.size) < case.replicas)
    outcome = outcome_of(case, seed)
    assert isinstance(outcome, CannotPlace)
    assert outcome.reason is POLICY_VIOLATION
    assert f"{case.replicas} replicas of {len(case.rows)} partitions" in outcome.message
    assert f"max.broker.partitions={case.limit}" in outcome.message


@given(situations(limits="any") | situations(limits="any", ragged=True), seeds())
@example(CHAIN, ANY_SEED)
@example(EXCHANGE, ANY_SEED)
def test_results_pass_the_audit_and_stay_where_they_may(case: Situation, seed: Seed) -> None:
    result = outcome_of(case, seed)
    if isinstance(result, CannotPlace):
        return
    assert result.placement.dtype == np.int32
    assert audit(case.view(), result.placement, case.placement) == []
    after = case.after(result.placement)
    assert {broker for row in after.real for broker in row} <= set(case.usable)
    assert sorted(map(len, after.real)) == sorted(map(len, case.real))


@given(situations(limits="any") | situations(limits="any", ragged=True), seeds(), seeds())
def test_what_is_rebalanced_stays_as_it_is(case: Situation, seed: Seed, other: Seed) -> None:
    once = outcome_of(case, seed)
    if isinstance(once, CannotPlace):
        return
    again = case.after(once.placement).rebalanced(other)
    assert again.placement.tolist() == once.placement.tolist()
    assert (again.moves, again.fewest_moves, again.leaders_moved) == (0, 0, 0)


@given(situations(), seeds())
def test_same_seed_same_placement(case: Situation, seed: Seed) -> None:
    assert case.rebalanced(seed).placement.tolist() == case.rebalanced(seed).placement.tolist()


@given(situations() | situations(ragged=True), seeds())
def test_leaders_are_as_even_as_can_be(case: Situation, seed: Seed) -> None:
    after = case.after(case.rebalanced(seed).placement)
    assert squares_of_leaders(after.real) == least_squares_of_leaders(after.real)


@given(situations(ragged=True), seeds())
def test_placeholders_stay_what_they_are(case: Situation, seed: Seed) -> None:
    result = case.rebalanced(seed).placement
    assert np.where(result < 0, result, 0).tolist() == np.where(case.placement < 0, case.placement, 0).tolist()


def cluster(brokers: int, racks: int, placement: Int32Array) -> ClusterView:
    return ClusterView(
        broker_ids=np.arange(brokers, dtype=np.int32),
        racks=tuple(f"rack-{broker % racks}" if racks else None for broker in range(brokers)),
        replica_counts=np.bincount(placement.ravel(), minlength=brokers),
    )


def placed(brokers: int, racks: int, partitions: int) -> Int32Array:
    empty = np.empty(0, dtype=np.int32)
    return place_round_robin(cluster(brokers, racks, empty), partitions, 3, start_index=5, shift=3)


@pytest.mark.parametrize("racks", [0, 3, 10])
def test_a_balanced_round_robin_is_not_touched(racks: int) -> None:
    placement = placed(90, racks, 9000)
    result = rebalance(cluster(90, racks, placement), placement, JavaRandom(1))
    assert result.placement.tolist() == placement.tolist()
    assert (result.moves, result.fewest_moves, result.leaders_moved) == (0, 0, 0)


@pytest.mark.parametrize(
    ("racks", "before", "after"),
    [
        (10, range(90), range(100)),
        (0, range(90), range(100)),
        (3, range(90), range(99)),
        (10, range(100), range(90)),
        (3, range(99), range(90)),
        (10, range(100), [broker for broker in range(100) if broker % 10 != 3]),
        (10, range(50), range(50, 100)),
    ],
    ids=["more", "more-no-racks", "more-3-racks", "fewer", "fewer-3-racks", "a-rack-goes", "all-others"],
)
def test_growing_and_draining_take_no_move_too_many(racks: int, before: range, after: Sequence[int]) -> None:
    placement = placed(len(before), racks, 9000)
    view = cluster(max(before.stop, max(after) + 1), racks, placement)
    result = rebalance(view, placement, JavaRandom(1), after)
    loads = np.bincount(result.placement.ravel(), minlength=len(view))[list(after)]
    leaders = np.bincount(result.placement[:, 0], minlength=len(view))[list(after)]
    assert audit(view, result.placement, placement) == []
    assert result.moves == result.fewest_moves > 0
    assert result.racks_after == 27000
    assert int(np.ptp(loads)) <= 1
    assert int(np.ptp(leaders)) <= 1


def test_a_chain_goes_where_no_single_move_leads() -> None:
    result = CHAIN.rebalanced()
    assert CHAIN.after(result.placement).loads() == [2, 2, 2, 2]
    assert (result.moves, result.fewest_moves) == (2, 1)


def test_rows_exchange_brokers_for_the_sake_of_racks() -> None:
    result = EXCHANGE.rebalanced()
    assert (result.racks_before, result.racks_after) == (2, 4)
    assert (result.moves, result.fewest_moves) == (2, 2)


def test_racks_come_before_evenness_and_limits_before_racks() -> None:
    rows = ((0, 1), (0, 1), (0, 1), (0, 1))
    lonely = Situation(rows=rows, racks=("a", "a", "a", "b"), held=(0,) * 4)
    # Every row has rack b: its one broker has four replicas, though the others have less.
    assert lonely.after(lonely.rebalanced().placement).own[3] == 4
    limited = replace(lonely, limit=3)
    assert limited.after(limited.rebalanced().placement).own[3] == 3


def test_other_topics_replicas_count_for_evenness() -> None:
    case = Situation(rows=((0,), (0,), (1,), (1,)), racks=(None,) * 3, held=(0, 3, 1))
    after = case.after(case.rebalanced().placement)
    assert sorted(after.loads()) == [2, 3, 3]
    assert after.own[1] == 0


def test_brokers_over_a_limit_that_cannot_be_met_come_down_and_gain_nothing() -> None:
    rows = ((0, 1), (0, 1), (0, 1), (0, 2))
    case = Situation(rows=rows, racks=(None,) * 3, held=(0, 0, 0), limit=2)
    after = case.after(case.rebalanced().placement)
    assert sorted(after.own) == [2, 3, 3]
    assert all(1 in before for before, row in zip(rows, after.rows, strict=True) if 1 in row and after.own[1] > 2)


def test_nobody_has_room_for_a_replica_that_must_move() -> None:
    with pytest.raises(
        CannotPlace, match=r"4 replicas of 2 partitions, 1 of them .*max.broker.partitions=2"
    ) as refusal:
        FULL.rebalanced()
    assert refusal.value.reason is POLICY_VIOLATION


def test_too_few_brokers_for_a_row_are_refused_with_the_numbers() -> None:
    case = Situation(rows=((0, 1, 2),), racks=(None,) * 4, held=(0,) * 4, chosen=(0, 3))
    with pytest.raises(CannotPlace, match="rows of 3 replicas, but only 2 of 4 brokers") as refusal:
        case.rebalanced()
    assert refusal.value.reason is INVALID_REPLICATION_FACTOR


def test_fenced_brokers_are_left_even_when_they_are_chosen() -> None:
    case = Situation(rows=((0, 1),), racks=(None,) * 3, held=(0,) * 3, fenced=(True, False, False), chosen=(0, 1, 2))
    assert sorted(case.rebalanced().placement[0].tolist()) == [FIRST_ID + 1, FIRST_ID + 2]


def test_no_rows_need_nothing() -> None:
    result = rebalance(CHAIN.view(), np.empty((0, 3), dtype=np.int32), JavaRandom(1))
    assert result.placement.shape == (0, 3)
    assert (result.moves, result.fewest_moves, result.leaders_moved) == (0, 0, 0)


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        ([10, 11], r"not int32 of shape \(2,\)"),
        ([[], []], r"not shape \(2, 0\)"),
        ([[10, 11], [12, 12]], "1 rows name a broker twice, first row 1"),
        ([[10, -1, 11]], "1 rows have a placeholder before a broker: rows 0"),
        ([[10, 11], [10, 12], [10, 11]], "1 brokers have fewer replicas .*: 11"),
    ],
)
def test_what_is_no_placement_is_a_value_error(placement: list[object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rebalance(CHAIN.view(), np.array(placement, dtype=np.int32), JavaRandom(1))


@pytest.mark.parametrize(
    ("brokers", "message"),
    [
        ([], r"one broker id or more, not .* of shape \(0,\)"),
        ([10, 99, 98], "2 of 3 chosen brokers are not in the view: 99, 98"),
        ([10, -1], "1 of 2 chosen brokers are not in the view: -1"),
        ([10, 11, 10], "1 of 3 chosen brokers are given more than once"),
        ([[10, 11]], r"not int64 of shape \(1, 2\)"),
        (["a"], "one broker id or more, not <U1"),
    ],
)
def test_brokers_that_cannot_be_chosen_are_a_value_error(brokers: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rebalance(CHAIN.view(), CHAIN.placement, JavaRandom(1), brokers)
