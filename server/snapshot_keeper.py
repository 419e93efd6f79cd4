"""Takes snapshots of the metadata log: after many new records, on request, and when the server stops.

A snapshot is due when the log has `every_records` new records and at least as many as the last snapshot holds. So the
cost of all snapshots grows in proportion to the log. While the log grows fast, a snapshot that is due waits, for
`PATIENCE_SECONDS` at most. The event loop copies the image (about 20 ms for a million partitions); a thread makes the
records and writes them. The thread runs in short slices and sleeps half of the time, so that requests wait little.
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
"""The time between two checks whether a snapshot is due. A log that has not grown since the last check rests, and is
checked again when it has grown."""
PATIENCE_SECONDS: Final = 30.0
"""A snapshot that is due waits until the log rests, for this time at most."""
REST_SECONDS: Final = 60.0
"""The pause after a snapshot that could not be written, for example because the disk was full."""
SWITCH_SECONDS: Final = 0.0005
"""Python's switch interval while a snapshot is written. The default of 5 ms would delay each answer several times."""
WORK_SECONDS: Final = 0.002
"""The processor time after which the thread that writes a snapshot sleeps for as long."""


class SnapshotKeeper:
    """Takes one snapshot at a time. With `every_records` 0 it takes them only on request."""

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
        self._grown = trio.Event()  # since the last look
        self._grown.set()
        controller.subscribe(self._follow)

    def _follow(self, _delta: Delta) -> None:
        self._grown.set()

    async def keep_forever(self) -> None:
        """Take snapshots when they are due, until cancelled. Returns if `every_records` is 0. Raises LogError if the
        log is broken."""
        due_since: float | None = None
        while self._every_records:
            now = trio.current_time()
            rests, self._grown = not self._grown.is_set(), trio.Event()
            if self._is_due():
                due_since = now if due_since is None else due_since
                if rests or now >= due_since + PATIENCE_SECONDS or self._log.is_snapshot_urgent:
                    due_since = None
                    try:
                        await self.take()
                    except SnapshotFailed as error:
                        self._warn(error)
                        await trio.sleep(REST_SECONDS)
            elif rests:
                await self._grown.wait()
            await trio.sleep(LOOK_SECONDS)

    async def take(self) -> Snapshot:
        """Take a snapshot of the log up to its current end. Raises SnapshotFailed, or LogError if the log is broken."""
        async with self._one_at_a_time:
            newest = self._log.snapshot
            if newest is not None and newest.end_offset == self._log.end_offset:
                return newest
            room = await trio.to_thread.run_sync(self._controller.snapshot_room)
            pending = self._controller.begin_snapshot(roll=True, room=room)
            assert pending is not None, "a log that rolls has a place for a snapshot"
            await self._flusher.wait_durable(pending.place.end_offset)
            with _short_turns():
                return await trio.to_thread.run_sync(pending.write, _Rests())

    def take_now(self) -> None:
        """Take a snapshot for the next start, if there will be one and the log has grown. Call this when the server
        stops, no more records arrive and the log is durable. The log does not roll, so that a cluster with many
        restarts and few changes keeps its history."""
        newest = self._log.snapshot
        end_offset = self._log.end_offset
        # Each start appends one record that begins an epoch. That record alone needs no snapshot.
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
        if self._log.is_snapshot_urgent and self._log.end_offset > newest.end_offset:
            return True
        return self._log.end_offset - newest.end_offset >= max(self._every_records, newest.record_count)

    def _warn(self, error: Exception) -> None:
        self._events.warning("no snapshot was written", reason=str(error))


class _Rests:
    """Makes a thread sleep as long as it has worked. The thread calls it between two pieces of its work; processor time
    is measured from the first call on."""

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
    """Set Python's switch interval to `SWITCH_SECONDS` inside the block. It applies to the whole process."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, SWITCH_SECONDS))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
