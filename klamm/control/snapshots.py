"""The route that writes a snapshot of the metadata log, and its part of the OpenAPI description."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from klamm.control.answers import answer
from klamm.control.bodies import read_members
from klamm.control.changes import Changes
from klamm.control.openapi import RouteGroup, answered, operation
from klamm.server.server import Server


def snapshot_routes(server: Server, changes: Changes) -> RouteGroup:
    """`/snapshot`."""

    async def take_snapshot(request: Request) -> Response:
        await read_members(request, {})

        async def take() -> dict[str, Any]:
            taken = await server.snapshot()
            return {"end_offset": taken.end_offset, "records": taken.record_count}

        return answer(await changes.finish(take))

    return RouteGroup({"/snapshot": {"POST": take_snapshot}}, PATHS, SCHEMAS)


SCHEMAS = {
    "Snapshot": answered({
        "end_offset": {"type": "integer", "description": "it stands for every record below this offset"},
        "records": {"type": "integer", "description": "how many it has itself, header and footer among them"},
    }),
}  # fmt: skip
PATHS = {
    "/snapshot": {
        "post": operation(
            "takeSnapshot",
            "Write a snapshot of the metadata log; the answer comes when it is durable",
            "Snapshot",
            refusals=(400, 413, 507),
        ),
    },
}
