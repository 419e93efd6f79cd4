"""The routes of the journal, and their part of the OpenAPI description."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from klamm.cluster.options import checked_number
from klamm.cluster.requests import PAGE_REQUESTS, UnknownApi, find_requests, wait_for_requests
from klamm.console.shown import shown
from klamm.control.answers import answer
from klamm.control.bodies import read_members
from klamm.control.faults import DEFAULT_WAIT_MS, TIMEOUT, check_timeout
from klamm.control.openapi import RouteGroup, View, answered, asked, operation
from klamm.control.refusals import Checks, Refused
from klamm.protocol.near_names import did_you_mean
from klamm.server.recent_requests import Which
from klamm.server.server import Server

MAX_SEQ = 2**63 - 1
MAX_BROKER_ID = 2**31 - 1


def request_routes(server: Server) -> RouteGroup:
    """`/requests` and what is below it."""

    async def list_requests(request: Request) -> Response:
        return await _listed(server, await read_members(request, _WHICH))

    async def query_requests(request: Request) -> Response:
        return await _listed(server, _queried(request))

    async def wait(request: Request) -> Response:
        given = await read_members(request, {**_WHICH, **_WAIT})
        count, timeout_ms = given.pop("count", 1), given.pop("timeout_ms", DEFAULT_WAIT_MS)
        try:
            found = await wait_for_requests(server, _which(given), count, timeout_ms / 1000)
        except UnknownApi as error:
            raise Refused(400, str(error)) from None
        except TimeoutError as error:
            raise Refused(504, str(error)) from None
        return answer({"requests": found})

    views: dict[str, dict[str, View]] = {
        "/requests": {"GET": query_requests, "POST": list_requests},
        "/requests/wait": {"POST": wait},
    }
    return RouteGroup(views, PATHS, SCHEMAS)


async def _listed(server: Server, given: Mapping[str, Any]) -> Response:
    try:
        return answer({"requests": find_requests(server, _which(given))})
    except UnknownApi as error:
        raise Refused(400, str(error)) from None


def _which(given: Mapping[str, Any]) -> Which:
    return Which(**{name: value for name, value in given.items() if value is not None})


def _queried(request: Request) -> dict[str, Any]:
    """The members behind the question mark, checked as those of a body. `since` is short for `after_seq`."""
    given: dict[str, Any] = {}
    for written, text in request.query_params.multi_items():
        name = "after_seq" if written == "since" else written
        if name not in _WHICH:
            known = ("since", *_WHICH)
            raise Refused(
                400, f"there is no parameter {shown(written)} (known: {', '.join(known)}){did_you_mean(written, known)}"
            )
        if name in given:
            raise Refused(400, f"{shown(written)} is given twice")
        given[name] = _number(text) if name in ("after_seq", "broker_id") else text
        try:
            _WHICH[name](given[name])
        except ValueError as error:
            raise Refused(400, str(error)) from None
    return given


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) <= len(str(MAX_SEQ)) else text


def _check_text(name: str, text: object) -> None:
    if text is not None and not isinstance(text, str):
        expected = "Kafka's name of an API is expected, such as 'Produce'" if name == "api" else "a string is expected"
        raise ValueError(f"{name} {shown(text)}: {expected}")


def _check_broker(broker_id: object) -> None:
    if broker_id is not None:
        checked_number("broker_id", broker_id, 0, MAX_BROKER_ID)


_WHICH: Checks = {
    "api": lambda text: _check_text("api", text),
    "client_id": lambda text: _check_text("client_id", text),
    "broker_id": _check_broker,
    "fault": lambda text: _check_text("fault", text),
    "after_seq": lambda seq: checked_number("after_seq", seq, -1, MAX_SEQ),
}
_WAIT = {"count": lambda count: checked_number("count", count, 1, PAGE_REQUESTS), "timeout_ms": check_timeout}
_TEXT = {"type": ["string", "null"], "description": "null or missing: any"}
_MEMBERS: dict[str, dict[str, Any]] = {
    "api": {"type": ["string", "null"], "description": "Kafka's name, such as Produce; null or missing: all"},
    "client_id": _TEXT,
    "broker_id": {"type": ["integer", "null"], "description": "the broker that was asked"},
    "fault": {"type": ["string", "null"], "description": "the id of a fault rule that hit the request"},
    "after_seq": {"type": "integer", "description": "the last seq of the page before"},
}
SCHEMAS = {
    "WhichRequests": asked(_MEMBERS),
    "AwaitedRequests": asked({**_MEMBERS, "count": {"type": "integer", "minimum": 1}, "timeout_ms": TIMEOUT}),
    "Requests": answered({
        "requests": {
            "type": "array",
            "items": {"type": "object"},
            "description": "as lines of the request log; with --journal-bodies also request and response",
        },
    }),
}  # fmt: skip
_PARAMETERS = [
    {"name": "since" if name == "after_seq" else name, "in": "query", "schema": {"type": schema["type"]}}
    for name, schema in _MEMBERS.items()
]
_PAGES = "The newest 10,000 requests of clients, in pages of at most 1,000; an empty page is the end"
PATHS = {
    "/requests": {
        "get": {**operation("queryRequests", _PAGES, "Requests", refusals=(400,)), "parameters": _PARAMETERS},
        "post": operation("listRequests", _PAGES, "Requests", takes="WhichRequests", refusals=(400, 413)),
    },
    "/requests/wait": {
        "post": operation("waitForRequests", "Wait until there are so many requests", "Requests",
            takes="AwaitedRequests", refusals=(400, 413, 504)),
    },
}  # fmt: skip
