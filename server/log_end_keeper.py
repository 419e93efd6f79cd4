"""Makes the reservations of offsets durable, and gives back what logs that rest have not used.

The flusher stores new reservations beside its syncs of the metadata log, and answers wait for that (`Flusher`). So an
acknowledged offset is never assigned again, whenever the process dies. After a stop in order, and after a kill when a
log has rested for two looks, a log continues at its end offset; otherwise it continues after a gap, which Kafka's logs
may have, too.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

import trio

from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.reservations import Reservations
from klamm.controller.metadata.partition import LogKey

LOOK_SECONDS = 5.0
"""The time between two looks for logs that rest. A log with fewer records pays a sync for each of them."""
ENTRIES_IN_A_ROW = 10_000


class LogEndStore(Protocol):
    """Stores log end offsets durably. Every method may block and raises LogError."""

    def append(self, log_end_offsets: Collection[tuple[LogKey, int]]) -> None: ...

    @property
    def is_long(self) -> bool:
        """Whether `replace` should be called with the offsets of all logs."""
        ...

    def replace(self, log_end_offsets: Collection[tuple[LogKey, int]]) -> None: ...


class Taken(NamedTuple):
    """What one call of `LogEndKeeper.store` makes durable."""

    made: int
    entries: list[tuple[LogKey, int]]
    replaces_all: bool


class LogEndKeeper:
    """The reservations of a server with a data directory. It belongs to the event loop, but for `store`."""

    def __init__(self, data: DataPlane, store: LogEndStore, notice: Callable[[], None]) -> None:
        """`notice` is called when there is something to store that no answer waits for."""
        self._data = data
        self._store = store
        self._notice = notice
        self._reservations = data.reservations = Reservations()
        self.durable = 0
        """How many of the reservations made are durable. Set by the flusher."""

    @property
    def made(self) -> int:
        """How many reservations were made: an answer that leaves now depends on all of them."""
        return self._reservations.made

    @property
    def has_work(self) -> bool:
        """Whether there is something to store."""
        return not self._reservations.is_empty

    def take(self) -> Taken:
        """What is to be stored now."""
        entries, made = self._reservations.take(), self.made
        if self._store.is_long:
            return Taken(made, self._data.reserved_ends(), replaces_all=True)
        return Taken(made, entries, replaces_all=False)

    def store(self, taken: Taken) -> None:
        """Make it durable. Call this in a thread, when the metadata log is durable up to what `take` saw: a crash must
        not bring back a topic whose offsets are forgotten here. Raises LogError."""
        if taken.replaces_all:
            self._store.replace(taken.entries)
        elif taken.entries:
            self._store.append(taken.entries)

    async def keep_forever(self) -> None:
        """Give back what logs that rest have not used, until cancelled."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            reserving = self._reservations.reserving
            for number, (key, seen) in enumerate(list(reserving.items()), start=1):
                found = self._data.find(*key)
                if found is None:
                    del reserving[key]
                elif found.log.log_end_offset == seen:
                    self._reservations.give_back(key, found)
                else:
                    reserving[key] = found.log.log_end_offset
                if number % ENTRIES_IN_A_ROW == 0:
                    await trio.lowlevel.checkpoint()
            if self.has_work:
                self._notice()

    def keep_now(self) -> None:
        """Store the end offsets of all logs. Call this when the server stops, no more records arrive and the metadata
        log is durable."""
        if self.made:
            self._store.replace(list(self._data.log_end_offsets()))
