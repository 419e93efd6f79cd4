"""What the network side allows: every bound on connections, frames, waiting answers and time, its unit in its name.

Bounds that Kafka has a config for follow it (read from the settings); the others are ours, with their reasons.
"""

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
UNLIMITED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The bounds of one server. The first three are Kafka configs, by the same names."""

    socket_request_max_bytes: int = 100 * MIB
    connections_max_idle_ms: int = 600_000
    """Negative: for ever."""
    max_connections: int = UNLIMITED
    """Of one broker; and of the controller's listener."""

    open_files: int = UNLIMITED
    """Connections of all listeners together: as many as the process may have open files."""

    connection_pending_answers: int = 64
    """A connection is not read further while as many answers wait for the disk or for their reader."""
    connection_pending_bytes: int = 1 * MIB
    """The same in bytes. One answer may be larger than that: it is then the only one that waits."""
    held_bytes: int = 256 * MIB
    """Beyond this, over all connections, those are closed whose client has made no progress for `stalled_seconds`."""
    held_bytes_at_most: int = 512 * MIB
    """Beyond this the connection that has made no progress for the longest is closed, however short that is."""
    stalled_seconds: float = 1.0
    unread_answer_seconds: float = 60.0
    """A client that takes nothing of its answer for so long is closed: the usual clients give up after 30 or 60 s."""
    receive_bytes: int = 64 * KIB
    send_bytes: int = 256 * KIB
    """An answer leaves in pieces of this size; each piece that was taken counts as progress."""

    turn_requests: int = 32
    turn_seconds: float = 0.002
    """So much of what one connection asked for at once is handled in a row: then it is the turn of the next connection
    that asked for more than one thing, and meanwhile everybody else is served."""

    tick_seconds: float = 0.1
    """How often time passes in the controller. Sessions last seconds, so a tenth more is not noticed, and an idle
    server that wakes ten times per second uses less than 1% of a core."""
    sweep_seconds: float = 1.0
    """How often connections are looked through for those that are idle or stalled."""
    shutdown_seconds: float = 5.0
    """How long a stopping server waits for answers that are on their way."""
