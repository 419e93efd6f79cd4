"""Thousands of half-open handshakes at once: TLS and SASL clients that begin a login and never finish it, while a good
client logs in again and again. What the good client waits, and what memory the server takes, are measured.
"""

import resource
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

import klamm
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import encode_request
from klamm.protocol.messages.security import sasl_handshake

RESERVED_FILES: Final = 200
LOGINS: Final = 20
MIB: Final = 1024 * 1024
USERS: Final = {"alice": "alice-secret"}


@dataclass(frozen=True, slots=True)
class HalfOpen:
    """The outcome."""

    opened: int
    still_open: int
    memory_bytes: int
    """Resident memory with them, above that before."""
    longest_login_before: float
    """Seconds."""
    longest_login: float

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.opened:,} handshakes begun and not finished, {self.still_open:,} of these connections still open"
        yield f"memory of the server: {self.memory_bytes / MIB:.1f} MiB more"
        yield f"longest of {LOGINS} logins: {self.longest_login:.3f} s, before {self.longest_login_before:.3f} s"


def attack_half_open(count: int) -> HalfOpen:
    """Half of the connections stop in a TLS handshake, half after it, in that of SASL."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + RESERVED_FILES), hard))
    with klamm.ServerProcess(brokers=1, security="sasl_ssl", users=USERS) as server, ExitStack() as stack:
        arguments = server.client_config("klamm", "alice")
        before = trio.run(_longest_login, arguments)
        memory = _resident_bytes(server.process_id)
        opened = []
        for number in range(count):
            connection = _begun(server.bootstrap_servers, Path(arguments["ca_file"]), in_sasl=number % 2 == 1)
            opened.append(stack.enter_context(connection))
        longest = trio.run(_longest_login, arguments)
        grown = _resident_bytes(server.process_id) - memory
        open_now = sum(map(_is_open, opened))
    return HalfOpen(count, open_now, grown, before, longest)


def _begun(address: str, ca: Path, *, in_sasl: bool) -> socket.socket:
    host, _, port = address.rpartition(":")
    plain = socket.create_connection((host, int(port)), timeout=30)
    context = ssl.create_default_context(cafile=ca)
    if in_sasl:
        secure = context.wrap_socket(plain, server_hostname="localhost")
        request = sasl_handshake.API.request(mechanism="SCRAM-SHA-256")
        secure.sendall(encode_frame(encode_request(sasl_handshake.API, 1, 1, "half-open", request)))
        return secure
    outgoing = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        plain.sendall(outgoing.read())
    return plain


async def _longest_login(arguments: dict[str, str]) -> float:
    longest = 0.0
    for _ in range(LOGINS):
        began = time.perf_counter()
        async with klamm.AdminClient(**arguments):  # type: ignore[arg-type]
            longest = max(longest, time.perf_counter() - began)
    return longest


def _is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        while connection.recv(65_536):
            pass
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False
    return False


def _resident_bytes(process_id: int) -> int:
    status = Path(f"/proc/{process_id}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) * 1024
