"""Group commit: one task syncs the metadata log for all answers that wait for it, and stores reservations of offsets.

An answer may leave when all metadata records that it depends on are durable, and all reservations of offsets
(`LogEndKeeper`) that were made before it. While one fsync runs in a thread, further batches
are appended; they share the next fsync. An fsync is never delayed to collect more batches.
"""

from collections.abc import Callable

import trio

from klamm.controller.metadata_log import MetadataLog
from klamm.server.log_end_keeper import LogEndKeeper, Taken


class Flusher:
    """Waits for appended batches and syncs them. If a sync fails, `flush_forever` raises, and the server stops."""

    def __init__(self, log: MetadataLog, on_durable: Callable[[int], None] | None = None) -> None:
        self.log_ends: LogEndKeeper | None = None
        """The reservations of offsets. Set by the server; None: there are none."""
        self._log = log
        self._on_durable = on_durable or (lambda _durable_offset: None)
        self._waiters = trio.lowlevel.ParkingLot()
        self._appended = trio.Event()

    def notice(self) -> None:
        """Start a sync if the log has grown or offsets were reserved. Call this after every action that may do so."""
        if self._log.end_offset > self._log.durable_offset or (self.log_ends is not None and self.log_ends.has_work):
            self._appended.set()
        else:
            self._on_durable(self._log.durable_offset)

    @property
    def reservations(self) -> int:
        """How many reservations of offsets were made so far, for `is_durable` and `wait_durable`."""
        return 0 if self.log_ends is None else self.log_ends.made

    def is_durable(self, offset: int, reservations: int = 0) -> bool:
        """Whether all metadata records below `offset` are durable, and so many reservations of offsets."""
        return self._log.durable_offset >= offset and (self.log_ends is None or self.log_ends.durable >= reservations)

    async def wait_durable(self, offset: int, reservations: int = 0) -> None:
        """Return when all metadata records below `offset` are durable, and so many reservations of offsets."""
        while not self.is_durable(offset, reservations):
            self._appended.set()
            await self._waiters.park()

    async def wait_all_durable(self) -> None:
        """Return when all records that have been appended before this call are durable."""
        await self.wait_durable(self._log.end_offset)

    async def flush(self) -> None:
        """Sync the log once, store the reservations, and wake the tasks that wait for it."""
        log_ends = self.log_ends
        if log_ends is not None and log_ends.has_work:
            taken = log_ends.take()
            await trio.to_thread.run_sync(self._sync_and_store, log_ends, taken)
            log_ends.durable = taken.made
        elif self._log.end_offset > self._log.durable_offset:
            await trio.to_thread.run_sync(self._log.sync)
        self._waiters.unpark_all()
        self._on_durable(self._log.durable_offset)

    def _sync_and_store(self, log_ends: LogEndKeeper, taken: Taken) -> None:
        if self._log.end_offset > self._log.durable_offset:
            self._log.sync()  # before the reservations of deleted topics may be forgotten
        log_ends.store(taken)

    async def flush_forever(self) -> None:
        """Flush whenever `notice` or `wait_durable` has found appended records that are not durable."""
        while True:
            await self._appended.wait()
            self._appended = trio.Event()
            await self.flush()
