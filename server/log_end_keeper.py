"""Stores the end offsets of partition logs for the next start: from time to time while records arrive, and at the end.

No offset may be assigned to two records, even after `kill -9`. So while a log grows, an offset far above its end is
stored, and its end offset when the log has stopped growing. After a kill between the two, the log continues after a
gap, which Kafka's logs may have, too. (Producer ids are allocated in blocks for the same reason.) A write takes time in
proportion to the number of partitions with records. So a thread does it, followed by a pause of a multiple of its time.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import trio

from klamm.broker.data.data_plane import DataPlane
from klamm.controller.metadata.partition import LogKey

Keep: TypeAlias = Callable[[Sequence[tuple[LogKey, int]]], None]
REST_SECONDS = 0.1
REST_PER_SECOND_OF_WORK = 20.0
REST_SECONDS_AT_MOST = 20.0
"""The longest pause between two writes, because a suspended process would measure a long write that did no work."""
ENTRIES_IN_A_ROW = 10_000
OFFSETS_AHEAD = 1_000_000
"""The stored offset of a growing log is this far above its end: more than a partition grows between two writes."""
LAST_OFFSET = 2**63 - 1


class LogEndKeeper:
    """Calls `keep` with the end offset of every log, or with a higher offset for growing logs, when one has changed."""

    def __init__(self, data: DataPlane, keep: Keep, all_is_durable: Callable[[], Awaitable[None]]) -> None:
        """`all_is_durable` returns when all of the metadata log is durable. Before that, a crash can undo the deletion
        of a topic, so that its partitions exist again."""
        self._data = data
        self._keep = keep
        self._all_is_durable = all_is_durable
        self._kept = data.log_end_changes
        self._seen = dict(data.log_end_offsets())
        self._grows = False
        """Whether an offset above its end is stored for some log, whose end has to be stored when it stops growing."""

    async def keep_forever(self) -> None:
        """Store end offsets until cancelled. Raises what `keep` raises."""
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
                self._kept, self._grows = changes, grows  # not earlier: a cancelled call has stored nothing
            work_seconds = trio.current_time() - began - waited
            await trio.sleep(min(REST_SECONDS_AT_MOST, max(REST_SECONDS, REST_PER_SECOND_OF_WORK * work_seconds)))

    def keep_now(self) -> None:
        """Store the end offsets now. Call this when the server stops and no more records arrive."""
        if self._grows or self._kept != self._data.log_end_changes:
            self._keep(list(self._data.log_end_offsets()))

    async def _collect(self) -> tuple[Sequence[tuple[LogKey, int]], bool]:
        """The offsets to store, and whether any log has changed since the last call. A log that has grown since then
        has an offset above its end."""
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
