"""The limits of the network side: on connections, frames, waiting answers and time. Each name ends in its unit.

Limits that Kafka has a config for are read from the settings. The others are Klamm's own and say their reason.
"""

from klamm.quick_dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
UNLIMITED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of one server. The first three are Kafka configs of the same name."""

    socket_request_max_bytes: int = 100 * MIB
    connections_max_idle_ms: int = 600_000
    """An idle connection is closed after this time. Negative: never."""
    max_connections: int = UNLIMITED
    """The most connections to one broker, and the most to the controller's listener."""

    open_files: int = UNLIMITED
    """The most connections of all listeners together, from the process's limit of open files."""

    unauthenticated_connections: int = 2_000
    """The most connections whose clients are not authenticated yet; with more, the oldest is closed."""
    unauthenticated_bytes: int = 64 * MIB
    """The most bytes that these connections hold together; with more, the oldest that hold any are closed."""
    authentication_seconds: float = 60.0
    """A client that is not authenticated after this time is closed. Common clients give up after 30 s."""

    connection_pending_answers: int = 64
    """A connection is not read while this many of its answers wait for the disk or for the client to read them."""
    connection_pending_bytes: int = 1 * MIB
    """The same limit in bytes. An answer may be larger; then it is the last one that waits."""
    held_bytes: int = 256 * MIB
    """While all connections hold more, those without progress for `stalled_seconds` are closed."""
    held_bytes_at_most: int = 512 * MIB
    """While all connections hold more, the one without progress for the longest time is closed at once."""
    decoded_request_bytes: int = 256 * MIB
    """A request that would take more memory once it is decoded is refused before, and its connection is closed."""
    answer_bytes: int = 100 * MIB
    """A larger answer is not sent, and its connection is closed. Kafka's own limit on requests."""
    stalled_seconds: float = 1.0
    """See `held_bytes`."""
    unread_answer_seconds: float = 60.0
    """A client that reads nothing of its answer for this long is closed. Common clients give up after 30 or 60 s."""
    receive_bytes: int = 64 * KIB
    """The most bytes that are read from a socket at a time."""
    send_bytes: int = 256 * KIB
    """Answers are sent in pieces of this size. Each piece that the client takes counts as progress."""

    turn_requests: int = 32
    """The most pipelined requests of one connection that are handled in one turn."""
    turn_seconds: float = 0.002
    """The longest turn. After it, the next connection with pipelined requests has its turn; other connections are
    served between two turns."""

    tick_seconds: float = 0.1
    """The time between two ticks. A session of several seconds may last this much longer. Ticks at which nothing is due
    are left out (`PeriodicWork`)."""
    sweep_seconds: float = 1.0
    """The time between two searches for idle or stalled connections."""
    shutdown_seconds: float = 5.0
    """How long a stopping server waits until its last answers are sent."""
