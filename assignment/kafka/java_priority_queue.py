"""Java's PriorityQueue: which of several equal elements comes first depends on how it moves them in its heap.

Source: the documented structure of java.util.PriorityQueue (a binary heap in an array), checked against JDK 17 by what
Kafka's sticky assignor does with it.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

ElementT = TypeVar("ElementT")


class JavaPriorityQueue(Generic[ElementT]):
    """A queue whose smallest element, by a number, comes first."""

    def __init__(self, number_of: Callable[[ElementT], float]) -> None:
        """The number of an element must not change while it is in the queue."""
        self._number_of = number_of
        self._heap: list[tuple[float, ElementT]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, element: ElementT) -> None:
        heap, number = self._heap, self._number_of(element)
        at = len(heap)
        heap.append((number, element))
        while at > 0:
            parent = (at - 1) // 2
            if number >= heap[parent][0]:
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = number, element

    def poll(self) -> ElementT:
        """Remove the first element. Raises IndexError if there is none."""
        heap = self._heap
        first, last = heap[0], heap.pop()
        if heap:
            self._sift_down(last)
        return first[1]

    def _sift_down(self, moved: tuple[float, ElementT]) -> None:
        """Put an element at the top, then exchange it with the smaller child while that is smaller than it."""
        heap, at = self._heap, 0
        half = len(heap) // 2
        while at < half:
            child = 2 * at + 1
            if child + 1 < len(heap) and heap[child][0] > heap[child + 1][0]:
                child += 1
            if moved[0] <= heap[child][0]:
                break
            heap[at] = heap[child]
            at = child
        heap[at] = moved
