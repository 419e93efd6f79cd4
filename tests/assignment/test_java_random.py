"""JavaRandom gives the numbers of `java.util.Random`: those recorded from Kafka, and those of a JDK 17."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.assignment import JavaRandom

GOLDEN = Path(__file__).parent.parent / "golden" / "placement"
LARGEST = 2**31 - 1
BOUNDS = [LARGEST, 2**30 + 1, 2**30, 1, 2, 3, 2**30 + 2**29 + 7, 10]
"""Powers of two, and numbers that Java draws again for about every second time."""


def recorded(name: str) -> list[Any]:
    with (GOLDEN / name).open(encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    return [case for case in cases if all("draws" in call for call in case["calls"])]


@pytest.mark.parametrize("name", ["striped.jsonl", "striped-more.jsonl"])
def test_random_numbers_are_those_that_kafka_drew(name: str) -> None:
    seen = 0
    for case in recorded(name):
        source = JavaRandom(case["seed"])
        draws = [draw for call in case["calls"] for draw in call["draws"]]
        assert [[bound, source.next_int(bound)] for bound, _ in draws] == draws
        seen += len(draws)
    assert seen > 500


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (0, [1569741360, 516548029, 651058223, 0, 0, 2, 251269761, 9]),
        (42, [1562431130, 117392763, 733605624, 0, 0, 1, 595021505, 8]),
        (-1, [577549913, 943952225, 13174789, 0, 1, 0, 894294477, 8]),
        (-(2**63), [1569741360, 516548029, 651058223, 0, 0, 2, 251269761, 9]),
        (2**63 - 1, [577549913, 943952225, 13174789, 0, 1, 0, 894294477, 8]),
        (0x5DEECE66D, [0, 2116118, 44700947, 0, 0, 2, 198207689, 1]),
    ],
)
def test_any_long_is_a_seed_and_any_positive_int_a_bound(seed: int, expected: list[int]) -> None:
    source = JavaRandom(seed)
    assert [source.next_int(bound) for bound in BOUNDS] == expected


@given(st.integers(-(2**63), 2**63 - 1), st.lists(st.integers(1, LARGEST), max_size=20))
def test_numbers_are_below_their_bound_and_depend_on_the_seed(seed: int, bounds: list[int]) -> None:
    one, other = JavaRandom(seed), JavaRandom(seed)
    drawn = [one.next_int(bound) for bound in bounds]
    assert all(0 <= number < bound for number, bound in zip(drawn, bounds, strict=True))
    assert drawn == [other.next_int(bound) for bound in bounds]


@pytest.mark.parametrize("bound", [0, -1, 2**31])
def test_invalid_bounds_are_refused_as_in_java(bound: int) -> None:
    with pytest.raises(ValueError, match=str(bound)):
        JavaRandom(0).next_int(bound)
