"""The route that returns the requests of clients, and its part of the OpenAPI description."""

from starlette.requests import Request
from starlette.responses import Response

from klamm.cluster.options import checked_number
from klamm.cluster.requests import UnknownApi, find_requests
from klamm.console.shown import shown
from klamm.control.answers import answer
from klamm.control.bodies import read_members
from klamm.control.openapi import RouteGroup, answered, asked, operation
from klamm.control.refusals import Refused
from klamm.server.server import Server

MAX_SEQ = 2**63 - 1


def request_routes(server: Server) -> RouteGroup:
    """`/requests`."""

    async def list_requests(request: Request) -> Response:
        given = await read_members(request, {"api": _check_api, "after_seq": _check_seq})
        try:
            found = find_requests(server, given.get("api"), given.get("after_seq", -1))
        except UnknownApi as error:
            raise Refused(400, str(error)) from None
        return answer({"requests": found})

    return RouteGroup({"/requests": {"POST": list_requests}}, PATHS, SCHEMAS)


def _check_api(api: object) -> None:
    if api is not None and not isinstance(api, str):
        raise ValueError(f"api {shown(api)}: Kafka's name of an API is expected, such as 'Produce'")


def _check_seq(seq: object) -> None:
    checked_number("after_seq", seq, -1, MAX_SEQ)


SCHEMAS = {
    "WhichRequests": asked({
        "api": {"type": ["string", "null"], "description": "Kafka's name, such as Produce; null or missing: all"},
        "after_seq": {"type": "integer", "description": "the last seq of the page before"},
    }),
    "Requests": answered({
        "requests": {"type": "array", "items": {"type": "object"}, "description": "as lines of the request log"},
    }),
}  # fmt: skip
PATHS = {
    "/requests": {
        "post": operation(
            "listRequests",
            "The newest 10,000 requests of clients, in pages of at most 1,000; an empty page is the end",
            "Requests",
            takes="WhichRequests",
            refusals=(400, 413),
        ),
    },
}
