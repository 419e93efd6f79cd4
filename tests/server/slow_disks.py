"""Logs whose disk is as slow as the test wants: a sync comes back when the test lets it."""

import threading
from pathlib import Path

from klamm.controller.log import LogError, MemoryLog, SegmentLog
from tests.controller.log.logs import CLUSTER_ID, DIRECTORY_ID
from tests.server.harness import START_MS, make_memory_log

REAL_SECONDS = 30.0
"""The test has failed if it lets a sync wait for longer."""


class SlowDisk:
    """A disk that works until `hold`. Then each sync waits for `let_one` or `release`."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        """The end of the log at the beginning of each sync."""
        self.ended = 0
        self.fails = False
        self._changed = threading.Condition()
        self._is_held = False
        self._allowed = 0

    @property
    def is_syncing(self) -> bool:
        return self.ended < len(self.begun)

    def hold(self) -> None:
        self._is_held, self._allowed = True, 0

    def let_one(self) -> None:
        """One sync comes back: that which waits, or else the next one."""
        with self._changed:
            self._allowed += 1
            self._changed.notify_all()

    def release(self) -> None:
        with self._changed:
            self._is_held = False
            self._changed.notify_all()

    def begin(self, end_offset: int) -> None:
        """A sync begins. Returns when the disk lets it through."""
        self.begun.append(end_offset)
        with self._changed:
            assert self._changed.wait_for(lambda: not self._is_held or self._allowed > 0, REAL_SECONDS)
            self._allowed -= self._is_held
        if self.fails:
            raise LogError("cannot sync the log: the disk is gone")

    def end(self) -> None:
        self.ended += 1


class SlowMemoryLog(MemoryLog):
    """A log in memory that pretends to have a disk."""

    def __init__(self, *args: object) -> None:
        self.disk = SlowDisk()
        self._durable = 0
        super().__init__(*args)  # type: ignore[arg-type]

    @property
    def durable_offset(self) -> int:
        return self._durable

    def sync(self) -> None:
        end_offset = self.end_offset
        self.disk.begin(end_offset)
        self._durable = end_offset
        self.disk.end()


class SlowSegmentLog(SegmentLog):
    """The log of a data directory."""

    disk: SlowDisk

    def sync(self) -> None:
        if not hasattr(self, "disk"):  # while it is opened
            self.disk = SlowDisk()
        self.disk.begin(self.end_offset)
        super().sync()
        self.disk.end()


def make_slow_log() -> SlowMemoryLog:
    log = make_memory_log(SlowMemoryLog)
    assert isinstance(log, SlowMemoryLog)
    return log


def open_slow_log(data_dir: Path) -> SlowSegmentLog:
    log = SlowSegmentLog.open(
        data_dir, new_cluster_id=CLUSTER_ID, new_directory_id=DIRECTORY_ID, timestamp_ms=START_MS, warn=print
    )
    assert isinstance(log, SlowSegmentLog)
    return log
