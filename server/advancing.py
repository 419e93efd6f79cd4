"""Advances a manual clock: in steps, so that what expires first happens first, with heartbeats of all brokers that are
up before each step is judged. No request is decided meanwhile.
"""

from typing import Final

import trio

from klamm.server.brokers import BrokerLives
from klamm.server.flusher import Flusher
from klamm.server.parts import ServerParts
from klamm.server.purgatory import Purgatory
from klamm.server.turns import Turns

STEP_MS: Final = 100
"""The length of a step, as of a tick of a real clock."""
MAX_STEPS: Final = 2_000
"""A longer time than so many steps of `STEP_MS` has longer steps."""
MAX_ADVANCE_MS: Final = 10 * 365 * 24 * 3_600_000
WORK_AT_ONCE: Final = 20
"""The most steps of background work between two turns of other tasks."""
STUCK_SECONDS: Final = 5.0
"""When something waits for a manual clock so long, and it is not advanced, stderr says so once."""


class NoManualClock(Exception):
    """The clock is real. The text is one clause for users."""


class Advancing:
    """The clock of a server and all that follows it."""

    def __init__(
        self, parts: ServerParts, lives: BrokerLives, purgatory: Purgatory, flusher: Flusher, turns: Turns
    ) -> None:
        self._parts = parts
        self._clock = parts.manual_clock
        self._controller = parts.controller
        self._brokers = parts.brokers
        self._events = parts.events
        self._lives = lives
        lives.is_manual = self.is_manual
        self._purgatory = purgatory
        self._flusher = flusher
        self._turns = turns
        self._advanced_at = trio.current_time()
        self._said = False

    @property
    def is_manual(self) -> bool:
        return self._clock is not None

    def settle(self) -> bool:
        """With a manual clock: do what is due now, so that it happens after the same request whenever that comes.
        Returns whether work is left for `Server` to do in steps."""
        if self._clock is None or self._controller.is_deciding:
            return False
        self._parts.tick()
        is_working = self._parts.has_work
        for _ in range(WORK_AT_ONCE):
            if not self._parts.has_work:
                break
            self._parts.work()
        if is_working:
            self._brokers.tick()  # coordinators deliver what the work has decided
        self._purgatory.follow(self._clock())
        return self._parts.has_work

    async def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass. Returns when what happened is durable. Raises NoManualClock."""
        clock = self._clock
        if clock is None:
            raise NoManualClock("the clock is real: start with --clock manual, in Python clock='manual', to advance it")
        async with self._turns.of_changes:
            end_ms = clock() + ms
            step_ms = max(STEP_MS, -(-ms // MAX_STEPS))
            while (left_ms := end_ms - clock()) > 0:
                clock.advance(min(step_ms, left_ms))
                await self._follow(clock())
        self._advanced_at = trio.current_time()
        self._flusher.notice()
        await self._flusher.wait_all_durable()

    async def _follow(self, now_ms: int) -> None:
        self._lives.beat_all(trio.current_time())
        self._parts.tick()
        done = 0
        while self._parts.has_work or self._brokers.is_cleaning:
            if self._parts.has_work:
                self._parts.work()
            else:
                self._brokers.tick()
            done += 1
            if not done % WORK_AT_ONCE:
                await trio.lowlevel.checkpoint()
        self._purgatory.follow(now_ms)

    def warn_once(self, now: float) -> None:
        """Say on stderr that something waits for the clock, if it has not been advanced for long."""
        if self._clock is None or self._said or now - self._advanced_at < STUCK_SECONDS:
            return
        since = min(self._purgatory.waiting_since, self._lives.waiting_since)
        if now - since >= STUCK_SECONDS:
            self._said = True
            self._events.warning(
                "the clock is manual, and requests or brokers wait for it to be advanced (klamm control clock advance)"
            )
