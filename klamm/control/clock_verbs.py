"""The controller's clock from Python, for `klamm.ControlClient`, `klamm.ServerProcess` and the fixture.

Standard library alone.
"""

from collections.abc import Mapping
from typing import Any

from klamm.control.durations import Duration, milliseconds

__tracebackhide__ = True
"""pytest shows the line of the test that called, not the frames of this module."""


class ClockVerbs:
    """The methods about time."""

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """The JSON of the answer to a request of the control interface."""
        raise NotImplementedError

    def now_ms(self) -> int:
        """The controller's time, in ms since 1970."""
        now: int = self.ask("GET", "/clock")["now_ms"]
        return now

    def advance(self, duration: Duration) -> int:
        """Advance a manual clock (`--clock manual`). `duration` is a number of ms, a text such as "5m", or a timedelta.
        Returns the controller's time, in ms since 1970."""
        now: int = self.ask("POST", "/clock/advance", {"ms": milliseconds(duration)})["now_ms"]
        return now
