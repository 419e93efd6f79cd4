"""Group commit: one task that makes the log durable, for everybody who waits.

An answer may leave when everything it saw is durable. While one fsync runs in a thread, further batches are appended;
they share the next one. Nothing is delayed in the hope of company. What is appended, and by whom, is not known here.
"""

from collections.abc import Callable

import trio

from klamm.controller.metadata_log import MetadataLog


class Flusher:
    """Waits for appended batches and syncs them. A failing sync ends `flush_forever`, and with it the server."""

    def __init__(self, log: MetadataLog, on_durable: Callable[[int], None] | None = None) -> None:
        self._log = log
        self._on_durable = on_durable or (lambda _durable_offset: None)
        self._waiters = trio.lowlevel.ParkingLot()
        self._appended = trio.Event()

    def notice(self) -> None:
        """To be called after anything may have been appended."""
        if self._log.end_offset > self._log.durable_offset:
            self._appended.set()
        else:
            self._on_durable(self._log.durable_offset)

    def is_durable(self, offset: int) -> bool:
        """Whether everything below `offset` is safe."""
        return self._log.durable_offset >= offset

    async def wait_durable(self, offset: int) -> None:
        """Return when everything below `offset` is safe; at once if it is."""
        while self._log.durable_offset < offset:
            self._appended.set()
            await self._waiters.park()

    async def wait_all_durable(self) -> None:
        """Return when everything that has been appended so far is safe."""
        await self.wait_durable(self._log.end_offset)

    async def flush(self) -> None:
        """Make durable what has been appended so far."""
        if self._log.end_offset > self._log.durable_offset:
            await trio.to_thread.run_sync(self._log.sync)
        self._waiters.unpark_all()
        self._on_durable(self._log.durable_offset)

    async def flush_forever(self) -> None:
        """Flush whenever `notice` has something to flush."""
        while True:
            await self._appended.wait()
            self._appended = trio.Event()
            await self.flush()
