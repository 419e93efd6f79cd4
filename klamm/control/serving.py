"""Serves the control interface beside a running cluster, in its event loop: hypercorn on each connection, and behind it
the application (`klamm.control.app`).

Connections are accepted here, not by hypercorn, which would take any number of them; should one fail in a way that
hypercorn does not catch, it ends alone. Changes do not hang on connections (`klamm.control.changes`).
"""

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from klamm.cluster.assembly import FATAL_ERRORS
from klamm.control.answers import JSON, encode_error
from klamm.control.app import make_app
from klamm.control.changes import Changes
from klamm.control.limits import (
    IDLE_SECONDS,
    MAX_HEAD_BYTES,
    STOP_SECONDS,
    UNREAD_SECONDS,
    connections_at_most,
    turned_away_at_most,
)
from klamm.control.twin import RestartableTwin
from klamm.server.addresses import Address
from klamm.server.event_log import EventLog
from klamm.server.listener import PortListener
from klamm.server.server import Server


class ControlPort(PortListener):
    """The port of the interface, taken before anything else starts. May raise `PortTaken`."""

    def __init__(self, listen: Address) -> None:
        super().__init__(listen)
        self.open()

    def url(self, advertised_host: str | None, *, has_tls: bool = False) -> str:
        """Where it is reached; the advertised host counts where it listens on every interface."""
        host = advertised_host if advertised_host and self.address.is_wildcard else self.address.reachable_host
        return f"{'https' if has_tls else 'http'}://{Address(host, self.address.port)}"


def kept_files() -> int:
    """How many files the interface may have open at a time: its listener and its connections."""
    return 1 + connections_at_most() + turned_away_at_most()


@asynccontextmanager
async def open_control(
    port: ControlPort,
    server: Server,
    events: EventLog,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    twin: RestartableTwin | None = None,
) -> AsyncIterator[None]:
    """The interface of `server`, ready to answer, with `tls` by HTTPS. `twin`: how the cluster begins again. One of
    `FATAL_ERRORS` ends the block, in an exception group."""
    async with trio.open_nursery() as nursery:
        changes = Changes(nursery, events, FATAL_ERRORS)
        app = make_app(server, changes, events, port.address, token, twin)
        serving = _Serving(port, app, events, tls)
        nursery.start_soon(serving.serve)
        try:
            yield
        finally:
            # Changes under way end here, and those who wait for them are still told so.
            changes.stopping = True
            nursery.cancel_scope.cancel()
            await serving.stop()


class _Serving:
    """The connections, at most `connections_at_most` at a time; hypercorn handles each of them."""

    def __init__(self, port: ControlPort, app: Any, events: EventLog, tls: ssl.SSLContext | None) -> None:
        self._port = port
        self._tls = tls
        self._app = ASGIWrapper(app)
        self._config = _configuration()
        self._context = WorkerContext(max_requests=None)
        self._events = events
        self._connections = 0
        self._most = connections_at_most()
        self._most_turned_away = turned_away_at_most()
        self._over = trio.Event()
        # Answers that are on their way leave while everything else is being cancelled.
        self._scope = trio.CancelScope(shield=True)

    async def serve(self) -> None:
        """Serve until `stop`. Clients may connect before: the port is open."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    await self._port.serve(self._serve_connection, nursery, self._note_shortage, self._room)
        finally:
            self._over.set()

    def _room(self) -> int:
        return self._most - self._connections

    async def stop(self) -> None:
        """Accept no more requests, and wait a limited time for the answers in progress."""
        self._port.close()
        await self._context.terminated.set()
        with trio.CancelScope(shield=True):
            with trio.move_on_after(STOP_SECONDS):
                await self._over.wait()
            self._scope.cancel()
            await self._over.wait()

    async def _serve_connection(self, stream: trio.SocketStream) -> None:
        self._connections += 1
        try:
            if self._connections > self._most:
                self._events.warning_rarely("control connection refused: there are too many", limit=self._most)
                if self._tls is None and self._connections <= self._most + self._most_turned_away:
                    await _turn_away(stream, self._most)
                return
            # hypercorn itself would wait without limit for the client to read an answer.
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD_SECONDS * 1000))
            served = stream if self._tls is None else trio.SSLStream(stream, self._tls, server_side=True)
            await _Connection(self._app, self._config, self._context, ConnectionState({}), cast("Any", served))
        except Exception as error:  # noqa: BLE001 - an error on a connection must not end the cluster
            self._events.exception_rarely("bug: a control connection failed", error)
        finally:
            self._connections -= 1
            await trio.aclose_forcefully(stream)

    def _note_shortage(self, error: OSError) -> None:
        self._events.warning_rarely("control connections have to wait", reason=str(error))


class _Connection(TCPServer):
    """A connection that ends when its client closes it. hypercorn would keep it until its idle time is over."""

    async def _read_data(self) -> None:
        await super()._read_data()
        await self.idle_task.stop()


async def _turn_away(stream: trio.SocketStream, open_connections: int) -> None:
    """Say why, whatever the request will be."""
    body = encode_error(f"{open_connections} connections are open, and further ones are refused")
    head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n"
    with suppress(trio.BrokenResourceError), trio.move_on_after(UNREAD_SECONDS):
        await stream.send_all(head.encode() + b"Connection: close\r\n\r\n" + body)
        await stream.send_eof()
        # Closing with the request in the way would reset the connection, and the answer might be lost.
        while await stream.receive_some():
            pass


def _configuration() -> Config:
    config = Config()
    config.accesslog = config.errorlog = None  # stdout has the ready lines, stderr the events
    config.keep_alive_timeout = config.ssl_handshake_timeout = IDLE_SECONDS
    config.h11_max_incomplete_size = MAX_HEAD_BYTES
    config.include_server_header = False
    return config
