"""Ports of 127.0.0.1 for listeners that are closed and opened again, outside the system's range of ephemeral ports.

Clients' connections take and release ephemeral ports all the time; Linux uses 32768 to 60999, others 49152 and above.
"""

import os
import socket
from contextlib import ExitStack

from tools.toolchain_checks.report import CheckFailed

_FIRST, _LAST = 20_000, 32_000


def free_ports(count: int) -> int:
    """The first of `count` consecutive ports that are free now."""
    # Processes begin their search at different ports, so that two toolchains at once do not collide.
    start = os.getpid() * 32 % (_LAST - _FIRST - count)
    for offset in range(0, _LAST - _FIRST - count, count):
        first = _FIRST + (start + offset) % (_LAST - _FIRST - count)
        if _are_free(range(first, first + count)):
            return first
    raise CheckFailed(f"there are no {count} free ports in a row between {_FIRST} and {_LAST}")


def _are_free(ports: range) -> bool:
    with ExitStack() as opened:
        for port in ports:
            listener = opened.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
