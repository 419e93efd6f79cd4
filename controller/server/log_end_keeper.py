"""Keeps where the logs of partitions end, for the next start: now and then while records come, and at the end.

Writing takes as long as there are partitions with records, so it is done in a thread, and rested from for a multiple
of the time that it took.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import trio

from controller.data.data_plane import DataPlane, LogKey

Keep: TypeAlias = Callable[[Sequence[tuple[LogKey, int]]], None]
REST_SECONDS = 0.1
REST_PER_SECOND_OF_WORK = 20.0
ENTRIES_IN_A_ROW = 10_000


class LogEndKeeper:
    """Calls `keep` with the ends of all logs, when there are new ones."""

    def __init__(self, data: DataPlane, keep: Keep) -> None:
        self._data = data
        self._keep = keep
        self._kept = data.log_end_changes

    async def keep_forever(self) -> None:
        """Until cancelled. What `keep` raises ends it."""
        while True:
            began = trio.current_time()
            changes = self._data.log_end_changes
            if self._kept != changes:
                await trio.to_thread.run_sync(self._keep, await self._collect())
                self._kept = changes  # not before: whoever is cancelled has kept nothing
            work_seconds = trio.current_time() - began
            await trio.sleep(max(REST_SECONDS, REST_PER_SECOND_OF_WORK * work_seconds))

    def keep_now(self) -> None:
        """To be called at the end, when nothing comes any more."""
        if self._kept != self._data.log_end_changes:
            self._keep(list(self._data.log_end_offsets()))

    async def _collect(self) -> Sequence[tuple[LogKey, int]]:
        found = []
        for entry in self._data.log_end_offsets():
            found.append(entry)
            if len(found) % ENTRIES_IN_A_ROW == 0:
                await trio.lowlevel.checkpoint()
        return found
