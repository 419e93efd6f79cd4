"""Serves the control interface beside a running cluster, in its event loop: hypercorn in front, quart behind.

Should a connection fail in a way that hypercorn does not catch, all of its connections end; the cluster does not, and
hypercorn is started again on the same port. Changes do not hang on connections (`klamm.control.changes`).
"""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from controller.server.addresses import Address
from controller.server.event_log import EventLog
from controller.server.listener import listening_socket
from controller.server.server import Server
from klamm.assembly import FATAL_ERRORS
from klamm.control.app import Doorkeeper, make_app
from klamm.control.changes import Changes
from klamm.control.limits import IDLE_SECONDS, MAX_HEAD_BYTES, STOP_SECONDS, UNREAD_SECONDS

RESTART_SECONDS = 0.1
"""Before hypercorn is started again, so that one that cannot start does no harm."""


class ControlPort:
    """The port of the interface, taken before anything else starts. May raise `PortTaken`."""

    def __init__(self, listen: Address) -> None:
        self.listen = listen
        self._socket = listening_socket(listen)
        # Accepted connections inherit it. hypercorn itself would wait for the reader of an answer for ever.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD_SECONDS * 1000))

    def url(self, advertised_host: str | None) -> str:
        """Where it is reached; the advertised host counts where it listens on every interface."""
        host = advertised_host if advertised_host and self.listen.is_wildcard else self.listen.reachable_host
        return f"http://{Address(host, self._socket.getsockname()[1])}"

    def descriptor(self) -> int:
        """A descriptor of the listening socket for somebody else to close."""
        return os.dup(self._socket.fileno())

    def close(self) -> None:
        self._socket.close()


@asynccontextmanager
async def open_control(port: ControlPort, server: Server, events: EventLog) -> AsyncIterator[None]:
    """The interface of `server`, ready to answer. One of `FATAL_ERRORS` ends the block, in a group."""
    async with trio.open_nursery() as nursery:
        changes = Changes(nursery, events, FATAL_ERRORS)
        app = make_app(server, changes, events, port.listen)
        serving = _Serving(port, cast("Any", Doorkeeper(cast("Any", app), events)), events)
        nursery.start_soon(serving.serve)
        try:
            yield
        finally:
            # Changes under way end here, and those who wait for them are still told so.
            changes.stopping = True
            nursery.cancel_scope.cancel()
            await serving.stop()


class _Serving:
    """hypercorn, started again when it falls."""

    def __init__(self, port: ControlPort, app: Any, events: EventLog) -> None:
        self._port = port
        self._app = app
        self._events = events
        self._stopping = trio.Event()
        self._over = trio.Event()
        # Answers that are on their way leave while everything else is being cancelled.
        self._scope = trio.CancelScope(shield=True)

    async def serve(self) -> None:
        """Serve until `stop`. Clients may connect before: the port is open."""
        try:
            with self._scope:
                while not self._stopping.is_set():
                    await self._serve_until_it_falls()
        finally:
            self._over.set()

    async def stop(self) -> None:
        """Take no more requests, give the answers under way their time."""
        self._stopping.set()
        with trio.CancelScope(shield=True):
            with trio.move_on_after(STOP_SECONDS):
                await self._over.wait()
            self._scope.cancel()
            await self._over.wait()

    async def _serve_until_it_falls(self) -> None:
        config = _configuration(self._port.descriptor())
        try:
            await serve(self._app, config, shutdown_trigger=self._stopping.wait, mode="asgi")
        except Exception as error:  # noqa: BLE001 - whatever happens on a connection, the cluster goes on
            self._events.exception_rarely("bug: the control interface fell and is started again", error)
            await trio.sleep(RESTART_SECONDS)


def _configuration(descriptor: int) -> Config:
    config = Config()
    config.bind = [f"fd://{descriptor}"]
    config.accesslog = config.errorlog = None  # stdout has the ready lines, stderr the events
    config.keep_alive_timeout = IDLE_SECONDS
    config.graceful_timeout = STOP_SECONDS
    config.h11_max_incomplete_size = MAX_HEAD_BYTES
    config.include_server_header = False
    return config
