"""A TLS connection as a trio stream: moves bytes between a TlsSession and the transport below it.

Takes the place of trio's SSLStream, which returns one record in each turn of the scheduler. librdkafka sends records of
3 KB; with these the turns took twice the processor time of all else that the server does for a Produce request.
"""

import ssl
from typing import Final

import trio

from klamm.server.tls.session import TlsSession

RECEIVE_BYTES: Final = 64 * 1024
_LINGER_SECONDS: Final = 1.0


class TlsStream(trio.abc.Stream):
    """The server's side. One task may receive while another sends. After a failure only `aclose` may be called."""

    def __init__(self, transport: trio.abc.Stream, context: ssl.SSLContext, first: bytes | bytearray = b"") -> None:
        """`first`: what the transport has already delivered."""
        self._transport = transport
        self._session: TlsSession | None = TlsSession(context)
        self._sending = trio.StrictFIFOLock()
        self._is_usable = False  # after the handshake, until a failure
        if first:
            self._session.feed(first)

    @property
    def peer_certificate(self) -> bytes | None:
        """The client's certificate in DER, after the handshake."""
        return self._usable_session().peer_certificate

    async def do_handshake(self) -> None:
        """Raises BrokenResourceError, whose cause is OpenSSL's error, after the client was sent OpenSSL's alert."""
        session = self._session
        assert session is not None, "the handshake comes first"
        try:
            while not session.shake():
                await self._send_outgoing(session)
                session.feed(await self._transport.receive_some(RECEIVE_BYTES))
        except ssl.SSLError as error:
            await self._send_outgoing(session)
            raise trio.BrokenResourceError from error
        self._is_usable = True
        await self._send_outgoing(session)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """What the client has sent: the content of as many records as have arrived and `max_bytes` allow."""
        session = self._usable_session()
        await trio.lowlevel.checkpoint_if_cancelled()
        has_waited = False
        while (received := self._decrypted(session, max_bytes or RECEIVE_BYTES)) is None:
            await self._send_outgoing(session)  # such as the answer to a new key
            session.feed(await self._transport.receive_some(RECEIVE_BYTES))
            has_waited = True
        if not has_waited:
            await trio.lowlevel.cancel_shielded_checkpoint()  # a cancellation would lose what was received
        return received

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt all of `data`, and send it."""
        session = self._usable_session()
        try:
            session.encrypt(data)
        except ssl.SSLError as error:
            self._is_usable = False
            raise trio.BrokenResourceError from error
        if not await self._send_outgoing(session):
            await trio.lowlevel.checkpoint()

    async def wait_send_all_might_not_block(self) -> None:
        """As the transport does."""
        self._usable_session()
        await self._transport.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Send TLS's notice that nothing follows, and close the transport so that the last bytes are not lost. Frees
        OpenSSL's memory, some 40 KiB, at once."""
        session, self._session = self._session, None
        try:
            if session is not None and self._is_usable:
                session.end()
                await self._send_outgoing(session)
            # A socket that is closed with unread bytes is reset, and the client may lose the last bytes it was sent.
            if session is not None and isinstance(self._transport, trio.abc.HalfCloseableStream):
                with trio.move_on_after(_LINGER_SECONDS):
                    await self._transport.send_eof()
                    while await self._transport.receive_some():
                        pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone already
        finally:
            await trio.aclose_forcefully(self._transport)

    def _usable_session(self) -> TlsSession:
        if self._session is None:
            raise trio.ClosedResourceError("this stream is closed")
        if not self._is_usable:
            raise trio.BrokenResourceError("this stream has failed, or has had no handshake")
        return self._session

    def _decrypted(self, session: TlsSession, max_bytes: int) -> bytes | None:
        try:
            return session.decrypt(max_bytes)
        except ssl.SSLError as error:
            self._is_usable = False
            raise trio.BrokenResourceError from error

    async def _send_outgoing(self, session: TlsSession) -> bool:
        """Send what OpenSSL has written, in the order of the calls. False: it has written nothing."""
        outgoing = session.take_outgoing()
        if not outgoing:
            return False
        try:
            try:
                self._sending.acquire_nowait()
            except trio.WouldBlock:
                await self._sending.acquire()
            try:
                await self._transport.send_all(outgoing)
            finally:
                self._sending.release()
        except BaseException:
            self._is_usable = False  # some of the bytes may be lost
            raise
        return True
