"""Where answers wait until they are complete: woken by their keys, or when it is time to try again.

What completes an answer, and when to try, the answer knows itself (`klamm.controller.delayed_answer`).
"""

import trio

from klamm.controller.data.watches import Watches
from klamm.controller.delayed_answer import DelayedAnswer, Key


class ServerStops(Exception):
    """An answer is not going to be complete: the server stops before."""


class Purgatory:
    """All answers that wait. `watches` wakes each when something changes of one of its keys."""

    def __init__(self, watches: Watches) -> None:
        self._watches = watches
        self._waiting: set[trio.Event] = set()
        self._is_closed = False

    def close(self) -> None:
        """Let nobody wait any longer: the server stops."""
        self._is_closed = True
        for event in self._waiting:
            event.set()

    async def wait(self, answer: DelayedAnswer, now_ms: int) -> None:
        """Return when one of the answer's keys is woken, or when it is time to try again. Raises ServerStops."""
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
