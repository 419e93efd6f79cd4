"""Looks once per second for connections that have been idle, stalled or unauthenticated for too long.

The process may be suspended: SIGSTOP, `docker pause`, a virtual machine that is moved. During such a pause the server
serves no client, and it sees only afterwards what a client sent or read. A pause therefore counts for no connection.
"""

from math import inf
from typing import Protocol

from klamm.server.limits import ServerLimits


class Swept(Protocol):
    """Connections whose clients have limited time. Times are trio's clock, in seconds."""

    def excuse(self, pause: float, now: float) -> None:
        """Count `pause` seconds, which have just ended, for no client."""

    def sweep(self, now: float) -> None:
        """Close the connections whose time is over."""


class Sweeper:
    """Sweeps all `swept` every `sweep_seconds`. The ticker calls `tick`."""

    def __init__(self, swept: tuple[Swept, ...], limits: ServerLimits) -> None:
        self._swept = swept
        self._every_seconds = limits.sweep_seconds
        self._due: float | None = None

    @property
    def next_due(self) -> float:
        """When `tick` sweeps next."""
        return -inf if self._due is None else self._due

    def tick(self, now: float) -> None:
        if self._due is not None and now < self._due:
            return
        late = 0.0 if self._due is None else now - self._due
        self._due = now + self._every_seconds
        for one in self._swept:
            if late > self._every_seconds:
                one.excuse(late, now)
            one.sweep(now)
