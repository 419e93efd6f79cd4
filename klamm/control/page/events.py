"""The newest events of the page, as bytes: all listeners read the same ones, each from its own place.

A listener costs a number here, however slow it is. One whose place has been dropped has to begin with a snapshot again.
"""

from collections import deque
from itertools import islice
from typing import Final

import trio

MAX_BYTES: Final = 8 * 1024 * 1024
"""All kept events together; the oldest are dropped. A change of 262,144 partitions takes 5.6 MiB."""


class Events:
    """Events by number, the newest `max_bytes` of them."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._events: deque[bytes] = deque()
        self._bytes = 0
        self._max_bytes = max_bytes
        self._news = trio.Event()
        self.count = 0
        """How many events there were so far."""
        self.is_over = False
        """Whether no event follows, because the server stops."""

    def add(self, name: str, data: bytes) -> None:
        """Add an event; its data is one line."""
        self.count += 1
        event = b"id: %d\nevent: %b\ndata: %b\n\n" % (self.count, name.encode(), data)
        self._events.append(event)
        self._bytes += len(event)
        while self._bytes > self._max_bytes and len(self._events) > 1:
            self._bytes -= len(self._events.popleft())
        self._wake()

    def drop_all(self) -> None:
        """Drop all events: who has not read them begins again."""
        self._events.clear()
        self._bytes = 0
        self.count += 1
        self._wake()

    def end(self) -> None:
        """Let all listeners go."""
        self.is_over = True
        self._wake()

    def after(self, number: int, max_bytes: int) -> tuple[bytes, int] | None:
        """The events behind that of a number, about `max_bytes` of them and one at least, with the number of the last
        one. None: the next one is not kept any more, or there never was one of this number."""
        first = self.count - len(self._events)
        if not first <= number <= self.count:
            return None
        found: list[bytes] = []
        size = 0
        for event in islice(self._events, number - first, None):
            found.append(event)
            size += len(event)
            if size >= max_bytes:
                break
        return b"".join(found), number + len(found)

    async def wait(self, number: int, timeout_seconds: float) -> None:
        """Return when there is an event behind that of a number, or after a while."""
        with trio.move_on_after(timeout_seconds):
            while self.count == number and not self.is_over:
                await self._news.wait()

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()
