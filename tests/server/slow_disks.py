"""Logs with a disk that the test controls: a sync returns when the test allows it."""

import threading
from pathlib import Path

from klamm.controller.log import LogError, MemoryLog, SegmentLog
from tests.controller.log.logs import CLUSTER_ID, DIRECTORY_ID
from tests.server.harness import START_MS, make_memory_log

REAL_SECONDS = 30.0
"""A sync that waits longer than this makes the test fail."""


class SlowDisk:
    """A disk that works until `hold` is called. After that each sync waits for `let_one` or `release`."""

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
        """Let one sync return: the one that waits, or otherwise the next one."""
        with self._changed:
            self._allowed += 1
            self._changed.notify_all()

    def release(self) -> None:
        with self._changed:
            self._is_held = False
            self._changed.notify_all()

    def begin(self, end_offset: int) -> None:
        """Begin a sync; return when the disk allows it."""
        self.begun.append(end_offset)
        with self._changed:
            assert self._changed.wait_for(lambda: not self._is_held or self._allowed > 0, REAL_SECONDS)
            self._allowed -= self._is_held
        if self.fails:
            raise LogError("cannot sync the log: the disk is gone")

    def end(self) -> None:
        self.ended += 1


class SlowMemoryLog(MemoryLog):
    """A log in memory whose syncs take as long as those of a disk."""

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
        if not hasattr(self, "disk"):  # during the open
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
