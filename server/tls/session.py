"""The server's side of a TLS connection without I/O: bytes of the wire in, plain bytes out, and the reverse (OpenSSL).

A call never waits; `TlsStream` moves the bytes. OpenSSL decrypts one record per call, of at most 16 KiB, and common
clients send records of a few kilobytes, so one call of `decrypt` takes many of the records that have arrived.
"""

import ssl
from contextlib import suppress
from typing import Final

RECORD_BYTES: Final = 16 * 1024
"""The most plain bytes of one record of TLS."""
RECORDS_AT_ONCE: Final = 256
"""The most records that one call decrypts, in less than a millisecond, also for records of one byte."""


class TlsSession:
    """The server's side of one connection. It holds at most one incomplete record besides what was fed last."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._wrapped = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    @property
    def peer_certificate(self) -> bytes | None:
        """The client's certificate in DER."""
        return self._wrapped.getpeercert(binary_form=True)

    def feed(self, data: bytes | bytearray) -> None:
        """Bytes of the wire. Empty: the transport has ended."""
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def shake(self) -> bool:
        """Continue the handshake. False: more bytes of the wire are needed. Raises SSLError."""
        try:
            self._wrapped.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def decrypt(self, max_bytes: int) -> bytes | None:
        """At most `max_bytes` that the client has sent. Empty: the client has ended its side. None: more bytes of the
        wire are needed. Raises SSLError for a forged or malformed record, after the bytes before it were returned."""
        read, pieces, left = self._wrapped.read, [], max_bytes
        try:
            for _ in range(RECORDS_AT_ONCE):
                piece = read(min(left, RECORD_BYTES))
                left -= len(piece)
                pieces.append(piece)
                if not piece or not left:
                    break
        except ssl.SSLWantReadError:
            if not pieces:
                return None
        except ssl.SSLError:
            if not pieces:
                raise  # otherwise the next call does, because OpenSSL reads nothing more
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def encrypt(self, data: bytes | bytearray | memoryview) -> None:
        """Add `data` to the bytes to send. Raises SSLError."""
        with memoryview(data) as view:
            written = 0
            while written < len(view):
                written += self._wrapped.write(view[written:])

    def end(self) -> None:
        """Add the notice that nothing follows to the bytes to send. The client's own notice is not needed."""
        with suppress(ssl.SSLError):  # OpenSSL misses the client's notice, or finds bytes that this side does not read
            self._wrapped.unwrap()

    def take_outgoing(self) -> bytes:
        """The bytes to send. The next call returns those that were added since."""
        return self._outgoing.read() if self._outgoing.pending else b""
