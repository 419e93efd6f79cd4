"""Rates over sliding windows, and token buckets: how Kafka measures what a client uses of a quota.

A rate is a sum over the last windows divided by their length, so a client may use up the quota of all windows at once
and is then throttled (Kafka: Rate, SampledStat). A bucket is refilled at the rate of the quota (KIP-599: TokenBucket).
"""

from dataclasses import field
from typing import Final

from klamm.quick_dataclasses import dataclass

MAX_THROTTLE_MS: Final = (1 << 31) - 1
"""The longest throttle time that a response can contain."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows over which a rate is measured: `quota.window.num` and `quota.window.size.seconds`."""

    count: int = 11
    length_ms: int = 1000

    @property
    def span_ms(self) -> int:
        return self.count * self.length_ms


@dataclass(slots=True)
class _Window:
    begin_ms: int
    last_ms: int
    total: float = 0.0

    def clear(self, now_ms: int) -> None:
        self.begin_ms = self.last_ms = now_ms
        self.total = 0.0


@dataclass(slots=True)
class WindowedRate:
    """An amount per second, measured over windows."""

    _each: list[_Window] = field(default_factory=list)
    """In use as a ring: one more than `Windows.count`, because the oldest window may overlap the measured time."""
    _newest: int = 0

    def add(self, amount: float, now_ms: int, windows: Windows) -> None:
        """Count `amount`, which may be negative, in the newest window."""
        if not self._each:
            self._each.append(_Window(now_ms, now_ms))
        newest = self._each[self._newest]
        if now_ms - newest.begin_ms >= windows.length_ms:
            self._newest = (self._newest + 1) % (windows.count + 1)
            if self._newest == len(self._each):
                self._each.append(_Window(now_ms, now_ms))
            newest = self._each[self._newest]
            newest.clear(now_ms)
        newest.total += amount
        newest.last_ms = now_ms

    def throttle_ms(self, bound: float, now_ms: int, windows: Windows) -> int:
        """The time after which the rate is `bound` per second again; 0 if it is not above it."""
        for window in self._each:
            if now_ms - window.last_ms >= windows.span_ms:
                window.clear(now_ms)
        span_ms = self._measured_ms(now_ms, windows)
        rate = sum(window.total for window in self._each) * 1000 / span_ms
        if rate <= bound:
            return 0
        return min(_rounded((rate - bound) / bound * span_ms), MAX_THROTTLE_MS)

    def _measured_ms(self, now_ms: int, windows: Windows) -> int:
        """The time that is measured: never less than all windows but the newest."""
        elapsed_ms = now_ms - min((window.begin_ms for window in self._each), default=now_ms)
        missing = windows.count - 1 - elapsed_ms // windows.length_ms
        return max(elapsed_ms + max(0, missing) * windows.length_ms, 1)


@dataclass(slots=True)
class TokenBucket:
    """Tokens that a client may still use at once; negative while the client owes some. It begins full."""

    tokens: float
    filled_ms: int
    """When `tokens` was computed."""

    def tokens_at(self, rate: float, now_ms: int, windows: Windows) -> float:
        """The tokens at a later time, at `rate` per second: at most those of all windows."""
        refill = rate * max(0, now_ms - self.filled_ms) / 1000
        return min(capacity(rate, windows), self.tokens + refill)


def capacity(rate: float, windows: Windows) -> float:
    """The tokens of a full bucket."""
    return rate * windows.span_ms / 1000


def debt_ms(tokens: float, rate: float) -> int:
    """The time after which a bucket with these tokens has none to pay back; 0 if they are not negative."""
    return min(_rounded(-tokens / rate * 1000), MAX_THROTTLE_MS) if tokens < 0 else 0


def _rounded(number: float) -> int:
    return int(min(number, MAX_THROTTLE_MS) + 0.5)  # as Java rounds
