"""The offsets that clients commit with OffsetCommit v0: brokers up to Kafka 3.0 keep them in ZooKeeper, apart from the
offsets of group coordinators, and any broker knows them.

There is no ZooKeeper here: they are soft state of the process, and a restart forgets them.
"""

from typing import Final

MAX_OFFSETS: Final = 100_000
"""Commits for further partitions get COORDINATOR_NOT_AVAILABLE. Kafka has no such limit."""
MAX_BYTES: Final = 32 * 1024 * 1024
"""What the names of groups and topics take together."""
_BYTES_OF_ENTRY: Final = 200

Key = tuple[str, str, int]
"""Group, topic and partition."""


class ZooKeeperOffsets:
    """The offsets of all groups."""

    __slots__ = ("_bytes", "_offsets")

    def __init__(self) -> None:
        self._offsets: dict[Key, int] = {}
        self._bytes = 0

    def find(self, key: Key) -> int | None:
        """The committed offset; None: there is none."""
        return self._offsets.get(key)

    def has_room(self, key: Key) -> bool:
        """Whether an offset may be committed."""
        return key in self._offsets or (len(self._offsets) < MAX_OFFSETS and self._bytes + _size(key) <= MAX_BYTES)

    def commit(self, key: Key, offset: int) -> None:
        """Keep an offset, if there is room for it."""
        if self.has_room(key):
            self._bytes += 0 if key in self._offsets else _size(key)
            self._offsets[key] = offset


def _size(key: Key) -> int:
    return _BYTES_OF_ENTRY + 4 * (len(key[0]) + len(key[1]))
