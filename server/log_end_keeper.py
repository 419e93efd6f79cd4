"""Keeps where the logs of partitions end, for the next start: now and then while records come, and at the end.

Offsets that were told must not be given twice, also not after `kill -9`. So while a log grows, an offset well ahead of
its end is kept, and its end itself once it rests: who is killed meanwhile goes on after a gap, as Kafka's logs may
have. (Producer ids are given out in blocks for the same reason.) Writing takes as long as there are partitions with
records, so it is done in a thread, and rested from for a multiple of the time that it took.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import trio

from klamm.controller.data.data_plane import DataPlane, LogKey

Keep: TypeAlias = Callable[[Sequence[tuple[LogKey, int]]], None]
REST_SECONDS = 0.1
REST_PER_SECOND_OF_WORK = 20.0
REST_SECONDS_AT_MOST = 20.0
"""However long it took: a process that slept meanwhile has done no work, and what comes now is to be kept."""
ENTRIES_IN_A_ROW = 10_000
OFFSETS_AHEAD = 1_000_000
"""More than a partition gets between two looks."""
LAST_OFFSET = 2**63 - 1


class LogEndKeeper:
    """Calls `keep` with the ends of all logs, when there are new ones, or with what is ahead of them."""

    def __init__(self, data: DataPlane, keep: Keep, all_is_durable: Callable[[], Awaitable[None]]) -> None:
        """`all_is_durable` returns when the metadata log is, as it stands: till then a topic that went may come back,
        and its partitions with it."""
        self._data = data
        self._keep = keep
        self._all_is_durable = all_is_durable
        self._kept = data.log_end_changes
        self._seen = dict(data.log_end_offsets())
        self._grows = False
        """Whether an offset ahead was kept of some log, so that its end is to be kept once it rests."""

    async def keep_forever(self) -> None:
        """Until cancelled. What `keep` raises ends it."""
        while True:
            began = trio.current_time()
            waited = 0.0
            changes = self._data.log_end_changes
            if self._grows or self._kept != changes:
                found, grows = await self._collect()
                collected = trio.current_time()
                await self._all_is_durable()
                waited = trio.current_time() - collected
                await trio.to_thread.run_sync(self._keep, found)
                self._kept, self._grows = changes, grows  # not before: whoever is cancelled has kept nothing
            work_seconds = trio.current_time() - began - waited
            await trio.sleep(min(REST_SECONDS_AT_MOST, max(REST_SECONDS, REST_PER_SECOND_OF_WORK * work_seconds)))

    def keep_now(self) -> None:
        """To be called at the end, when nothing comes any more."""
        if self._grows or self._kept != self._data.log_end_changes:
            self._keep(list(self._data.log_end_offsets()))

    async def _collect(self) -> tuple[Sequence[tuple[LogKey, int]], bool]:
        """What is to be kept: of logs that have grown since the last look, an offset ahead of their end. And whether
        there are any of those."""
        seen: dict[LogKey, int] = {}
        found: list[tuple[LogKey, int]] = []
        for key, log_end_offset in self._data.log_end_offsets():
            grew = self._seen.get(key) != log_end_offset
            seen[key] = log_end_offset
            found.append((key, min(log_end_offset + OFFSETS_AHEAD, LAST_OFFSET) if grew else log_end_offset))
            if len(found) % ENTRIES_IN_A_ROW == 0:
                await trio.lowlevel.checkpoint()
        grows = seen != self._seen
        self._seen = seen
        return found, grows
