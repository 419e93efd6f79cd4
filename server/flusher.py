"""Group commit: one task syncs the metadata log for all answers that wait for it.

An answer may leave when all records that it depends on are durable. While one fsync runs in a thread, further batches
are appended; they share the next fsync. An fsync is never delayed to collect more batches.
"""

from collections.abc import Callable

import trio

from klamm.broker.kept_partitions import KeptPartitions, Sync
from klamm.controller.metadata_log import MetadataLog


class Flusher:
    """Waits for appended batches and syncs them. If a sync fails, `flush_forever` raises, and the server stops."""

    def __init__(
        self,
        log: MetadataLog,
        on_durable: Callable[[int], None] | None = None,
        kept: KeptPartitions | None = None,
    ) -> None:
        """`kept`: the partitions of internal topics, which are synced behind the metadata log."""
        self._log = log
        self._kept = kept
        self._on_durable = on_durable or (lambda _durable_offset: None)
        self._waiters = trio.lowlevel.ParkingLot()
        self._appended = trio.Event()

    def notice(self) -> None:
        """Start a sync if the log has grown. Call this after every action that may append records."""
        if self._is_outdated:
            self._appended.set()
        else:
            self._on_durable(self._log.durable_offset)

    def is_durable(self, offset: int) -> bool:
        """Whether all records below `offset` are durable."""
        return self._log.durable_offset >= offset

    async def wait_durable(self, offset: int) -> None:
        """Return when all records below `offset` are durable."""
        while self._log.durable_offset < offset:
            self._appended.set()
            await self._waiters.park()

    async def wait_all_durable(self) -> None:
        """Return when all records that have been appended before this call are durable."""
        await self.wait_durable(self._log.end_offset)

    async def flush(self) -> None:
        """Sync the log once, and wake the tasks that wait for it."""
        if self._is_outdated:
            work = None if self._kept is None else self._kept.begin_sync()
            await trio.to_thread.run_sync(self._sync, work)
            if self._kept is not None and work is not None:
                self._kept.end_sync(work)
        self._waiters.unpark_all()
        self._on_durable(self._log.durable_offset)

    def sync_now(self) -> None:
        """Sync everything. Blocks: call this when no task runs any more."""
        work = None if self._kept is None else self._kept.begin_sync()
        self._sync(work)

    @property
    def _is_outdated(self) -> bool:
        return self._log.end_offset > self._log.durable_offset or (self._kept is not None and self._kept.needs_sync)

    def _sync(self, work: Sync | None) -> None:
        self._log.sync()
        if self._kept is not None and work is not None:
            self._kept.sync(work)

    async def flush_forever(self) -> None:
        """Flush whenever `notice` or `wait_durable` has found appended records that are not durable."""
        while True:
            await self._appended.wait()
            self._appended = trio.Event()
            await self.flush()
