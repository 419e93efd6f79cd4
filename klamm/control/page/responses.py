"""Answers that are sent in pieces: a snapshot, and the stream of events to one page."""

from collections.abc import Mapping, Sequence
from typing import Final

import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from klamm.control.limits import UNREAD_SECONDS
from klamm.control.page.feed import Feed

PIECE_BYTES: Final = 256 * 1024
"""What is given to the connection at a time."""
QUIET_SECONDS: Final = 15.0
"""After so long without an event a comment is sent, so that both sides see a broken connection."""
RESET: Final = b"event: reset\ndata: {}\n\n"
"""Tells the page to begin with a new snapshot."""


class PiecesResponse(Response):
    """Bytes that are sent in pieces, so that no other task waits for all of them."""

    def __init__(self, pieces: Sequence[bytes], media_type: str, headers: Mapping[str, str]) -> None:
        super().__init__(None, 200, headers, media_type)
        self._pieces = pieces
        self.headers["Content-Length"] = str(sum(map(len, pieces)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for piece in self._pieces if scope["method"] != "HEAD" else ():
            for first in range(0, len(piece), PIECE_BYTES):
                body = piece[first : first + PIECE_BYTES]
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class EventsResponse(Response):
    """The events behind that of a number, until the page leaves, falls too far behind, or the server stops."""

    def __init__(self, feed: Feed, number: int, headers: Mapping[str, str]) -> None:
        super().__init__(None, 200, headers, "text/event-stream")
        del self.headers["Content-Length"]
        self._feed = feed
        self._number = number

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            await self._serve(receive, send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _serve(self, receive: Receive, send: Send) -> None:
        self._feed.listeners += 1
        self._feed.watch()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_end_when_disconnected, receive, nursery.cancel_scope)
                await self._send_events(send)
                nursery.cancel_scope.cancel()
        finally:
            self._feed.listeners -= 1
            if not self._feed.events.is_over:
                self._feed.watch()

    async def _send_events(self, send: Send) -> None:
        events, is_over = self._feed.events, False
        while not is_over:
            found = events.after(self._number, PIECE_BYTES)
            is_over = found is None or events.is_over
            body, self._number = (RESET, self._number) if found is None else found
            with trio.move_on_after(UNREAD_SECONDS) as unread:
                await send({"type": "http.response.body", "body": body or b":\n\n", "more_body": True})
            if unread.cancelled_caught:
                return
            if not is_over:
                await events.wait(self._number, QUIET_SECONDS)


async def _end_when_disconnected(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
