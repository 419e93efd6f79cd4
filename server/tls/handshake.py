"""The TLS handshake of one connection, by trio's SSL, with the answers that Java gives to what is no TLS.

A failed handshake is answered with OpenSSL's alert, and its connection is closed at once.
"""

import ssl
from typing import Any, Final

import trio

from klamm.controller.authorizer import ANONYMOUS
from klamm.controller.client import Client
from klamm.server.entrance import ConnectionRefused
from klamm.server.event_log import EventLog
from klamm.server.tls.names import subject_name
from klamm.server.tls.principals import NoRuleMatches
from klamm.server.tls.settings import TlsSettings

_HEADER_BYTES: Final = 5
_RECORD_OF_HANDSHAKE: Final = b"\x16\x03"
"""How a client begins: a record with a handshake message, of any version of TLS."""
_INTERNAL_ERROR: Final = bytes.fromhex("15030300020250")
"""The alert that Java sends to a client that does not begin so (recorded)."""
_LINGER_SECONDS: Final = 1.0


class TlsHandshake:
    """The handshakes of a listener."""

    def __init__(self, settings: TlsSettings, events: EventLog, *, names_client: bool) -> None:
        """`names_client`: the client's certificate decides its principal; otherwise SASL does."""
        self._settings = settings
        self._events = events
        self._names_client = names_client
        self._context: _Context | None = None

    async def shake(self, transport: trio.abc.Stream, client: Client) -> trio.abc.Stream:
        """The encrypted stream. Sets the client's principal. Raises ConnectionRefused."""
        wire = _Wire(transport)
        if not await wire.begins_with_tls():
            await wire.send_all(_INTERNAL_ERROR)
            raise self._refused("the client does not speak TLS", client)
        context = self._context = _Context(self._settings.context)
        stream = trio.SSLStream(wire, context, server_side=True)  # type: ignore[arg-type]
        try:
            await stream.do_handshake()
        except trio.BrokenResourceError as error:
            # trio does not send what OpenSSL wrote before it failed, which is the alert.
            if alert := context.unsent():
                await wire.send_all(alert)
            cause = error.__cause__
            raise self._refused(getattr(cause, "reason", None) or "the client has gone", client) from None
        if self._names_client:
            client.principal = self._principal(stream, client)
            client.may_use_tokens = client.principal != ANONYMOUS
        return stream

    def release(self) -> None:
        """Free OpenSSL's memory, some 40 KiB, when the connection has ended. trio's stream refers to itself, so the
        memory would stay until Python collects its oldest garbage, which may be hours later."""
        if self._context is not None:
            self._context.release()

    def _principal(self, stream: "trio.SSLStream[Any]", client: Client) -> str:
        certificate = stream.getpeercert(binary_form=True)
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


class _Context:
    """An SSL context for one stream, which keeps the buffer of outgoing bytes and the session within reach."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._outgoing: ssl.MemoryBIO | None = None
        self._session: _Session | None = None

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **options: Any) -> "_Session":
        self._outgoing = outgoing
        self._session = _Session(self._context.wrap_bio(incoming, outgoing, **options))
        return self._session

    def unsent(self) -> bytes:
        return b"" if self._outgoing is None else self._outgoing.read()

    def release(self) -> None:
        if self._session is not None:
            self._session.release()
        self._session = self._outgoing = None


class _Session:
    """An SSL object that can be freed before those that refer to it."""

    def __init__(self, wrapped: ssl.SSLObject) -> None:
        self._wrapped: ssl.SSLObject | None = wrapped
        self.read, self.write = wrapped.read, wrapped.write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def release(self) -> None:
        """Nothing else can be called afterwards."""
        self._wrapped = None
        del self.read, self.write


class _Wire(trio.abc.Stream):
    """The transport below TLS. Its first bytes can be examined, and it closes so that no alert is lost."""

    def __init__(self, transport: trio.abc.Stream) -> None:
        self._transport = transport
        self._first = bytearray()

    async def begins_with_tls(self) -> bool:
        """Whether the first bytes are those of TLS. Waits for five bytes, as Java does."""
        while len(self._first) < _HEADER_BYTES:
            chunk = await self._transport.receive_some()
            if not chunk:
                break
            self._first += chunk
        return self._first.startswith(_RECORD_OF_HANDSHAKE)

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if self._first:
            first = self._first[:max_bytes]
            del self._first[: len(first)]
            return first
        return await self._transport.receive_some(max_bytes)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._transport.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._transport.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        # A socket that is closed with unread bytes is reset, and the client may lose the last bytes it was sent.
        try:
            if isinstance(self._transport, trio.abc.HalfCloseableStream):
                with trio.move_on_after(_LINGER_SECONDS):
                    await self._transport.send_eof()
                    while await self._transport.receive_some():
                        pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone already
        finally:
            await trio.aclose_forcefully(self._transport)
