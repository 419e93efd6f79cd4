"""Leaders compared with all possible choices of leaders, and examples that need long chains."""

from collections import Counter
from itertools import product

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.assignment.limited.leaders import balance_leaders

Rows = list[list[int]]


def loads(leaders: tuple[int, ...] | list[int], brokers: int) -> list[int]:
    led = Counter(leaders)
    return sorted((led[broker] for broker in range(brokers)), reverse=True)


@st.composite
def rows(draw: st.DrawFn) -> tuple[Rows, int]:
    brokers = draw(st.integers(1, 6))
    width = draw(st.integers(1, min(3, brokers)))
    row = st.permutations(range(brokers)).map(lambda order: list(order)[:width])
    return draw(st.lists(row, min_size=1, max_size=7)), brokers


@given(rows())
# One chain of three: broker 0 must give to 1, which gives to 2, which gives to 3.
@example(([[0, 1], [0, 1], [0, 1], [1, 2], [1, 2], [2, 3], [2, 3]], 4))
def test_leaders_are_as_even_as_possible(case: tuple[Rows, int]) -> None:
    given_rows, brokers = case
    balanced = balance_leaders(np.array(given_rows), brokers)
    best = min(sum(load**2 for load in loads(choice, brokers)) for choice in product(*given_rows))
    assert sum(load**2 for load in loads(balanced[:, 0].tolist(), brokers)) == best


@given(rows())
def test_rows_keep_their_brokers_and_the_order_of_the_followers(case: tuple[Rows, int]) -> None:
    given_rows, brokers = case
    for before, after in zip(given_rows, balance_leaders(np.array(given_rows), brokers).tolist(), strict=True):
        assert after == [after[0], *(broker for broker in before if broker != after[0])]


def test_even_leaders_do_not_change() -> None:
    even = np.array([[0, 1], [1, 2], [2, 0], [0, 2]])
    assert balance_leaders(even, 3).tolist() == even.tolist()


def test_placeholders_never_lead() -> None:
    balanced = balance_leaders(np.array([[0, 1, -1], [0, 1, -1], [0, -1, -1]]), 2)
    assert (balanced[:, 0] >= 0).all()
    assert loads(balanced[:, 0].tolist(), 2) == [2, 1]
    assert (balanced[:, 2] == -1).all()


def test_long_chains_are_found() -> None:
    """Each broker shares rows with its neighbours only, and the last leads nothing: all 40 must move up a little."""
    brokers, each = 40, 25
    chain = np.array([[broker, broker + 1] for broker in range(brokers - 1) for _ in range(each)])
    led = loads(balance_leaders(chain, brokers)[:, 0].tolist(), brokers)
    assert (led[0], led[-1]) == (25, 24)


def test_an_empty_placement_has_no_leaders() -> None:
    assert balance_leaders(np.empty((0, 3), dtype=np.int64), 3).shape == (0, 3)
