"""Takes snapshots of the metadata log: when many records came, when somebody asks, and at the end.

Many are as many as were asked for, and no fewer than the last snapshot holds: so all snapshots together cost no more
than a multiple of what they are about. While records come thick and fast the processor is theirs, for a while. The
event loop copies the image, about 20 ms for a million partitions; a thread makes the records and writes them. It takes
short turns with the event loop and rests half of the time, so that whoever asks something meanwhile waits little.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

from klamm.controller.core import Controller
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata_log import MetadataLog, Snapshot, SnapshotFailed
from klamm.server.event_log import EventLog
from klamm.server.flusher import Flusher

LOOK_SECONDS: Final = 1.0
"""A log that does not grow between two looks rests."""
PATIENCE_SECONDS: Final = 30.0
"""For so long a snapshot that is due waits until the log rests."""
REST_SECONDS: Final = 60.0
"""After one that could not be written, as on a full disk."""
SWITCH_SECONDS: Final = 0.0005
"""So long one thread waits for another that computes; Python's own 5 ms come several times into each answer."""
WORK_SECONDS: Final = 0.002
"""Of computing, after which a thread that writes a snapshot rests for as long."""


class NoSnapshots(SnapshotFailed):
    """The log is in memory, where there are none."""


class SnapshotKeeper:
    """One snapshot at a time. `every_records` 0: only when somebody asks."""

    def __init__(
        self, controller: Controller, log: MetadataLog, flusher: Flusher, events: EventLog, every_records: int
    ) -> None:
        self._controller = controller
        self._log = log
        self._flusher = flusher
        self._events = events
        self._every_records = every_records
        self._one_at_a_time = trio.Lock()
        self._began_at = log.end_offset
        self._has_grown = True  # since the last look
        controller.subscribe(self._follow)

    def _follow(self, _delta: Delta) -> None:
        self._has_grown = True

    async def keep_forever(self) -> None:
        """Until cancelled, or until it is clear that there is nothing to do. Raises LogError if the log is broken."""
        due_since: float | None = None
        while self._every_records:
            now = trio.current_time()
            rests, self._has_grown = not self._has_grown, False
            if self._is_due():
                due_since = now if due_since is None else due_since
                if rests or now >= due_since + PATIENCE_SECONDS:
                    due_since = None
                    try:
                        await self.take()
                    except NoSnapshots:
                        return
                    except SnapshotFailed as error:
                        self._warn(error)
                        await trio.sleep(REST_SECONDS)
            await trio.sleep(LOOK_SECONDS)

    async def take(self) -> Snapshot:
        """A snapshot that stands for all that is in the log now. Raises SnapshotFailed, and LogError if the log is
        broken."""
        async with self._one_at_a_time:
            newest = self._log.snapshot
            if newest is not None and newest.end_offset == self._log.end_offset:
                return newest
            room = await trio.to_thread.run_sync(self._controller.snapshot_room)
            pending = self._controller.begin_snapshot(roll=True, room=room)
            if pending is None:
                raise NoSnapshots("the metadata log is in memory, and snapshots need a data directory")
            await self._flusher.wait_durable(pending.place.end_offset)
            with _short_turns():
                return await trio.to_thread.run_sync(pending.write, _Rests())

    def take_now(self) -> None:
        """To be called at the end, when nothing comes any more and the log is durable. The log does not roll: one that
        is started often and does little keeps its history."""
        newest = self._log.snapshot
        end_offset = self._log.end_offset
        # Each start begins an epoch with one record, which says nothing that the next start would not say anew.
        idle = newest is not None and newest.end_offset >= end_offset - (end_offset == self._began_at)
        if not self._every_records or idle:
            return
        pending = self._controller.begin_snapshot(roll=False)
        if pending is not None:
            try:
                pending.write()
            except SnapshotFailed as error:
                self._warn(error)

    def _is_due(self) -> bool:
        newest = self._log.snapshot or Snapshot(0, 0)
        return self._log.end_offset - newest.end_offset >= max(self._every_records, newest.record_count)

    def _warn(self, error: Exception) -> None:
        self._events.warning("no snapshot was written", reason=str(error))


class _Rests:
    """To be called by one thread, between two pieces of its work: its clock runs from the first call on."""

    def __init__(self) -> None:
        self._rested_at: float | None = None

    def __call__(self) -> None:
        now = time.thread_time()
        if self._rested_at is None:
            self._rested_at = now
        elif now - self._rested_at >= WORK_SECONDS:
            time.sleep(now - self._rested_at)
            self._rested_at = time.thread_time()


@contextmanager
def _short_turns() -> Iterator[None]:
    """Threads take turns more often. It holds for the whole process, and is put back."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, SWITCH_SECONDS))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
