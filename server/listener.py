"""A listening port that opens, closes and opens again: one for each simulated broker, and the controller's own.

Accepting survives whatever a client or a shortage of files does to it. What happens on a connection is not known here.
"""

import errno
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import trio

from klamm.server.addresses import MAX_PORT, Address

# As `trio.serve_listeners` has them: the process or the system is out of files or memory, and that passes.
SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
SHORTAGE_PAUSE_SECONDS = 0.1
# Linux tells with accept what became of a connection, or of the network, since: accept(2) names them.
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
"""More would be a long turn for those who are connected; fewer, and clients that come and go without a word would fill
the queue faster than it is emptied."""
ROOM_FOR_ONE_MORE = 64
"""Listeners accept at the same time, and who is to make room for it is not closed at once."""
# As large as the system allows: a burst of clients that finds the queue full waits a second for the second attempt.
BACKLOG_CONNECTIONS = 65_535


class PortTaken(Exception):
    """An address that cannot be listened on: one clause for people."""


class PortListener:
    """One listening address. Port 0 becomes the port that was free at the first `open`, and stays it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._socket: socket.socket | None = None
        self._kept: socket.socket | None = None
        """Has the port, and does not listen: whoever connects is refused, and nobody else is given the port."""
        self._served: socket.socket | None = None

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def open(self) -> None:
        """Take the port: clients may connect, and wait until `serve` accepts them. May raise `PortTaken`."""
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
    ) -> None:
        """Start `serve_stream` in `nursery` for every connection, until `close`. `room` is how many more connections
        there may be: where that is little, they are accepted one by one, since each has its file from then on. One by
        one they also begin in their order; those accepted together begin in either order, as trio has it."""
        sock = self._socket
        if sock is self._served:
            return  # closed and opened again before its first task ran: another one serves it already
        self._served = sock
        while sock is not None and sock is self._socket:
            try:
                # Linux refuses to accept for want of a file even while nobody is there: ask only once somebody is.
                await trio.lowlevel.wait_readable(sock)
                at_once = min(ACCEPTED_AT_ONCE, 1 + max(0, room()) // ROOM_FOR_ONE_MORE)
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
        """Listen no longer, and keep the port for the next `open`. Connections that nobody accepted yet are reset."""
        self.close()
        with suppress(PortTaken):  # by somebody who was very quick: the next `open` tells
            self._kept = _bound_socket(self.address)

    def close(self) -> None:
        """Give the port back. Connections that nobody accepted yet are reset by the system."""
        if self._socket is not None:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
            self._socket = None
        if self._kept is not None:
            self._kept.close()
            self._kept = None


def _accept_some(sock: socket.socket, most: int) -> Iterator[socket.socket]:
    """Connections that wait to be accepted, some of them. Raises OSError for a shortage."""
    for _ in range(most):
        try:
            yield sock.accept()[0]
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno not in GONE_ALREADY:
                raise


def open_listeners(address: Address, count: int) -> list[PortListener]:
    """`count` open listeners: on the address, then on the ports after it; with port 0 on free ones. Or `PortTaken`."""
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
    """A socket that listens there, for those who accept by themselves. May raise `PortTaken`."""
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
