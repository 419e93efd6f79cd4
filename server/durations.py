"""How long something took, in buckets, as a histogram of Prometheus has them. Seconds."""

import time
from bisect import bisect_left
from typing import Final

BOUNDS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0
)  # fmt: skip
"""The upper bounds of the buckets; a bucket includes its bound. What takes longer is in one more bucket."""


class Durations:
    """The durations of one kind."""

    __slots__ = ("buckets", "count", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        """How many durations are in each bucket, and in none of those before it."""
        self.count = 0
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.count += 1
        self.total += seconds


class Stopwatch:
    """A context manager that adds the duration of each `with` block. Blocks may not overlap."""

    __slots__ = ("_began", "durations")

    def __init__(self) -> None:
        self.durations = Durations()
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.durations.add(time.perf_counter() - self._began)
