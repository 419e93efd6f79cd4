"""Listening ports, which can be opened, closed and opened again: those of the simulated brokers and the controller's.

Accepting goes on after errors that a client causes and after a shortage of files or memory.
"""

import errno
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import trio

from klamm.server.addresses import MAX_PORT, Address, host_as_java_prints_it

# As in `trio.serve_listeners`: the process or the system has no free files or no memory, for a time.
SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
SHORTAGE_PAUSE_SECONDS = 0.1
# Linux's accept returns these errors for a connection or a network that has failed since (accept(2)).
GONE_ALREADY = (
    errno.EPERM,
    errno.ECONNABORTED,
    errno.EPROTO,
    errno.ENETDOWN,
    errno.ENOPROTOOPT,
    errno.EHOSTDOWN,
    errno.ENONET,
    errno.EHOSTUNREACH,
    errno.EOPNOTSUPP,
    errno.ENETUNREACH,
)
ACCEPTED_AT_ONCE = 8
"""The most connections accepted in a row. With more, connected clients would wait too long; with fewer, clients that
connect and disconnect at once would fill the queue faster than it is emptied."""
ROOM_FOR_ONE_MORE = 64
"""A listener accepts one more connection in a row for each such number of connections that are still allowed, because
other listeners accept at the same time and closing an idle connection takes a moment."""
# As large as the system allows, because a client that finds the queue full tries again only after a second.
BACKLOG_CONNECTIONS = 65_535


class PortTaken(Exception):
    """A listener cannot have its address. The text is one clause for users."""


class PortListener:
    """One listening address. With port 0 the first `open` chooses a free port, which later calls use again."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._socket: socket.socket | None = None
        self._kept: socket.socket | None = None
        """A socket that is bound to the port and does not listen: clients are refused, and the port stays taken."""
        self._served: socket.socket | None = None
        self._admitting: trio.CancelScope | None = None

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def open(self) -> None:
        """Bind the port and listen. Clients can connect, and wait until `serve` accepts them. Raises PortTaken."""
        sock, self._kept = self._kept or _bound_socket(self.address), None
        _listen(sock, self.address)
        sock.setblocking(False)
        self.address = Address(self.address.host, sock.getsockname()[1])
        self._socket = sock

    async def serve(
        self,
        serve_stream: Callable[[trio.SocketStream], Coroutine[Any, Any, None]],
        nursery: trio.Nursery,
        on_shortage: Callable[[OSError], None],
        room: Callable[[], int],
        admit: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """Start `serve_stream` in `nursery` for every connection, until `close`. `room` returns how many more
        connections are allowed. If few are, connections are accepted one by one, because each takes a file as soon as
        it is accepted. `admit` returns when the next connection may be accepted; if it returns True, only that one is.
        Connections accepted together start in any order, as tasks in trio do."""
        sock = self._socket
        if sock is self._served:
            return  # the port was closed and opened again before this task ran; another task serves it already
        self._served = sock
        while sock is not None and sock is self._socket:
            try:
                # Without a free file, Linux's accept fails even if no client waits: call it only when one does.
                await trio.lowlevel.wait_readable(sock)
                at_once = min(ACCEPTED_AT_ONCE, 1 + max(0, room()) // ROOM_FOR_ONE_MORE)
                if admit is not None:
                    with trio.CancelScope() as self._admitting:
                        at_once = 1 if await admit() else at_once
                for accepted in _accept_some(sock, at_once) if sock is self._socket else ():
                    nursery.start_soon(serve_stream, trio.SocketStream(trio.socket.from_stdlib_socket(accepted)))
            except trio.ClosedResourceError:
                return
            except OSError as error:
                if error.errno not in SHORTAGES:
                    raise
                on_shortage(error)
                await trio.sleep(SHORTAGE_PAUSE_SECONDS)

    def pause(self) -> None:
        """Stop listening, but keep the port for the next `open`. Connections that are not accepted yet are reset."""
        self.close()
        with suppress(PortTaken):  # another process took the port in between; the next `open` raises PortTaken
            self._kept = _bound_socket(self.address)

    def close(self) -> None:
        """Release the port. The system resets connections that are not accepted yet."""
        if self._socket is not None:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
            self._socket = None
            if self._admitting is not None:
                self._admitting.cancel()
        if self._kept is not None:
            self._kept.close()
            self._kept = None


def _accept_some(sock: socket.socket, most: int) -> Iterator[socket.socket]:
    """Accept up to `most` waiting connections. Raises OSError for a shortage."""
    for _ in range(most):
        try:
            yield sock.accept()[0]
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno not in GONE_ALREADY:
                raise


def open_listeners(address: Address, count: int) -> list[PortListener]:
    """Open `count` listeners on consecutive ports, or on free ports if the port is 0. Raises PortTaken."""
    if address.port and address.port + count - 1 > MAX_PORT:
        raise PortTaken(f"{count} brokers from {address} on need ports beyond {MAX_PORT}")
    listeners: list[PortListener] = []
    try:
        for index in range(count):
            listeners.append(PortListener(Address(address.host, address.port and address.port + index)))
            listeners[-1].open()
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def listening_socket(address: Address) -> socket.socket:
    """A listening socket, for callers that accept connections themselves. Raises PortTaken."""
    sock = _bound_socket(address)
    _listen(sock, address)
    return sock


def _bound_socket(address: Address) -> socket.socket:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise _port_taken(address, error, "no such host") from error
    family, kind, protocol, _, sock_address = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(sock_address)
    except (OSError, OverflowError) as error:
        sock.close()
        raise _port_taken(address, error, str(error)) from error
    return sock


def _listen(sock: socket.socket, address: Address) -> None:
    try:
        sock.listen(BACKLOG_CONNECTIONS)
    except OSError as error:
        sock.close()
        raise _port_taken(address, error, str(error)) from error


def _port_taken(address: Address, error: Exception, otherwise: str) -> PortTaken:
    return PortTaken(f"cannot listen on {address}: {getattr(error, 'strerror', None) or otherwise}")


def peer_host(stream: trio.SocketStream) -> str:
    """The client's address, as Java prints it; empty if it has gone already and will read no answer."""
    try:
        return host_as_java_prints_it(stream.socket.getpeername()[0])
    except OSError:
        return ""


def peer_port(stream: trio.SocketStream) -> int:
    """The client's port; 0 if it has gone already."""
    try:
        port: int = stream.socket.getpeername()[1]
    except OSError:
        return 0
    return port
