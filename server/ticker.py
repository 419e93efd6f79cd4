"""Runs periodic work: of the simulated brokers, the controller, the connections and the request log.

It is one task because the order matters: brokers send heartbeats before the controller expires sessions. It uses trio's
clock, so that a test can replace that clock. Ticks at which nothing is due are left out: an idle process does not wake.
"""

from collections.abc import Callable, Sequence
from math import ceil, inf

import trio

from klamm.server.event_log import EventLog


class Ticker:
    """Calls each function of `every_tick` at ticks, in order, with the time on trio's clock (seconds). Two ticks are
    `tick_seconds` or a multiple of it apart."""

    def __init__(
        self,
        every_tick: Sequence[Callable[[float], None]],
        tick_seconds: float,
        events: EventLog,
        fatal_errors: tuple[type[Exception], ...],
        next_due: Callable[[float], float] = lambda _now: -inf,
    ) -> None:
        """`next_due` returns when a function of `every_tick` has something to do if `touch` is not called before, on
        trio's clock: there is no tick before that. Without it, no tick is left out."""
        self._every_tick = every_tick
        self._tick_seconds = tick_seconds
        self._events = events
        self._fatal_errors = fatal_errors
        self._next_due = next_due
        self._touched = trio.Event()

    def touch(self) -> None:
        """Leave out no further tick: something has happened that may have given the functions something to do."""
        self._touched.set()

    async def tick_forever(self) -> None:
        """Tick until cancelled. After a delay (the process was busy or suspended) missed ticks are left out."""
        due = trio.current_time()
        while True:
            due = await self._wanted(max(due + self._tick_seconds, trio.current_time()))
            await trio.sleep_until(due)
            self._touched = trio.Event()
            self._tick(trio.current_time())

    async def _wanted(self, due: float) -> float:
        """The time of the next tick that is not left out; `due` is that of the next one."""
        if self._touched.is_set() or (wanted := self._next_due(trio.current_time())) <= due:
            return due
        with trio.move_on_at(self._at_or_after(due, wanted)) as over:
            await self._touched.wait()
        return over.deadline if over.cancelled_caught else self._at_or_after(due, trio.current_time())

    def _at_or_after(self, due: float, wanted: float) -> float:
        """The time of the first tick at or after `wanted`; `due` is that of any one before."""
        return wanted if wanted == inf else due + max(0, ceil((wanted - due) / self._tick_seconds)) * self._tick_seconds

    def _tick(self, now: float) -> None:
        for call in self._every_tick:
            try:
                call(now)
            except self._fatal_errors:
                raise
            except Exception as error:  # noqa: BLE001 - a bug in one function must not stop the others
                self._events.exception_rarely("bug: tick failed", error)
