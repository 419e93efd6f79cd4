"""The partition that says how many replicas new partitions get, as Apache Kafka's hash table finds it."""

import pytest

from klamm.controller.transitions.first_partition import first_partition

FOUND = {1: 0, 3: 2, 6: 5, 11: 0, 14: 13, 22: 0, 35: 34, 86: 0, 90: 89, 171: 0, 234: 233}
"""Recorded of the TimelineHashMap of Apache Kafka 4.2.0: the first value by the number of partitions, from each of
these numbers on up to the next one. The last range was recorded up to 300."""
RECORDED = 300
LARGE = {1_000: 610, 5_000: 4_181, 10_000: 4_181, 100_000: 75_025}


def test_the_first_partition_is_that_of_kafkas_table() -> None:
    expected = 0
    for count in range(1, RECORDED + 1):
        expected = FOUND.get(count, expected)
        assert first_partition(count) == expected, count


@pytest.mark.parametrize("count", LARGE)
def test_the_first_of_many_partitions_is_that_of_kafkas_table(count: int) -> None:
    assert first_partition(count) == LARGE[count]
