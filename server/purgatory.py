"""The purgatory: delayed answers wait here until one of their keys changes or until it is time to try again.

The answer itself decides when it is complete (`klamm.controller.delayed_answer`).
"""

from math import inf

import trio

from klamm.broker.data.watches import Watches
from klamm.controller.delayed_answer import DelayedAnswer, Key


class ServerStops(Exception):
    """A delayed answer will never be complete because the server stops."""


class Purgatory:
    """All delayed answers that wait. `watches` wakes an answer when one of its keys changes."""

    def __init__(self, watches: Watches, *, is_manual: bool = False) -> None:
        """`is_manual`: the controller's clock is advanced by hand (`follow`)."""
        self._watches = watches
        self._is_manual = is_manual
        self._waiting: dict[trio.Event, tuple[int, float]] = {}
        """When each is tried again, on the controller's clock; since when it waits for that clock, on trio's."""
        self._is_closed = False

    def close(self) -> None:
        """End every wait, now and later, with ServerStops."""
        self._is_closed = True
        for event in self._waiting:
            event.set()

    @property
    def waiting_since(self) -> float:
        """Since when the oldest wait for the controller's clock lasts, on trio's clock; infinite: there is none."""
        return min((since for _, since in self._waiting.values()), default=inf)

    def follow(self, now_ms: int) -> None:
        """A manual clock has been advanced: end the waits that are over."""
        for event, (retry_at_ms, _) in tuple(self._waiting.items()):
            if retry_at_ms <= now_ms:
                event.set()

    async def wait(self, answer: DelayedAnswer, now_ms: int, started: float = 0.0) -> None:
        """Return when one of the answer's keys changes or when its `retry_at_ms` has come. With a manual clock also
        when the time is over that the client asked to wait, since `started` on trio's clock. Raises ServerStops."""
        if self._is_closed:
            raise ServerStops
        if self._is_manual and not answer.retry_at_ms:
            return  # what is due with a manual clock was done behind the request, and has completed it
        keys, event = answer.keys, trio.Event()

        def wake(_key: Key) -> None:
            event.set()

        wanted = getattr(answer, "client_waits_ms", None) if self._is_manual else None
        seconds = self._seconds(answer, now_ms, wanted, started)
        self._waiting[event] = answer.retry_at_ms, inf if wanted is not None else trio.current_time()
        self._watches.add(keys, wake)
        try:
            with trio.move_on_after(seconds) as over:
                await event.wait()
        finally:
            self._watches.remove(keys, wake)
            del self._waiting[event]
        if wanted is not None and over.cancelled_caught:
            answer.expire(now_ms)  # type: ignore[attr-defined]  # what the client waits for has both
        if self._is_closed:
            raise ServerStops

    def _seconds(self, answer: DelayedAnswer, now_ms: int, wanted_ms: int | None, started: float) -> float:
        if not self._is_manual:
            return max(1, answer.retry_at_ms - now_ms) / 1000
        return inf if wanted_ms is None else max(0.001, started + wanted_ms / 1000 - trio.current_time())
