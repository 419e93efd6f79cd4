"""Accepted connections of one node: those within the quotas are served, the others are closed (`ConnectionQuotas`)."""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from klamm.server.connection_quotas import ConnectionQuotas
from klamm.server.listener import peer_host
from klamm.server.listeners import Listener

_LOOK_SECONDS: Final = 0.1
"""How soon a listener without a slot finds that a config gives it one."""


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
        self._left = trio.lowlevel.ParkingLot()

    async def admit(self, listener_name: str) -> bool:
        """Return when the next connection of the listener may be accepted. False: no rate and no number is limited, so
        connections are accepted as they come."""
        delay_ms = self._quotas.accept_delay_ms(listener_name, self._clock_ms())
        if delay_ms is not None:
            await trio.sleep(delay_ms / 1000)
        has_number = self._quotas.has_number(listener_name)
        if has_number:
            await trio.lowlevel.checkpoint()  # the connection that was accepted before has its slot now
            while not self._quotas.has_slot(listener_name):
                with trio.move_on_after(_LOOK_SECONDS):
                    await self._left.park()
        return has_number or delay_ms is not None

    async def serve(self, listener: Listener, stream: trio.SocketStream) -> None:
        """Serve an accepted connection, or close it."""
        address, now_ms = peer_host(stream), self._clock_ms()
        if not self._quotas.has_rate(listener.name):
            self._quotas.count_accepted(listener.name, now_ms)
        delay_ms = self._quotas.close_delay_ms(address, now_ms)
        if delay_ms:
            self._quotas.count_accepted(listener.name, now_ms, -1)
            await self._close_later(stream, delay_ms / 1000)
        elif not self._quotas.enter(address, listener.name):
            await trio.aclose_forcefully(stream)
        else:
            try:
                await self._serve(listener, address, stream)
            finally:
                self._quotas.leave(address, listener.name)
                self._left.unpark_all()

    async def _close_later(self, stream: trio.SocketStream, seconds: float) -> None:
        try:
            if self._quotas.may_close_later():
                try:
                    await trio.sleep(seconds)
                finally:
                    self._quotas.closed()
        finally:
            await trio.aclose_forcefully(stream)
