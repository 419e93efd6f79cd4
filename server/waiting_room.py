"""Where answers wait for record data: until something becomes of a partition that they ask about, or their time comes.

What they wait for, and whether it is there, they know themselves (`klamm.controller.outcome.Waiting`). Kafka calls the
same place purgatory.
"""

from collections.abc import Collection

import trio

from klamm.controller.data.watches import LogKey, Watches


class WaitingRoom:
    """All waiting answers. `watches` wakes each when one of its partitions changes."""

    def __init__(self, watches: Watches) -> None:
        self._watches = watches
        self._waiting: set[trio.Event] = set()
        self._is_closed = False

    def close(self) -> None:
        """Nobody is to wait any longer: the server stops."""
        self._is_closed = True
        for event in self._waiting:
            event.set()

    async def wait(self, partitions: Collection[LogKey], milliseconds: int) -> bool:
        """Wait until one of the partitions changes or the time is over. Returns False when the server stops."""
        if self._is_closed:
            return False
        event = trio.Event()

        def wake(_key: LogKey) -> None:
            event.set()

        self._waiting.add(event)
        self._watches.add(partitions, wake)
        try:
            with trio.move_on_after(milliseconds / 1000):
                await event.wait()
        finally:
            self._watches.remove(partitions, wake)
            self._waiting.discard(event)
        return not self._is_closed
