"""Kafka's random number generator, `java.util.Random`: a seed gives the same numbers here as in a JVM.

It is a 48-bit linear congruential generator, whose constants are in the documentation of java.util.Random.
"""

from typing import Final

_MULTIPLIER: Final = 0x5DEECE66D
_INCREMENT: Final = 0xB
_MASK: Final = (1 << 48) - 1


class JavaRandom:
    """`java.util.Random(seed)`: the same numbers in the same order. Raises ValueError unless `seed` is a Java long."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        if not -(1 << 63) <= seed < 1 << 63:
            raise ValueError(f"the seed is a Java long, {-(1 << 63)} to {(1 << 63) - 1}, not {seed!r}")
        self._state = (seed ^ _MULTIPLIER) & _MASK

    def next_int(self, bound: int) -> int:
        """`nextInt(bound)`: an integer from 0 to bound - 1. Raises ValueError unless bound is 1 to 2^31 - 1."""
        if not 0 < bound < 1 << 31:
            raise ValueError(f"the bound of a random number is 1 to {(1 << 31) - 1}, not {bound}")
        if bound & -bound == bound:
            return bound * self._next_31_bits() >> 31
        while True:
            bits = self._next_31_bits()
            value = bits % bound
            # Values of the last, incomplete block of `bound` numbers below 2^31 are rejected, as in Java.
            if bits - value + (bound - 1) < 1 << 31:
                return value

    def _next_31_bits(self) -> int:
        self._state = (self._state * _MULTIPLIER + _INCREMENT) & _MASK
        return self._state >> 17
