"""The random numbers of placements, which are the same on every machine and with every NumPy 2.

Only the raw words of NumPy's bit generators are used, because `numpy.random.Generator` may change its numbers between
versions and bit generators may not (NEP 19). `random_words` makes many random words from two draws.
"""

from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from klamm.assignment.cluster_view import Int64Array
from klamm.assignment.kafka.java_random import JavaRandom

Uint64Array = npt.NDArray[np.uint64]


class RandomSource(Protocol):
    """A source of random integers for placements."""

    def next_int(self, bound: int) -> int:
        """An integer from 0 to bound - 1; bound is 1 to 2^31 - 1."""
        ...


HALF_SEED: Final = 2**31 - 1
"""The bound of each of the two draws for the seed of `random_words`."""

Rng = JavaRandom | np.random.Generator
"""The random number generators that callers may pass: Java's or NumPy's."""


class _RawWords:
    """Draws from the raw words of a NumPy bit generator."""

    __slots__ = ("_generator",)

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def next_int(self, bound: int) -> int:
        # 32 of the 64 bits, scaled down. The bias is below bound / 2^32, too small to have an effect on placements.
        return (int(self._generator.random_raw()) >> 32) * bound >> 32

    def next_ints(self, bounds: Int64Array, times: int) -> Int64Array:
        words = self._generator.random_raw(times * len(bounds)).reshape(times, len(bounds)) >> np.uint64(32)
        drawn: Int64Array = words.astype(np.int64) * bounds >> 32
        return drawn


def random_source(rng: Rng) -> RandomSource:
    """The source behind a JavaRandom or a NumPy Generator; raises ValueError for anything else."""
    if isinstance(rng, JavaRandom):
        return rng
    if not isinstance(rng, np.random.Generator):
        raise ValueError(f"the random source is a JavaRandom or a numpy.random.Generator, not {rng!r}")
    return _RawWords(rng.bit_generator)


def next_ints(source: RandomSource, bounds: Int64Array, times: int) -> Int64Array:
    """int64[times, k]: the results of `next_int` with each of the bounds, int64[k], repeated `times` times."""
    if isinstance(source, _RawWords):
        return source.next_ints(bounds, times)
    listed = bounds.tolist()
    drawn = [[source.next_int(bound) for bound in listed] for _ in range(times)]
    return np.array(drawn, dtype=np.int64).reshape(times, len(bounds))


def random_words(source: RandomSource, count: int) -> Uint64Array:
    """uint64[count], evenly spread, from two draws: splitmix64 over a counter."""
    seed = source.next_int(HALF_SEED) << 31 | source.next_int(HALF_SEED)
    return scrambled(np.arange(1, count + 1, dtype=np.uint64), np.uint64(seed))


def scrambled(counter: Uint64Array, seed: Uint64Array | np.uint64) -> Uint64Array:
    """uint64[k]: the words of `random_words` for a counter from 1, uint64[k], and for seeds of two draws each."""
    words = counter * np.uint64(0x9E3779B97F4A7C15) + seed
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words
