"""Offsets that partition logs may assign before the next reservation, so that no offset is ever assigned twice.

After a crash, the logs of a server with a data directory begin where their reservations end. So an answer that follows
an append beyond the reservation waits until a new one is durable. A reservation is for many offsets, so that hardly any
answer has to. (Producer ids are allocated in blocks for the same reason.) A log that rests gives back what it has not
used. Here is the soft state; `klamm.server.log_end_keeper` makes it durable.
"""

from typing import Final

from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.controller.metadata.partition import LogKey

OFFSETS_AHEAD: Final = 1_000_000
"""A reservation ends so far above the log end offset at which it is made."""
LAST_OFFSET: Final = 2**63 - 1


class Reservations:
    """The reservations that were made or given back, and are not stored yet."""

    def __init__(self) -> None:
        self.made = 0
        """How many reservations answers may have to wait for: those that begin beyond an earlier one."""
        self.reserving: dict[LogKey, int] = {}
        """The logs with offsets that are reserved and not used, with their log end offset at the last look of
        `LogEndKeeper`."""
        self._entries: list[tuple[LogKey, int]] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to store."""
        return not self._entries

    def make(self, key: LogKey, found: ReplicatedLog) -> None:
        """Reserve offsets from the log end offset on."""
        found.reserved_end = min(found.log.log_end_offset + OFFSETS_AHEAD, LAST_OFFSET)
        self.made += 1
        self.reserving[key] = -1
        self._entries.append((key, found.reserved_end))

    def give_back(self, key: LogKey, found: ReplicatedLog) -> None:
        """Give back what is not used. The next append makes a new reservation."""
        found.reserved_end = found.log.log_end_offset
        del self.reserving[key]
        self._entries.append((key, found.reserved_end))

    def take(self) -> list[tuple[LogKey, int]]:
        """The changes since the last call, the newest last: each log with the end of its reservation."""
        entries, self._entries = self._entries, []
        return entries
