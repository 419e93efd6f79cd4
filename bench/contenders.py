"""Placers that take turns at one task: ours in this process, the peers in theirs, and what their samples come to.

A sample is the time of one call; where a call takes microseconds it is the mean of many in a row. Every contender
warms up first: a JVM compiles what it has run often enough.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bench.placement_peers import Maker, PlacementPeer, Shape

Placement = npt.NDArray[np.int32]


class Contender(Protocol):
    """A program that does a task repeatedly."""

    name: str
    maker: Maker
    calls: int
    """Calls in one sample."""

    def sample(self) -> float:
        """Seconds of one call."""
        ...

    def placement(self) -> Placement:
        """The placement, requested after all samples."""
        ...


class OurPlacer:
    """A function of `assignment`, with its arguments bound."""

    maker = Maker.KLAMM

    def __init__(self, name: str, run: Callable[[], Placement], calls: int = 1) -> None:
        self.name = name
        self.calls = calls
        self._run = run
        self._last: Placement | None = None

    def sample(self) -> float:
        run, last = self._run, None
        self._last = None
        started = time.perf_counter()
        for _ in range(self.calls):
            last = run()
        taken = time.perf_counter() - started
        self._last = last
        return taken / self.calls

    def placement(self) -> Placement:
        return self._run() if self._last is None else self._last


class TheirPlacer:
    """A peer that places new partitions."""

    def __init__(self, peer: PlacementPeer, shape: Shape, seed: int, calls: int = 1, fresh: bool = False) -> None:
        self.name = peer.name
        self.maker = peer.maker
        self.calls = calls
        self._peer = peer
        self._shape = shape
        self._seed = seed
        self._fresh = fresh

    def sample(self) -> float:
        return self._peer.time_place(self._shape, self._seed, self.calls, self._fresh) / self.calls

    def placement(self) -> Placement:
        return self._peer.placement(self._shape, self._seed)


class TheirReassignment:
    """A peer that changes existing placements."""

    calls = 1

    def __init__(self, name: str, peer: PlacementPeer, shape: Shape, current: npt.NDArray[Any]) -> None:
        self.name = name
        self.maker = peer.maker
        self._peer = peer
        self._shape = shape
        self._current = current

    def sample(self) -> float:
        return self._peer.reassign(self._shape, self._current)[0]

    def placement(self) -> Placement:
        return self._peer.reassign(self._shape, self._current)[1]


def take_turns(contenders: Sequence[Contender], warm_ups: int, rounds: int) -> list[list[float]]:
    """Seconds per call, `rounds` samples of each, in the order of `contenders`; every other round goes backwards."""
    for contender in contenders:
        for _ in range(warm_ups):
            contender.sample()
    samples: list[list[float]] = [[] for _ in contenders]
    pairs = list(zip(contenders, samples, strict=True))
    for number in range(rounds):
        for contender, seconds in pairs if number % 2 else reversed(pairs):
            seconds.append(contender.sample())
    return samples
