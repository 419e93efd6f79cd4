"""Limits the connections of a server: their number, the bytes held for them, and idle and stalled clients.

When a limit is reached, the connection whose client has made no progress for the longest time is closed, so that other
clients need not wait. A client makes progress when a whole request arrives or when it takes a piece of a response;
single bytes of a request are no progress. This module does no I/O and has no task: the ticker calls `sweep`, and
connections call `hold` and `leave`.
"""

import math
import resource
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

import trio

from klamm.controller.client import Client
from klamm.server.event_log import EventLog
from klamm.server.limits import MIB, UNLIMITED, ServerLimits

RESERVED_FILES = 32
"""File descriptors kept free for logs, threads and libraries; those of listeners are counted apart. A server uses
about half of them."""


RETURNED_BYTES = 64 * MIB
"""When the held bytes have fallen by more than this from their peak, freed memory is returned to the system."""


class Holder(Protocol):
    """What `Admission` uses of a connection. Times are trio's clock, in seconds."""

    client: Client
    held_bytes: int
    """Bytes that the connection holds in memory. Set by `Admission`."""
    progressed_at: float
    """When the client last made progress; infinite while the connection waits for its turn to send a large response.
    Set by the connection."""
    active_at: float
    """When bytes last arrived or a response was last sent whole. Set by the connection."""
    sending_since: float | None
    """When the current piece of a response was given to the socket; None while nothing is sent."""

    @property
    def is_waiting(self) -> bool: ...

    def close(self) -> None: ...

    def drain(self) -> None: ...


class Admission:
    """All open connections of a server, and their common limits."""

    def __init__(self, limits: ServerLimits, events: EventLog) -> None:
        self.connections: set[Holder] = set()
        self._of_brokers: dict[int | None, set[Holder]] = {}
        self.held_bytes = 0
        self.turns = trio.Lock()
        """Held briefly by a connection that has used up its turn, before it handles its next pipelined request."""
        self._limits = limits
        self._events = events
        self._left = trio.lowlevel.ParkingLot()
        self._draining = False
        self._most_held_bytes = 0

    def admit(self, connection: Holder) -> bool:
        """Add a connection. At a limit, close the one that has been idle for the longest. False: none is idle."""
        if self._draining:
            return False
        broker_id = connection.client.broker_id
        of_broker = self._of_brokers.setdefault(broker_id, set())
        for held, limit in ((of_broker, self._limits.max_connections), (self.connections, self._limits.open_files)):
            if len(held) >= limit and not self._close_idlest(held):
                self._events.warning_rarely("connection refused: there are too many", limit=limit)
                return False
        self.connections.add(connection)
        of_broker.add(connection)
        return True

    def room(self) -> int:
        """How many connections may still be added before others are closed. Negative while too many are open."""
        return self._limits.open_files - len(self.connections)

    def close_idlest(self) -> bool:
        """Close the connection that has been idle for the longest; False if no connection is idle."""
        return self._close_idlest(self.connections)

    def leave(self, connection: Holder) -> None:
        """Remove a connection that has ended, and count its bytes no longer. A second call does nothing."""
        if connection in self.connections:
            self.connections.remove(connection)
            self._of_brokers[connection.client.broker_id].remove(connection)
            self.held_bytes -= connection.held_bytes
            connection.held_bytes = 0
            if not self.connections:
                self._left.unpark_all()

    def hold(self, connection: Holder, held_bytes: int) -> None:
        """Set how many bytes a connection holds. This may close other connections, or this one."""
        if connection in self.connections:
            self.held_bytes += held_bytes - connection.held_bytes
            connection.held_bytes = held_bytes
            self._most_held_bytes = max(self._most_held_bytes, self.held_bytes)
            while self.held_bytes > self._limits.held_bytes_at_most:
                self._close_stalled(self._longest_stalled())

    def sweep(self, now: float) -> None:
        """Close the connections that have been idle or stalled for too long. `now` is trio's clock, in seconds."""
        idle_ms = self._limits.connections_max_idle_ms
        idle_before = now - idle_ms / 1000 if idle_ms >= 0 else -math.inf
        unread_before = now - self._limits.unread_answer_seconds
        for connection in list(self.connections):
            sending_since = connection.sending_since
            if sending_since is not None:
                if sending_since < unread_before:
                    self._close_stalled(connection)
            elif connection.active_at < idle_before and not connection.is_waiting:
                self._close(connection)
        while self.held_bytes > self._limits.held_bytes:
            longest = self._longest_stalled()
            if now - longest.progressed_at < self._limits.stalled_seconds:
                break
            self._close_stalled(longest)
        if self._most_held_bytes - self.held_bytes > RETURNED_BYTES:
            self._most_held_bytes = self.held_bytes
            return_freed_memory()

    def excuse(self, pause: float, now: float) -> None:
        """Count `pause` seconds, which have just ended, for no client. `now` is trio's clock, in seconds."""
        for connection in self.connections:
            connection.active_at = min(connection.active_at + pause, now)
            if connection.sending_since is not None:
                connection.sending_since = min(connection.sending_since + pause, now)
            if connection.progressed_at < now:  # it is infinite while the connection waits for its turn
                connection.progressed_at = min(connection.progressed_at + pause, now)

    async def drain(self) -> None:
        """Refuse new connections and end the others after their answers. Returns when no connection is left."""
        self._draining = True
        for connection in list(self.connections):
            connection.drain()
        while self.connections:
            await self._left.park()

    def _close_idlest(self, connections: Iterable[Holder]) -> bool:
        # Kafka's clients reconnect without an error when an idle connection is closed.
        idle = [connection for connection in connections if not connection.is_waiting and not connection.held_bytes]
        if not idle:
            return False
        self._close(min(idle, key=lambda connection: connection.active_at))
        return True

    def _longest_stalled(self) -> Holder:
        return min(
            (connection for connection in self.connections if connection.held_bytes),
            key=lambda connection: connection.progressed_at,
        )

    def _close_stalled(self, connection: Holder) -> None:
        self._events.warning_rarely(
            "stalled connection closed", held_bytes=connection.held_bytes, held_bytes_of_all=self.held_bytes
        )
        self._close(connection)

    def _close(self, connection: Holder) -> None:
        self.leave(connection)
        connection.close()


def return_freed_memory() -> None:
    """Return freed memory from the C library to the system: after large answers it can be most of the process."""
    import ctypes

    with suppress(OSError, AttributeError):  # only glibc has malloc_trim, and only glibc needs it
        ctypes.CDLL(None).malloc_trim(0)


def raise_open_files_limit() -> None:
    """Raise the limit of open files to the hard limit. Only for a process that Klamm started."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems refuse their own hard limit; the limit then stays as it was.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def open_files_allowed() -> int:
    """How many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft
