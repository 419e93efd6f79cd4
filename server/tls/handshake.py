"""The TLS handshake of one connection, with the answers that Java gives to what is no TLS.

A failed handshake is answered with OpenSSL's alert, and its connection is closed at once.
"""

from typing import Final

import trio

from klamm.controller.authorizer import ANONYMOUS
from klamm.controller.client import Client
from klamm.server.entrance import ConnectionRefused
from klamm.server.event_log import EventLog
from klamm.server.tls.names import subject_name
from klamm.server.tls.principals import NoRuleMatches
from klamm.server.tls.settings import TlsSettings
from klamm.server.tls.stream import TlsStream

_HEADER_BYTES: Final = 5
_RECORD_OF_HANDSHAKE: Final = b"\x16\x03"
"""How a client begins: a record with a handshake message, of any version of TLS."""
_INTERNAL_ERROR: Final = bytes.fromhex("15030300020250")
"""The alert that Java sends to a client that does not begin so (recorded)."""


class TlsHandshake:
    """The handshakes of a listener."""

    def __init__(self, settings: TlsSettings, events: EventLog, *, names_client: bool) -> None:
        """`names_client`: the client's certificate decides its principal; otherwise SASL does."""
        self._settings = settings
        self._events = events
        self._names_client = names_client

    async def shake(self, transport: trio.abc.Stream, client: Client) -> trio.abc.Stream:
        """The encrypted stream. Sets the client's principal. Raises ConnectionRefused."""
        first = await _first_bytes(transport)
        if not first.startswith(_RECORD_OF_HANDSHAKE):
            await transport.send_all(_INTERNAL_ERROR)
            raise self._refused("the client does not speak TLS", client)
        stream = TlsStream(transport, self._settings.context, first)
        try:
            await stream.do_handshake()
        except trio.BrokenResourceError as error:
            reason = getattr(error.__cause__, "reason", None)
            raise self._refused(reason or "the client has gone", client) from None
        if self._names_client:
            client.principal = self._principal(stream, client)
            client.may_use_tokens = client.principal != ANONYMOUS
        return stream

    def _principal(self, stream: TlsStream, client: Client) -> str:
        certificate = stream.peer_certificate
        if certificate is None:
            return ANONYMOUS
        try:
            return f"User:{self._settings.rules.name_of(subject_name(certificate))}"
        except NoRuleMatches as error:
            raise self._refused(f"ssl.principal.mapping.rules has no rule for {error}", client) from None
        except ValueError as error:
            raise self._refused(str(error), client) from None

    def _refused(self, reason: str, client: Client) -> ConnectionRefused:
        self._events.warning_rarely(
            "TLS handshake failed", reason=reason, host=client.host, listener=client.listener_name
        )
        return ConnectionRefused(reason)


async def _first_bytes(transport: trio.abc.Stream) -> bytearray:
    """What the client sends first: five bytes at least, which Java waits for, too; fewer if it sends no more."""
    first = bytearray()
    while len(first) < _HEADER_BYTES and (chunk := await transport.receive_some()):
        first += chunk
    return first
