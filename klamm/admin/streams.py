"""The streams under the connections of the admin client: TCP, with TLS if the client has settings for it.

A broken stream has a reason that users can act on: the text of the operating system, or of OpenSSL, which includes the
alert that a broker sends when it refuses the client's certificate.
"""

import os
import ssl
from typing import TypeAlias

import trio

from klamm.server.addresses import Address

Stream: TypeAlias = "trio.SocketStream | trio.SSLStream[trio.SocketStream]"


class ConnectionLost(Exception):
    """The connection cannot be used any more; the text is the reason."""


class AccessRefused(ConnectionLost):
    """One of the two sides refuses the other: its certificate, password or token. Another attempt would fail, too."""


async def open_stream(address: Address, tls: ssl.SSLContext | None) -> Stream:
    """Connect. Raises ConnectionLost."""
    try:
        stream = await trio.open_tcp_stream(address.host, address.port)
    except OSError as error:
        raise ConnectionLost(f"cannot connect to {address}: {_reason(error)}") from error
    if tls is None:
        return stream
    encrypted = trio.SSLStream(stream, tls, server_hostname=address.host, https_compatible=True)
    try:
        await encrypted.do_handshake()
    except trio.BrokenResourceError as error:
        await trio.aclose_forcefully(encrypted)
        lost = broken(address, error)
        if isinstance(lost, AccessRefused):
            raise lost from error
        raise ConnectionLost(f"{lost} during the TLS handshake: perhaps this listener has no TLS") from error
    except BaseException:
        await trio.aclose_forcefully(encrypted)
        raise
    return encrypted


def is_readable(stream: Stream) -> bool:
    """Whether bytes, or the end of the stream, have arrived."""
    transport = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    return transport.socket.is_readable()


def broken(address: Address, error: BaseException) -> ConnectionLost:
    """The exception about a stream that raised this one."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError) or not isinstance(cause, ssl.SSLError):
        return ConnectionLost(f"{address} closed the connection")
    if isinstance(cause, ssl.SSLCertVerificationError):
        return AccessRefused(f"the certificate of {address} is refused: {cause.verify_message}")
    reason = (cause.reason or "malformed").lower().replace("_", " ")
    return AccessRefused(f"TLS with {address} failed: {reason}")


def _reason(error: OSError) -> str:
    # trio groups the errors of all resolved addresses.
    cause = error.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    # The operating system's text, without the address again; failed look-ups of names have other texts.
    if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
        return os.strerror(cause.errno)
    return str(cause or error)
