"""The controller's clock: real, or manual, which a test advances (docs/time.md).

Everything that expires in the cluster goes by it: sessions, rebalances, transactions, replication, and the duration of
fault rules. What a client asked to wait for, handshakes and idle connections go by trio's clock.
"""

import trio


class RealClock:
    """A monotonic clock in ms since 1970. Sessions must not expire because the machine's clock is set."""

    def __init__(self, start_ms: int) -> None:
        self._start_ms = start_ms
        self._started = trio.current_time()

    def __call__(self) -> int:
        return self._start_ms + int((trio.current_time() - self._started) * 1000)


class ManualClock:
    """A clock that stands still between two calls of `advance`."""

    def __init__(self, start_ms: int) -> None:
        self._now_ms = start_ms

    def __call__(self) -> int:
        return self._now_ms

    def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass."""
        self._now_ms += ms
