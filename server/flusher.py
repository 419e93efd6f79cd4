"""Group commit: one task syncs the metadata log for all answers that wait for it, and stores reservations of offsets.

An answer may leave when all metadata records that it depends on are durable, and all reservations of offsets
(`LogEndKeeper`) that were made before it. While one fsync runs in a thread, further batches
are appended; they share the next fsync. An fsync is never delayed to collect more batches.
"""

from collections.abc import Callable

import trio

from klamm.broker.kept_partitions import KeptPartitions, Sync
from klamm.controller.metadata_log import MetadataLog
from klamm.server.durations import Durations
from klamm.server.log_end_keeper import LogEndKeeper, Taken


class Flusher:
    """Waits for appended batches and syncs them. If a sync fails, `flush_forever` raises, and the server stops."""

    def __init__(
        self,
        log: MetadataLog,
        on_durable: Callable[[int], None] | None = None,
        kept: KeptPartitions | None = None,
    ) -> None:
        """`kept`: the partitions of internal topics, which are synced behind the metadata log."""
        self.log_ends: LogEndKeeper | None = None
        """The reservations of offsets. Set by the server; None: there are none."""
        self.durations = Durations()
        """How long each sync of the log took, with its thread."""
        self._log = log
        self._kept = kept
        self._on_durable = on_durable or (lambda _durable_offset: None)
        self._waiters = trio.lowlevel.ParkingLot()
        self._observers = trio.lowlevel.ParkingLot()
        self._observed_offset = log.durable_offset
        """Up to where the log was durable when the tasks in `wait_for_more` were last woken."""
        self._appended = trio.Event()

    def notice(self) -> None:
        """Start a sync if the log has grown, offsets were reserved, or records of internal topics were written. Call
        this after every action that may do so."""
        if self._is_outdated:
            self._appended.set()
        else:
            self._wake_observers()  # a log in memory is durable at once
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

    async def wait_for_more(self, offset: int) -> None:
        """Return when a metadata record at `offset` or above is durable, whenever that will be."""
        while self._log.durable_offset <= offset:
            await self._observers.park()

    async def wait_all_durable(self) -> None:
        """Return when all records that have been appended before this call are durable."""
        await self.wait_durable(self._log.end_offset)

    async def flush(self) -> None:
        """Sync the log and the internal topics once, store the reservations, and wake the tasks that wait for it."""
        if self._is_outdated:
            log_ends, kept = self.log_ends, self._kept
            taken = log_ends.take() if log_ends is not None and log_ends.has_work else None
            work = kept.begin_sync() if kept is not None else None
            began = trio.current_time()
            await trio.to_thread.run_sync(self._sync, taken, work)
            self.durations.add(trio.current_time() - began)
            if log_ends is not None and taken is not None:
                log_ends.durable = taken.made
            if kept is not None and work is not None:
                kept.end_sync(work)
        self._waiters.unpark_all()
        self._wake_observers()
        self._on_durable(self._log.durable_offset)

    def _wake_observers(self) -> None:
        if self._log.durable_offset > self._observed_offset:
            self._observed_offset = self._log.durable_offset
            self._observers.unpark_all()

    def sync_now(self) -> None:
        """Sync the log and the internal topics. Blocks: call this when no task runs any more."""
        self._sync(None, None if self._kept is None else self._kept.begin_sync())

    @property
    def _is_outdated(self) -> bool:
        return (
            self._log.end_offset > self._log.durable_offset
            or (self.log_ends is not None and self.log_ends.has_work)
            or (self._kept is not None and self._kept.needs_sync)
        )

    def _sync(self, taken: Taken | None, work: Sync | None) -> None:
        if self._log.end_offset > self._log.durable_offset:
            self._log.sync()  # before the reservations and the files of deleted topics may be forgotten
        if self.log_ends is not None and taken is not None:
            self.log_ends.store(taken)
        if self._kept is not None and work is not None:
            self._kept.sync(work)

    async def flush_forever(self) -> None:
        """Flush whenever `notice` or `wait_durable` has found appended records that are not durable."""
        while True:
            await self._appended.wait()
            self._appended = trio.Event()
            await self.flush()
