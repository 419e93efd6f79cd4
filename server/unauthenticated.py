"""The connections whose clients are not authenticated yet: their number, their bytes and their time are bounded.

At a limit the oldest of them is closed, so that clients that connect and stay silent keep out nobody else. Listeners
without TLS and SASL have no such connections. This module does no I/O; connections and the ticker call it.
"""

from typing import Protocol

from klamm.server.event_log import EventLog
from klamm.server.limits import ServerLimits


class Unknown(Protocol):
    """What is used of a connection."""

    @property
    def held_bytes(self) -> int: ...

    def close(self) -> None: ...


class UnauthenticatedConnections:
    """All of them, the oldest first."""

    def __init__(self, limits: ServerLimits, events: EventLog) -> None:
        self._limits = limits
        self._events = events
        self._since: dict[Unknown, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    def add(self, connection: Unknown, now: float) -> None:
        """A connection begins. `now` is trio's clock, in seconds."""
        while len(self._since) >= self._limits.unauthenticated_connections:
            self._close(next(iter(self._since)), "there are too many")
        self._since[connection] = now

    def discard(self, connection: Unknown) -> None:
        """The client is authenticated, or the connection has ended. A second call does nothing."""
        self._since.pop(connection, None)

    def bound_bytes(self, connection: Unknown) -> None:
        """The connection holds more or less than before. This may close others, or this one."""
        if connection in self._since:
            held = {one: one.held_bytes for one in self._since if one.held_bytes}
            total = sum(held.values())
            for one, held_bytes in held.items():
                if total <= self._limits.unauthenticated_bytes:
                    return
                total -= held_bytes
                self._close(one, "they hold too many bytes")

    def excuse(self, pause: float, now: float) -> None:
        """Count `pause` seconds, which have just ended, for no client."""
        self._since = {connection: min(since + pause, now) for connection, since in self._since.items()}

    def sweep(self, now: float) -> None:
        """Close those that have taken too long."""
        before = now - self._limits.authentication_seconds
        while self._since and (oldest := next(iter(self._since.items())))[1] < before:
            self._close(oldest[0], "it has taken too long")

    def _close(self, connection: Unknown, reason: str) -> None:
        self.discard(connection)
        self._events.warning_rarely("connection closed before its client was authenticated", reason=reason)
        connection.close()
