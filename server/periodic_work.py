"""What the ticker of a server calls at its ticks, and when the next tick has something to do.

Sessions, timers of coordinators, retention and the like say when they are due. What happens between two ticks may make
them due sooner: requests to brokers, records of the metadata log, changes by hand and closed connections touch the
ticker (`Server`).
"""

from collections.abc import Callable, Sequence
from math import inf

from klamm.server.advancing import Advancing
from klamm.server.brokers import BrokerLives
from klamm.server.flusher import Flusher
from klamm.server.parts import ServerParts
from klamm.server.sweeper import Sweeper
from klamm.server.wakeups import Wakeups


class PeriodicWork:
    """The periodic work of one server."""

    def __init__(
        self,
        parts: ServerParts,
        lives: BrokerLives,
        flusher: Flusher,
        wakeups: Wakeups,
        time: Advancing,
        sweeper: Sweeper,
        settle: Callable[[], None],
        want_work: Callable[[], None],
    ) -> None:
        """`settle` does what is due with a manual clock. `want_work` is called when there is background work."""
        self._parts = parts
        self._lives = lives
        self._flusher = flusher
        self._wakeups = wakeups
        self._time = time
        self._sweeper = sweeper
        self._settle = settle
        self._want_work = want_work

    @property
    def every_tick(self) -> Sequence[Callable[[float], None]]:
        """What to call at each tick, in this order, with trio's time in seconds."""
        return (
            self._lives.beat,
            self._tick_controller,
            self._sweeper.tick,
            self._time.warn_once,
            self._flush_request_log,
        )

    def next_due(self, now: float) -> float:
        """When `every_tick` has something to do if nothing happens before, on trio's clock."""
        log = self._parts.request_log
        if self._wakeups.has_waiting or (log is not None and log.has_lines):
            return now
        return min(self._sweeper.next_due, self._lives.next_beat_at, self._next_controller_tick(now))

    def _next_controller_tick(self, now: float) -> float:
        if self._time.is_manual:
            return inf
        # The controller's clock omits fractions of a millisecond.
        return now + (self._parts.next_due_ms - self._parts.clock_ms() - 1) / 1000

    def _tick_controller(self, _now: float) -> None:
        if not self._time.is_manual:  # else what is due is done after each request and each change (`Advancing`)
            self._parts.tick()
            self._flusher.notice()
            if self._parts.has_work:
                self._want_work()

    def _flush_request_log(self, _now: float) -> None:
        self._wakeups.touch()
        if self._parts.request_log is not None and self._parts.request_log.flush_to_topic():
            self._settle()
