"""Runs periodic work: of the simulated brokers, the controller, the connections and the request log.

It is one task because the order matters: brokers send heartbeats before the controller expires sessions. It uses trio's
clock, so that a test can replace that clock.
"""

from collections.abc import Callable, Sequence

import trio

from klamm.server.event_log import EventLog


class Ticker:
    """Calls each function of `every_tick` every `tick_seconds`, in order, with the time on trio's clock (seconds)."""

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
        """Tick until cancelled. After a delay (the process was busy or suspended) missed ticks are left out."""
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
            except Exception as error:  # noqa: BLE001 - a bug in one function must not stop the others
                self._events.exception_rarely("bug: tick failed", error)
