"""Java's PriorityQueue: the order of equal elements is that of Java's heap."""

from heapq import heapify, heappop

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.assignment.kafka.java_priority_queue import JavaPriorityQueue


def polled(elements: list[tuple[float, str]]) -> list[str]:
    queue: JavaPriorityQueue[tuple[float, str]] = JavaPriorityQueue(lambda element: element[0])
    for element in elements:
        queue.add(element)
    return [queue.poll()[1] for _ in range(len(queue))]


@given(st.lists(st.integers(0, 5)))
def test_the_smallest_comes_first(numbers: list[int]) -> None:
    queue: JavaPriorityQueue[int] = JavaPriorityQueue(float)
    for number in numbers:
        queue.add(number)
    heap = list(numbers)
    heapify(heap)
    assert [queue.poll() for _ in numbers] == [heappop(heap) for _ in numbers]
    assert len(queue) == 0


@pytest.mark.parametrize(
    ("names", "expected"),
    [("a", "a"), ("ab", "ab"), ("abc", "acb"), ("abcd", "adcb"), ("abcdefg", "agfedcb")],
)
def test_equal_elements_come_in_the_order_of_javas_heap(names: str, expected: str) -> None:
    # new PriorityQueue<>(comparator of equal numbers), add each, poll each, on JDK 17.
    assert "".join(polled([(0.0, name) for name in names])) == expected


def test_an_empty_queue_has_nothing_to_give() -> None:
    with pytest.raises(IndexError):
        JavaPriorityQueue[int](float).poll()
