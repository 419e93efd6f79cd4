"""The lock for changes during a long request, the pauses in which other requests are served, turns of large responses.

A large request is decided in steps (`klamm.controller.long_decision`). Meanwhile, requests that would change something
wait for `Turns.of_changes`; requests that only read are served between two steps.
"""

import trio

from klamm.server.bulk_turns import BulkTurns

TURNS_BETWEEN_STEPS = 8
"""Turns of trio's scheduler between two steps of long work. An answer needs two or three, or six if it waits for an
fsync."""


class Turns:
    """The lock and the pauses of one server."""

    def __init__(self) -> None:
        self.of_changes = trio.Lock()
        """Held while a long request or a step of background work is decided, and by requests that waited for one. Tasks
        get it in the order in which they began to wait."""
        self.of_large = trio.Lock()
        """Held by the one large request that is decoded and decided in a thread, so that only one large request at a
        time is among those that wait for `of_changes`."""
        self.threads = trio.CapacityLimiter(1)
        """For the thread of large requests."""
        self.bulk = BulkTurns()
        """For large responses."""

    async def let_others_in(self) -> None:
        """Return after `TURNS_BETWEEN_STEPS` turns of trio's scheduler."""
        for _ in range(TURNS_BETWEEN_STEPS):
            await trio.lowlevel.checkpoint()
