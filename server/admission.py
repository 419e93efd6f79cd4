"""Who may stay connected: the number of connections, the bytes held for them, idle and stalled clients.

Clients that behave never wait for those that do not: where something runs short, whoever has made no progress for the
longest is closed. Progress is a whole request that arrived, or a piece of an answer that was taken; a client that sends
a byte now and then makes none. No I/O here, and no task: the ticker sweeps, connections report.
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
"""Open files that are not connections: listeners have their own allowance, this is for logs, threads and libraries.
A server with all of them open has half as many."""


RETURNED_BYTES = 64 * MIB
"""When so much less is held than was at some time since, what became free goes back to the system."""


class Holder(Protocol):
    """What is known of a connection here."""

    client: Client
    held_bytes: int
    progressed_at: float
    active_at: float
    sending_since: float | None

    @property
    def is_waiting(self) -> bool: ...

    def close(self) -> None: ...

    def drain(self) -> None: ...


class Admission:
    """All open connections of a server, and the bounds they share."""

    def __init__(self, limits: ServerLimits, events: EventLog) -> None:
        self.connections: set[Holder] = set()
        self._of_brokers: dict[int | None, set[Holder]] = {}
        self.held_bytes = 0
        self.turns = trio.Lock()
        """Held by the connection whose turn it is to go on with what it was asked for at once."""
        self._limits = limits
        self._events = events
        self._left = trio.lowlevel.ParkingLot()
        self._draining = False
        self._most_held_bytes = 0

    def admit(self, connection: Holder) -> bool:
        """Take a connection, in place of the one idle for the longest if there are too many; False if none is idle."""
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
        """How many more connections there may be before others have to go; below 0 while they go."""
        return self._limits.open_files - len(self.connections)

    def close_idlest(self) -> bool:
        """Close the connection that has been idle for the longest; False if each one has something under way."""
        return self._close_idlest(self.connections)

    def leave(self, connection: Holder) -> None:
        """The connection is over; whatever it held is free. May be said twice."""
        if connection in self.connections:
            self.connections.remove(connection)
            self._of_brokers[connection.client.broker_id].remove(connection)
            self.held_bytes -= connection.held_bytes
            connection.held_bytes = 0
            if not self.connections:
                self._left.unpark_all()

    def hold(self, connection: Holder, held_bytes: int) -> None:
        """Note how many bytes lie here for a connection; may close others, or this one."""
        if connection in self.connections:
            self.held_bytes += held_bytes - connection.held_bytes
            connection.held_bytes = held_bytes
            self._most_held_bytes = max(self._most_held_bytes, self.held_bytes)
            while self.held_bytes > self._limits.held_bytes_at_most:
                self._close_stalled(self._longest_stalled())

    def sweep(self, now: float) -> None:
        """Close who has been idle or stalled for too long."""
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

    async def drain(self) -> None:
        """Take no more connections, end those there are after their answers; returns when none is left."""
        self._draining = True
        for connection in list(self.connections):
            connection.drain()
        while self.connections:
            await self._left.park()

    def _close_idlest(self, connections: Iterable[Holder]) -> bool:
        # Kafka's clients reconnect without a word when a connection that they do not use is closed.
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
    """Have the C library give back what it keeps: after large answers that can be most of the process."""
    import ctypes

    with suppress(OSError, AttributeError):  # only glibc has it, and only there it is needed
        ctypes.CDLL(None).malloc_trim(0)


def raise_open_files_limit() -> None:
    """Let this process have as many open files as the system allows it; for a process that is ours."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems allow less than they say: then it stays as it is.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def open_files_allowed() -> int:
    """How many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft
