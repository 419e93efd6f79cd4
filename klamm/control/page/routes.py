"""The routes of the page, and their part of the OpenAPI description.

The files have no secrets and are given to everybody; a browser cannot send a token before it has them. Snapshot and
events need the token, as all other routes.
"""

from functools import cache
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from klamm.control.openapi import RouteGroup, View, operation
from klamm.control.page.feed import Feed
from klamm.control.page.responses import EventsResponse, PiecesResponse
from klamm.control.page.snapshot import take_snapshot
from klamm.control.refusals import Refused
from klamm.server.server import Server

FILES: Final = Path(__file__).parent / "files"
TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
START: Final = "index.html"
MAX_LISTENERS: Final = 16
"""Pages that get events at a time."""
MAX_SNAPSHOTS: Final = 2
"""Snapshots that are made at a time: one of a million partitions takes 16 MB."""
MAX_DIGITS: Final = 15
HEADERS: Final = {
    # Nothing but the page's own files, no script or style in the text of the page, no HTML made of strings.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""What comes with every answer of the page."""
NOT_STORED: Final = {**HEADERS, "Cache-Control": "no-store"}


@cache
def page_files() -> dict[str, str]:
    """The path of each file of the page, by the path of its route."""
    return {"/" if path.name == START else f"/page/{path.name}": path.name for path in sorted(FILES.iterdir())}


def page_routes(server: Server, feed: Feed) -> RouteGroup:
    """`/` and what is below `/page`."""
    snapshots = 0

    async def show_file(request: Request) -> Response:
        path = FILES / page_files()[request.scope["path"]]
        return Response(path.read_bytes(), 200, HEADERS, TYPES[path.suffix])

    async def snapshot(_: Request) -> Response:
        nonlocal snapshots
        if snapshots >= MAX_SNAPSHOTS:
            raise Refused(503, f"{MAX_SNAPSHOTS} snapshots are being made, and no more at a time")
        snapshots += 1
        try:
            return PiecesResponse(await take_snapshot(server, feed), "application/octet-stream", NOT_STORED)
        finally:
            snapshots -= 1

    async def events(request: Request) -> Response:
        number = request.headers.get("Last-Event-ID", "")
        if not (number.isascii() and number.isdigit() and len(number) <= MAX_DIGITS):
            raise Refused(400, "the header Last-Event-ID must be the seq of a snapshot, or the id of an event")
        if feed.listeners >= MAX_LISTENERS:
            raise Refused(503, f"{MAX_LISTENERS} pages get events, and no more at a time")
        return EventsResponse(feed, int(number), NOT_STORED)

    views: dict[str, dict[str, View]] = {path: {"GET": show_file} for path in page_files()}
    views["/page/snapshot"] = {"GET": snapshot}
    views["/page/events"] = {"GET": events}
    return RouteGroup(views, paths(), {})


def _gives(operation_id: str, summary: str, media_type: str, refusals: tuple[int, ...] = ()) -> dict[str, Any]:
    described = operation(operation_id, summary, {}, refusals=refusals)
    described["responses"]["200"] = {"description": "done", "content": {media_type: {}}}
    return described


def paths() -> dict[str, Any]:
    """The description of the routes."""
    found: dict[str, Any] = {
        "/page/snapshot": {
            "get": _gives("pageSnapshot", "The cluster for the page: JSON, then partitions of 16 bytes each",
                "application/octet-stream")
        },
        "/page/events": {
            "get": {
                **_gives("pageEvents", "What changes behind a snapshot, as server-sent events", "text/event-stream",
                    (400,)),
                "parameters": [
                    {"name": "Last-Event-ID", "in": "header", "required": True, "schema": {"type": "integer"}}
                ],
            }
        },
    }  # fmt: skip
    for path, name in page_files().items():
        stem, _, kind = name.partition(".")
        found[path] = {"get": _gives(f"{kind}{stem.capitalize()}OfPage", "A file of the page", TYPES[f".{kind}"])}
    return found
