"""Accepted connections of one node: those within the quotas are served, the others are closed (`ConnectionQuotas`)."""

from collections.abc import Awaitable, Callable

import trio

from klamm.server.connection_quotas import ConnectionQuotas
from klamm.server.listener import peer_host
from klamm.server.listeners import Listener


class Acceptance:
    """The way of a node's connections from their listeners to the server."""

    def __init__(
        self,
        quotas: ConnectionQuotas,
        clock_ms: Callable[[], int],
        serve: Callable[[Listener, str, trio.SocketStream], Awaitable[None]],
    ) -> None:
        """`serve` serves the client with this address."""
        self._quotas = quotas
        self._clock_ms = clock_ms
        self._serve = serve

    def pause_seconds(self, listener_name: str) -> float | None:
        """How long the listener waits before it accepts the next connection. None: no rate is limited."""
        delay_ms = self._quotas.accept_delay_ms(listener_name, self._clock_ms())
        return None if delay_ms is None else delay_ms / 1000

    async def serve(self, listener: Listener, stream: trio.SocketStream) -> None:
        """Serve an accepted connection, or close it."""
        address = peer_host(stream)
        delay_ms = self._quotas.close_delay_ms(address, self._clock_ms())
        if delay_ms:
            await self._close_later(stream, delay_ms / 1000)
        elif not self._quotas.enter(address, listener.name):
            await trio.aclose_forcefully(stream)
        else:
            try:
                await self._serve(listener, address, stream)
            finally:
                self._quotas.leave(address)

    async def _close_later(self, stream: trio.SocketStream, seconds: float) -> None:
        try:
            if self._quotas.may_close_later():
                try:
                    await trio.sleep(seconds)
                finally:
                    self._quotas.closed()
        finally:
            await trio.aclose_forcefully(stream)
