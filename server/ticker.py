"""Lets time pass: for the simulated brokers, in the controller, for connections and for the request log.

One task, because the order matters: brokers beat before the controller looks whose session is over. It runs on trio's
clock, so that a test's clock moves everything.
"""

from collections.abc import Callable, Sequence

import trio

from klamm.server.event_log import EventLog


class Ticker:
    """Calls each of `every_tick` every `tick_seconds`, in order, with the time."""

    def __init__(
        self,
        every_tick: Sequence[Callable[[float], None]],
        tick_seconds: float,
        events: EventLog,
        fatal_errors: tuple[type[Exception], ...],
    ) -> None:
        self._every_tick = every_tick
        self._tick_seconds = tick_seconds
        self._events = events
        self._fatal_errors = fatal_errors

    async def tick_forever(self) -> None:
        """Tick until cancelled. A tick that comes late (the process was busy, or asleep) is not made up for."""
        due = trio.current_time()
        while True:
            due = max(due + self._tick_seconds, trio.current_time())
            await trio.sleep_until(due)
            self._tick(trio.current_time())

    def _tick(self, now: float) -> None:
        for call in self._every_tick:
            try:
                call(now)
            except self._fatal_errors:
                raise
            except Exception as error:  # noqa: BLE001 - a bug in one of them must not stop the time of the others
                self._events.exception_rarely("bug: tick failed", error)
