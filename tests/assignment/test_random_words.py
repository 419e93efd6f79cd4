"""`random_words` compared with a plain implementation of splitmix64."""

import numpy as np
import pytest

from klamm.assignment.kafka.java_random import JavaRandom
from klamm.assignment.random_source import random_words

WORD = 1 << 64


def splitmix64(seed: int, count: int) -> list[int]:
    """The reference of Vigna, in Python's own numbers."""
    words = []
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) % WORD
        mixed = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 % WORD
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % WORD
        words.append(mixed ^ mixed >> 31)
    return words


@pytest.mark.parametrize("seed", [0, 1, 7, 2**40])
@pytest.mark.parametrize("count", [0, 1, 5, 1000])
def test_words_are_those_of_splitmix64_from_a_seed_of_two_draws(seed: int, count: int) -> None:
    other = JavaRandom(seed)
    start = other.next_int(2**31 - 1) << 31 | other.next_int(2**31 - 1)
    source = JavaRandom(seed)
    words = random_words(source, count)
    assert words.dtype == np.uint64
    assert words.tolist() == splitmix64(start, count)
    assert source.next_int(1000) == other.next_int(1000), "two draws, however many words"
