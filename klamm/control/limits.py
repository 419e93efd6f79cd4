"""The limits of the control interface, each with its unit in its name; docs/control.md describes them for users."""

from klamm.server.admission import open_files_allowed

MAX_CONNECTIONS = 200
"""Connections served at a time; one more is answered with 503 and closed. Twice as many as requests: others are idle,
or on their way out."""
MAX_TURNED_AWAY = 100
"""Connections above that limit that get the answer 503 at a time; others are closed without an answer."""
MAX_REQUESTS = 100
"""Requests under way at a time; one more is answered with 503 at once. A change that nobody waits for any more is not
counted: there is one at most for each broker."""
MAX_BODY_BYTES = 64 * 1024
MAX_HEAD_BYTES = 16 * 1024
"""The request line and the headers together."""
BODY_SECONDS = 10.0
"""How long the body of a request may take to arrive."""
MAX_WAIT_MS = 300_000
"""How long a request may wait for something to happen."""
IDLE_SECONDS = 5.0
"""How long a connection may stay without a request, also before its first one."""
UNREAD_SECONDS = 3.0
"""How long the client may leave an answer unread before the connection is closed."""
STOP_SECONDS = 2.0
"""How long a stopping server waits until the answers in progress are sent."""


def connections_at_most() -> int:
    """`MAX_CONNECTIONS`; an eighth of the open files where the system allows few, so that the log never lacks one."""
    return min(MAX_CONNECTIONS, open_files_allowed() // 8)


def turned_away_at_most() -> int:
    """`MAX_TURNED_AWAY`, or a sixteenth of the open files."""
    return min(MAX_TURNED_AWAY, open_files_allowed() // 16)
