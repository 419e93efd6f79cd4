"""Waiting for something in a running server: hits of fault rules, requests, metadata. For the control interface.

A condition is asked again whenever something has happened that may have changed it: each touch wakes all that wait.
"""

from collections.abc import Callable
from typing import TypeVar

import trio

from klamm.controller.core import Controller

T = TypeVar("T")


class Wakeups:
    """Everything that waits in one server."""

    def __init__(self, controller: Controller, waits: Callable[[], None] = lambda: None) -> None:
        """Each change of the metadata wakes all. `waits` is called when a wait begins."""
        self._waits = waits
        self._waiting: set[trio.Event] = set()
        controller.subscribe(lambda _: self.touch())

    @property
    def has_waiting(self) -> bool:
        """Whether something waits. Its condition may depend on time."""
        return bool(self._waiting)

    def touch(self) -> None:
        """Let all conditions be asked again."""
        if self._waiting:
            for event in self._waiting:
                event.set()
            self._waiting.clear()

    async def until(self, condition: Callable[[], T | None], timeout_seconds: float) -> T | None:
        """The first value of `condition` that is not None; None after `timeout_seconds` on trio's clock."""
        with trio.move_on_after(timeout_seconds):
            while (found := condition()) is None:
                event = trio.Event()
                self._waiting.add(event)
                self._waits()
                try:
                    await event.wait()
                finally:
                    self._waiting.discard(event)
            return found
        return condition()
