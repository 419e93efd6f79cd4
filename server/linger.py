"""How the server ends a connection that has answers on their way."""

from typing import Final

import trio

LINGER_SECONDS: Final = 1.0
"""How long the server reads on after it has ended a connection, so that no reset destroys the last answers."""


async def linger(stream: trio.abc.Stream, receive_bytes: int, *, is_tls: bool) -> None:
    """End the server's side first, because closing with unread requests resets the connection and loses answers."""
    with trio.move_on_after(LINGER_SECONDS):
        if isinstance(stream, trio.abc.HalfCloseableStream):
            await stream.send_eof()
            while await stream.receive_some(receive_bytes):
                pass
        elif is_tls:
            await stream.aclose()
