"""Examples of filling placeholders: the order of rows, the replaced placeholder, and the limit."""

import numpy as np
import pytest

from klamm.assignment.cluster_view import NO_LIMIT, ClusterView, Int32Array
from klamm.assignment.placeholders import fill_placeholders, rows_to_fill


def view_of(headroom: int | None = None, fenced: int | None = None) -> ClusterView:
    """Brokers 0 to 9, all with this much headroom, one of them fenced."""
    ids = np.arange(10, dtype=np.int32)
    return ClusterView(
        ids,
        (None,) * 10,
        fenced=ids == fenced,
        replica_counts=np.full(10, 100),
        replica_limit=NO_LIMIT if headroom is None else 100 + headroom,
    )


def rows(*members: list[int]) -> Int32Array:
    return np.array(members, dtype=np.int32)


def test_the_leftmost_placeholder_is_replaced_and_the_others_keep_their_ids() -> None:
    filled = fill_placeholders(view_of(), rows([1, -1, -2], [2, 3, -2], [4, -2, -1]), 9)
    assert filled.tolist() == [[1, 9, -2], [2, 3, 9], [4, 9, -1]]
    assert filled.dtype == np.int32


def test_a_row_that_has_the_broker_or_no_placeholder_stays_as_it_is() -> None:
    placement = rows([9, -1, -2], [1, 9, -1], [1, 2, 3])
    assert fill_placeholders(view_of(), placement, 9).tolist() == placement.tolist()
    assert rows_to_fill(view_of(), placement, 9).tolist() == []


def test_rows_with_the_fewest_replicas_are_filled_first_then_earlier_rows() -> None:
    placement = rows([1, 2, -1], [1, -1, -2], [3, 4, -1], [2, -1, -2], [5, 6, 7])
    assert rows_to_fill(view_of(), placement, 9).tolist() == [1, 3, 0, 2]


def test_a_limit_leaves_the_last_rows_unfilled() -> None:
    placement = rows([1, 2, -1], [1, -1, -2], [3, 4, -1], [2, -1, -2])
    filled = fill_placeholders(view_of(headroom=3), placement, 9)
    assert filled.tolist() == [[1, 2, 9], [1, 9, -2], [3, 4, -1], [2, 9, -2]]


@pytest.mark.parametrize("headroom", [0, -7])
def test_a_full_broker_fills_no_placeholder(headroom: int) -> None:
    assert fill_placeholders(view_of(headroom=headroom), rows([1, -1]), 9).tolist() == [[1, -1]]


def test_a_row_of_placeholders_alone_is_filled_first() -> None:
    assert rows_to_fill(view_of(), rows([1, -1], [-1, -2]), 9).tolist() == [1, 0]


def test_the_argument_is_not_changed() -> None:
    placement = rows([1, -1])
    fill_placeholders(view_of(), placement, 9)
    assert placement.tolist() == [[1, -1]]


def test_brokers_of_a_row_need_not_be_in_the_view() -> None:
    assert fill_placeholders(view_of(), rows([12345, -1]), 9).tolist() == [[12345, 9]]


def test_many_rows_are_filled_like_few_rows() -> None:
    """More rows than 16 bits can number, of every kind, with a limit in the middle of them."""
    partition = np.arange(100_000)
    placement = np.stack((partition % 9, (partition + 1) % 10, np.full(100_000, -1)), axis=1)
    placement[::3, 1] = -1
    placement[::3, 2] = -2
    chosen = rows_to_fill(view_of(headroom=50_000), placement.astype(np.int32), 9)
    waiting = [row for row in partition.tolist() if 9 not in placement[row]]
    expected = sorted(waiting, key=lambda row: (row % 3 != 0, row))[:50_000]
    assert chosen.tolist() == expected


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (0, 0)])
def test_an_empty_placement_stays_empty(shape: tuple[int, int]) -> None:
    assert fill_placeholders(view_of(), np.zeros(shape, dtype=np.int32), 9).shape == shape


@pytest.mark.parametrize("broker_id", [10, -1, 2**31 - 1, 2**40, 5])
def test_an_unknown_or_fenced_broker_raises_value_error(broker_id: int) -> None:
    with pytest.raises(ValueError, match=str(broker_id)):
        fill_placeholders(view_of(fenced=5), rows([1, -1]), broker_id)


@pytest.mark.parametrize(
    ("placement", "complaint"),
    [
        (np.array([1, -1]), r"shape \(2,\)"),
        (np.array([[1.0, -1.0]]), "float64"),
        (np.array([[2**31, -1]]), "2147483648"),
        (np.array([[True, False]]), "bool"),
    ],
)
def test_an_array_that_is_no_placement_is_refused(placement: Int32Array, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        fill_placeholders(view_of(), placement, 9)
