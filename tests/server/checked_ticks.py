"""A ticker that also makes the ticks that `Ticker` leaves out, and demands that they do nothing.

So it finds work whose time `PeriodicWork.next_due` does not know, and changes that do not touch the ticker.
"""

from collections.abc import Callable
from typing import Any

import pytest
import trio

from klamm.broker.coordinator.answer import CoordinatorAnswer
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.watches import Watches
from klamm.controller.core import Controller
from klamm.server.ticker import Ticker

EFFECTS: tuple[tuple[type[Any], str], ...] = (
    (Controller, "_commit"),
    (Controller, "submit"),
    (Controller, "work"),
    (DataPlane, "append"),
    (DataPlane, "delete_before"),
    (Watches, "touch"),
    (CoordinatorAnswer, "set_result"),
)
"""What a tick calls if it has something to do."""


def check_ticks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Make and check the ticks that are left out, for the rest of the test. Returns the list of their times."""
    effects: list[str] = []
    left_out: list[float] = []

    def noted(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            effects.append(name)
            return original(*args, **options)

        return call

    for owner, name in EFFECTS:
        monkeypatch.setattr(owner, name, noted(f"{owner.__name__}.{name}", getattr(owner, name)))

    async def tick_forever(ticker: Ticker) -> None:
        due = trio.current_time()
        while True:
            wanted = ticker._next_due(trio.current_time())
            while True:
                due = max(due + ticker._tick_seconds, trio.current_time())
                await trio.sleep_until(due)
                if ticker._touched.is_set() or wanted <= trio.current_time():
                    break
                effects.clear()
                ticker._tick(trio.current_time())
                assert not effects, f"a tick at {due:.3f}, left out until {wanted:.3f}, calls {effects}"
                left_out.append(due)
            ticker._touched = trio.Event()
            ticker._tick(trio.current_time())

    monkeypatch.setattr(Ticker, "tick_forever", tick_forever)
    return left_out
