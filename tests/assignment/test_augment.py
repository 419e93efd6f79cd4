"""Augmenting paths find an optimal flow whenever a flow exists, compared with a flow in the complete network."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.assignment.cluster_view import Int64Array
from klamm.assignment.limited.augment import even_out, fill_lacking
from klamm.assignment.limited.deal import deal_replicas, even_shares
from klamm.assignment.limited.quotas import BrokersToFill
from klamm.assignment.limited.row_flow import RowFlow
from klamm.assignment.random_source import random_source
from tests.assignment.growth_oracle import Growing, Worth, best_growth, worth
from tests.assignment.strategies import Seed, seeds


@st.composite
def growings(draw: st.DrawFn) -> Growing:
    """Few rows, and about as much room as they need: most flows must be found the long way."""
    brokers, rows = draw(st.integers(2, 7)), draw(st.integers(1, 7))
    rack = st.integers(0, draw(st.integers(0, 3)))
    # The number behind the last broker stands for one that nobody knows.
    own = [draw(st.lists(st.integers(0, brokers), max_size=3, unique=True)) for _ in range(rows)]
    free = [brokers - len({*members} - {brokers}) for members in own]
    lacking = [draw(st.integers(0, min(3, most))) for most in free]
    room = [0] * brokers
    for broker in draw(st.lists(st.integers(0, brokers - 1), min_size=sum(lacking), max_size=sum(lacking) + 3)):
        room[broker] = min(room[broker] + 1, rows)
    return Growing(
        own, lacking, room, [draw(rack) for _ in range(brokers)], [draw(st.integers(0, 5)) for _ in range(brokers)]
    )


def flow_of(growing: Growing) -> RowFlow:
    nobody, width = len(growing.room), max(map(len, growing.own), default=0)
    own = np.array([members + [nobody] * (width - len(members)) for members in growing.own], dtype=np.int64)
    numbers = {rack: number for number, rack in enumerate(sorted(set(growing.racks), key=str))}
    return RowFlow(
        own.reshape(len(growing.own), width),
        as_int64(growing.lacking),
        as_int64(growing.room),
        as_int64([numbers[rack] for rack in growing.racks]),
    )


def as_int64(values: list[int]) -> Int64Array:
    return np.array(values, dtype=np.int64)


def given_rows(flow: RowFlow) -> list[list[int]]:
    return [[broker for broker in row if broker != flow.no_broker] for row in flow.given.T.tolist()]


def worth_found(growing: Growing, flow: RowFlow) -> Worth:
    if flow.lacking.any():
        return Worth(int(flow.lacking.sum()), 0, 0)
    even_out(flow, as_int64(growing.held))
    given = given_rows(flow)
    assert [len(row) for row in given] == growing.lacking
    return worth(growing, given)


# Evenness wants a replica of broker 0 on broker 6, by way of 4 and 1: two of these steps are in the same row.
THROUGH_ONE_ROW_TWICE = Growing(
    own=[[], [6, 5, 0]],
    lacking=[3, 2],
    room=[1, 1, 0, 1, 1, 1, 1],
    racks=[1, 2, 2, 2, 1, 0, 2],
    held=[3, 2, 1, 1, 2, 2, 2],
)
# Row r can only have brokers r and r + 1, and broker 0 has no room: the last row is filled through three others.
CHAIN = Growing(
    own=[[broker for broker in range(7) if broker not in (row, row + 1)] for row in range(6)],
    lacking=[1] * 6,
    room=[0, 1, 1, 1, 1, 1, 1],
    racks=[0, 0, 1, 1, 2, 2, 3],
    held=[0] * 7,
)
# Whoever fills broker 0 with the first row that may have it shuts the second one out of a rack of its own.
FIRST_COME_WRONGLY_SERVED = Growing(
    own=[[3], [3, 1]], lacking=[1, 1], room=[1, 2, 1, 0], racks=[0, 1, 1, 2], held=[0, 0, 0, 0]
)
# The best is reached only by a path with a step by which a row gains a rack.
A_STEP_THAT_GAINS = Growing(
    own=[[1, 0, 4], [3], [0]],
    lacking=[1, 0, 4],
    room=[1, 0, 1, 1, 1, 1, 0, 2],
    racks=[0, 1, 0, 0, 1, 2, 0, 1],
    held=[3, 2, 4, 0, 4, 3, 0, 1],
)
# Dealing leaves a row that could still get a new rack by a path: an old rack dealt to it first would be final.
A_NEW_RACK_FOUND_LATE = Growing(
    own=[[], [1]], lacking=[1, 2], room=[0, 0, 1, 1, 2, 0], racks=[1, 2, 2, 0, 1, 2], held=[1, 3, 2, 0, 1, 0]
)
# Evenness was sought at level 4 alone for all of 4 and 5, when no load was there; then a move put one at 5.
A_LOAD_WHERE_NONE_WAS = Growing(
    own=[[3, 5], [4, 3], [], [], [6]],
    lacking=[1, 3, 0, 3, 3],
    room=[5, 1, 4, 4, 4, 4, 3],
    racks=[3, 0, 0, 1, 2, 1, 1],
    held=[2, 2, 4, 0, 2, 1, 2],
)
# Only by giving up a rack in one row can both rows be filled.
A_RACK_MUST_BE_GIVEN_UP = Growing(own=[[0], [0, 1]], lacking=[1, 1], room=[0, 1, 1], racks=[0, 0, 1], held=[0, 0, 0])


@given(growings())
@example(THROUGH_ONE_ROW_TWICE)
@example(CHAIN)
@example(FIRST_COME_WRONGLY_SERVED)
@example(A_RACK_MUST_BE_GIVEN_UP)
@example(A_LOAD_WHERE_NONE_WAS)
@example(A_STEP_THAT_GAINS)
def test_paths_without_dealing_find_an_optimal_flow(growing: Growing) -> None:
    flow = flow_of(growing)
    fill_lacking(flow)
    assert worth_found(growing, flow) == best_growth(growing)


@given(growings(), seeds())
@example(CHAIN, Seed(0))
@example(A_NEW_RACK_FOUND_LATE, Seed(2))
def test_paths_after_dealing_find_an_optimal_flow(growing: Growing, seed: Seed) -> None:
    flow, source = flow_of(growing), random_source(seed.rng())
    deal_replicas(flow, as_int64(growing.held), source, new_racks=True)
    fill_lacking(flow, max_cost=-1)
    deal_replicas(flow, as_int64(growing.held), source, new_racks=False)
    fill_lacking(flow)
    assert worth_found(growing, flow) == best_growth(growing)


@given(growings(), seeds())
def test_dealing_with_new_racks_adds_only_racks_that_the_row_lacks(growing: Growing, seed: Seed) -> None:
    flow = flow_of(growing)
    deal_replicas(flow, as_int64(growing.held), random_source(seed.rng()), new_racks=True)
    given = given_rows(flow)
    assert worth(growing, given).racks_gained == sum(map(len, given))


@given(growings())
def test_a_step_moves_one_unit_from_one_broker_to_another(growing: Growing) -> None:
    flow = flow_of(growing)
    fill_lacking(flow)
    new = np.bincount([broker for row in given_rows(flow) for broker in row], minlength=len(growing.room))
    assert flow.taken.tolist() == new.tolist()
    assert (flow.room + flow.taken).tolist() == growing.room
    assert (flow.room >= 0).all()


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=7),
    st.lists(st.integers(0, 15), min_size=3, max_size=3),
    st.integers(0, 40),
    st.permutations(range(7)),
)
# The first rack stops below the common level, with one replica still to come: it comes before the favoured broker 2.
@example([(5, 0, 0), (5, 0, 0), (5, 0, 1)], [1, 15, 15], 3, [2, 0, 1, 3, 4, 5, 6])
def test_shares_are_those_of_giving_each_replica_to_the_least_loaded_broker(
    drawn: list[tuple[int, int, int]], rack_limits: list[int], total: int, order: list[int]
) -> None:
    capacity, held, rack_of = (list(column) for column in zip(*drawn, strict=True))
    racks = max(rack_of) + 1
    rack_limit = [
        min(rack_limits[rack], sum(room for room, its in zip(capacity, rack_of, strict=True) if its == rack))
        for rack in range(racks)
    ]
    favoured = [broker for broker in order if broker < len(drawn)]
    shares, left = [0] * len(drawn), list(rack_limit)
    for _ in range(total):
        open_to = [b for b in favoured if shares[b] < capacity[b] and left[rack_of[b]]]
        if open_to:
            least = min(open_to, key=lambda b: held[b] + shares[b])
            shares[least] += 1
            left[rack_of[least]] -= 1
    brokers = BrokersToFill(as_int64(capacity), as_int64(held), as_int64(rack_of), racks)
    assert even_shares(brokers, as_int64(rack_limit), total, as_int64(favoured)).tolist() == shares


@pytest.mark.parametrize("seed", range(3))
def test_dealing_without_paths_serves_95_percent_of_rows_within_the_room(seed: int) -> None:
    """Rows have two of three racks, so two brokers in three do not fit; what is left takes paths, which are dear."""
    partitions, racks = 3_000, np.arange(9, dtype=np.int64) % 3
    own = np.stack((np.arange(partitions) % 9, (np.arange(partitions) + 1) % 9), axis=1)
    lacking, room = np.ones(partitions, dtype=np.int64), np.full(9, partitions // 9 + 1)
    flow = RowFlow(own, lacking, room, racks)
    deal_replicas(flow, np.zeros(9, dtype=np.int64), random_source(Seed(seed).rng()), new_racks=True)
    assert (flow.room >= 0).all()
    assert flow.lacking.sum() <= partitions // 20
    given = np.bincount(flow.given.ravel(), minlength=10)[:9]
    assert given.tolist() == flow.taken.tolist()
    assert int(np.ptp(given)) <= partitions // 20


@pytest.mark.parametrize("brokers", [0, 3])
def test_rows_that_lack_nothing_do_not_change(brokers: int) -> None:
    growing = Growing([[0, 1]], [0], [1] * brokers, list(range(brokers)), [0] * brokers)
    flow = flow_of(growing._replace(own=[[min(brokers, 0), min(brokers, 1)]]))
    fill_lacking(flow)
    even_out(flow, as_int64(growing.held))
    assert not flow.taken.any()
