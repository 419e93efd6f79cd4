"""Messages that are given up in pieces: nothing of them is left, and what others refer to stays."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from klamm.protocol.messages.partitions import elect_leaders
from klamm.server.release import FEW, release


class Noted(str):
    """A text whose end can be seen."""

    __slots__ = ("__weakref__",)


@pytest.fixture(autouse=True)
def _no_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def topics(count: int, partitions: int) -> list[Any]:
    return [elect_leaders.TopicPartitions(topic=Noted(), partitions=tuple(range(partitions))) for _ in range(count)]


@pytest.mark.parametrize("count", [0, 1, FEW, FEW + 1])
def test_all_that_only_the_roots_refer_to_is_freed(count: int) -> None:
    request = elect_leaders.ElectLeadersRequest(topic_partitions=topics(count, 3), timeout_ms=1)
    others = topics(2, FEW + 1)
    kept = others[0]
    seen = [weakref.ref(topic.topic) for topic in [*(request.topic_partitions or ()), *others]]
    roots: list[object] = [request, None, others]
    del request, others
    release(roots)
    assert not roots
    assert [ref() is not None for ref in seen] == [False] * count + [True, False]
    assert list(kept.partitions) == list(range(FEW + 1))


def test_the_elements_of_a_long_array_are_freed_one_after_the_other() -> None:
    """Also if the array is inside one of few. An array that ends with its elements would free the last one first."""
    freed: list[int] = []

    class Numbered:
        def __init__(self, number: int) -> None:
            self.number = number

        def __del__(self) -> None:
            freed.append(self.number)

    array: Any = tuple(Numbered(number) for number in range(2 * FEW))
    whole = elect_leaders.TopicPartitions(topic="t", partitions=array)
    roots: list[object] = [elect_leaders.ElectLeadersRequest(topic_partitions=[whole], timeout_ms=1)]
    del array, whole
    release(roots)
    assert freed == list(range(2 * FEW))
