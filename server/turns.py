"""Who has to wait for a long request, and how those that do not are let in.

A request that comes to much is decided in steps (`klamm.controller.long_decision`). Whoever would change something
meanwhile queues for `Turns.of_changes`; requests that only look are served between two steps.
"""

import trio

TURNS_BETWEEN_STEPS = 8
"""Of trio's scheduler, between two steps of long work: an answer takes two or three, with a disk six."""


class Turns:
    """Of one server."""

    def __init__(self) -> None:
        self.of_changes = trio.Lock()
        """Held while a long request is decided, and by those who found one and waited, in the order they came."""

    async def let_others_in(self) -> None:
        """Return when everybody else has had their turn."""
        for _ in range(TURNS_BETWEEN_STEPS):
            await trio.lowlevel.checkpoint()
