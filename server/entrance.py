"""What a connection asks of TLS and SASL, as interfaces: connections to PLAINTEXT listeners import neither of them."""

from typing import Protocol

import trio

from klamm.controller.client import Client
from klamm.server.reply import Reply


class ConnectionRefused(Exception):
    """The connection has to be closed; `reply` is sent before, if there is one."""

    def __init__(self, reason: str, reply: Reply | None = None) -> None:
        super().__init__(reason)
        self.reply = reply


class Guard(Protocol):
    """Authenticates the client of one connection (`klamm.server.sasl.guard`)."""

    max_receive_bytes: int
    """The largest frame before the client is authenticated."""

    @property
    def is_authenticated(self) -> bool: ...

    async def examine(self, frame: bytes) -> Reply | None:
        """The reply to a frame of the authentication; None: the frame is a request. Raises ConnectionRefused."""

    def note_reply(self, reply: Reply | None) -> None:
        """The request path has answered the frame that `examine` passed on."""

    async def refuse_size(self, reason: str) -> None:
        """A frame is too large, or its size is negative. Raises ConnectionRefused."""


class Handshake(Protocol):
    """What comes before the first frame (`klamm.server.tls.handshake`)."""

    async def shake(self, transport: trio.abc.Stream, client: Client) -> trio.abc.Stream:
        """The stream of frames. May set the client's principal. Raises ConnectionRefused."""
        ...
