"""Turns of large responses: only a few are sent at a time, and small ones of other connections are sent between them.

Without turns, a thousand observers that each fetch a megabyte of the metadata log would all be served in the same turn
of trio's scheduler, and every other client would wait for the whole gigabyte.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

SENDERS: Final = 4
"""The most large responses that are sent at a time, apart from those of slow clients."""
TURN_SECONDS: Final = 0.01
"""A client that has not taken the whole response after this time no longer counts as one of the `SENDERS`."""


class BulkTurns:
    """The turns of all connections of a server."""

    def __init__(self) -> None:
        self._first = trio.Lock()
        """Held by the connection that has the next turn. Connections get the lock in the order of their requests for
        it, one in each turn of trio's scheduler."""
        self._senders: dict[object, float] = {}
        """When the turn of each sender ends, on trio's clock, in seconds. The first to end is first."""
        self._ended = trio.Event()
        self._readers = trio.lowlevel.ParkingLot()
        """The tasks in `few_wait`."""

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn. The connection sends its response in the block, which may take longer than the turn."""
        sender = object()
        try:
            async with self._first:
                await self._wait_for_room()
                self._senders[sender] = trio.current_time() + TURN_SECONDS
        finally:
            self._readers.unpark_all()
        try:
            yield
        finally:
            self._senders.pop(sender, None)
            self._ended.set()

    async def few_wait(self) -> None:
        """Return when at most `SENDERS` connections wait for a turn. A caller makes a response afterwards, so that the
        memory of all of them is bounded."""
        while self._first.statistics().tasks_waiting > SENDERS:
            await self._readers.park()

    async def _wait_for_room(self) -> None:
        while len(self._senders) >= SENDERS:
            oldest, ends_at = next(iter(self._senders.items()))
            self._ended = trio.Event()
            with trio.move_on_at(ends_at) as scope:
                await self._ended.wait()
            if scope.cancelled_caught:
                self._senders.pop(oldest, None)
