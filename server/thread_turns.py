"""Work in a thread beside the event loop: one piece at a time, with short turns of Python's lock."""

import sys
from collections.abc import Callable
from typing import Final, TypeVar

import trio

SWITCH_SECONDS: Final = 0.0005
"""Python's switch interval while a thread works. A small request needs the lock some five times."""

T = TypeVar("T")


async def in_thread(work: Callable[[], T], limiter: trio.CapacityLimiter) -> T:
    """The result of `work`, called in a thread. `limiter` lets in one at a time. A thread whose task is cancelled works
    on, and the next one waits until it has ended."""
    return await trio.to_thread.run_sync(_in_short_turns, work, abandon_on_cancel=True, limiter=limiter)


def _in_short_turns(work: Callable[[], T]) -> T:
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, SWITCH_SECONDS))
    try:
        return work()
    finally:
        sys.setswitchinterval(before)
