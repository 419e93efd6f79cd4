"""The routes of the controller's clock, and their part of the OpenAPI description."""

from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from klamm.cluster.options import checked_number
from klamm.control.answers import answer
from klamm.control.bodies import read_members
from klamm.control.changes import Changes
from klamm.control.openapi import RouteGroup, answered, asked, operation
from klamm.control.refusals import Refused
from klamm.server.advancing import MAX_ADVANCE_MS, NoManualClock
from klamm.server.server import Server

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def clock_routes(server: Server, changes: Changes) -> RouteGroup:
    """`/clock` and what is below it."""

    async def show(_: Request) -> Response:
        return answer(described(server))

    async def advance(request: Request) -> Response:
        given = await read_members(request, {"ms": lambda ms: checked_number("ms", ms, 1, MAX_ADVANCE_MS)})
        if "ms" not in given:
            raise Refused(400, "the member 'ms' is missing")

        async def work() -> dict[str, Any]:
            try:
                await server.time.advance(given["ms"])
            except NoManualClock as error:
                raise Refused(409, str(error)) from None
            return described(server)

        return answer(await changes.finish(work))

    return RouteGroup({"/clock": {"GET": show}, "/clock/advance": {"POST": advance}}, PATHS, SCHEMAS)


def described(server: Server) -> dict[str, Any]:
    """The clock, as JSON."""
    now_ms = server.now_ms()
    time = (_EPOCH + timedelta(milliseconds=now_ms)).isoformat(timespec="milliseconds")
    return {"clock": "manual" if server.time.is_manual else "real", "now_ms": now_ms, "time": time}


SCHEMAS = {
    "Clock": answered({
        "clock": {"type": "string", "enum": ["real", "manual"]},
        "now_ms": {"type": "integer", "description": "ms since 1970"},
        "time": {"type": "string", "description": "the same, in ISO 8601, UTC"},
    }),
    "Advance": asked({"ms": {"type": "integer", "minimum": 1, "maximum": MAX_ADVANCE_MS}}),
}  # fmt: skip
PATHS = {
    "/clock": {"get": operation("showClock", "The controller's clock", "Clock")},
    "/clock/advance": {
        "post": operation("advanceClock", "Let time pass on a manual clock; the answer comes when what happened is "
            "durable", "Clock", takes="Advance", refusals=(400, 409, 413)),
    },
}  # fmt: skip
