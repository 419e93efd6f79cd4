"""The purgatory: delayed answers wait here until one of their keys changes or until it is time to try again.

The answer itself decides when it is complete (`klamm.controller.delayed_answer`).
"""

import trio

from klamm.broker.data.watches import Watches
from klamm.controller.delayed_answer import DelayedAnswer, Key


class ServerStops(Exception):
    """A delayed answer will never be complete because the server stops."""


class Purgatory:
    """All delayed answers that wait. `watches` wakes an answer when one of its keys changes."""

    def __init__(self, watches: Watches) -> None:
        self._watches = watches
        self._waiting: set[trio.Event] = set()
        self._is_closed = False

    def close(self) -> None:
        """End every wait, now and later, with ServerStops."""
        self._is_closed = True
        for event in self._waiting:
            event.set()

    async def wait(self, answer: DelayedAnswer, now_ms: int) -> None:
        """Return when one of the answer's keys changes or when its `retry_at_ms` has come. Raises ServerStops."""
        if self._is_closed:
            raise ServerStops
        keys, event = answer.keys, trio.Event()

        def wake(_key: Key) -> None:
            event.set()

        self._waiting.add(event)
        self._watches.add(keys, wake)
        try:
            with trio.move_on_after(max(1, answer.retry_at_ms - now_ms) / 1000):
                await event.wait()
        finally:
            self._watches.remove(keys, wake)
            self._waiting.discard(event)
        if self._is_closed:
            raise ServerStops
