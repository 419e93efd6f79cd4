"""How many bytes of records the coordinators of one process keep alive. Kafka has no such limit.

A record is alive while it is the newest one of its key and no tombstone. What a coordinator keeps in memory about
groups, offsets and transactional ids is made of these records and takes about ten times their bytes.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

MAX_LIVE_BYTES: Final = 256 * 1024 * 1024
"""Keys and values of all live records. An operation of a request that would add one beyond it gets
COORDINATOR_NOT_AVAILABLE."""
MAX_GROWTH_BYTES: Final = 256
"""By so much an operation may enlarge live records beyond the limit, so that members go on with what they have."""

RawRecords: TypeAlias = Sequence[tuple[bytes, bytes | None]]


class Budget:
    """The bytes of all shards."""

    def __init__(self) -> None:
        self.live_bytes = 0


class LiveRecords:
    """The live records of one shard."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._sizes: dict[bytes, int] = {}
        """The bytes of the newest record by key."""

    def note(self, key: bytes, value: bytes | None) -> None:
        """A record was written or loaded."""
        before = self._sizes.pop(key, 0)
        if value is not None:
            self._sizes[key] = len(key) + len(value)
            self._budget.live_bytes += self._sizes[key]
        self._budget.live_bytes -= before

    def refuses(self, records: RawRecords) -> bool:
        """Whether these records exceed the limit. Records with a tombstone among them are always accepted, because they
        may be what makes room."""
        if self._budget.live_bytes <= MAX_LIVE_BYTES or any(value is None for _, value in records):
            return False
        growth = 0
        for key, value in records:
            if key not in self._sizes:
                return True
            growth += len(key) + len(value or b"") - self._sizes[key]
        return growth > MAX_GROWTH_BYTES

    def close(self) -> None:
        """The shard is not used any more."""
        self._budget.live_bytes -= sum(self._sizes.values())
        self._sizes.clear()
