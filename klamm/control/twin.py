"""The routes of a twin that can begin again, and their part of the OpenAPI description.

A restart closes this interface and opens it again. The answer to the request for it comes before that, with the number
of the restart, by which a client finds out that it is over.
"""

from pathlib import Path
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response

from klamm.control.answers import answer
from klamm.control.bodies import read_members
from klamm.control.openapi import RouteGroup, answered, operation
from klamm.control.refusals import Refused
from klamm.controller.log.errors import LogError
from klamm.server.server import Server

ACCEPTED = 202
NO_TWIN = "the cluster is not a twin that can begin again: klamm serve --twin DIR --follow is one"


class RestartableTwin(Protocol):
    """What `klamm serve --twin DIR --follow` can do."""

    @property
    def source(self) -> Path:
        """What the twin is made of."""
        ...

    @property
    def restarts(self) -> int:
        """How many times the twin has begun again."""
        ...

    async def ask(self) -> int:
        """Read the source, and let the twin begin again. Returns the number of the restart. Raises LogError, and then
        the twin goes on as it is."""
        ...


def twin_routes(server: Server, twin: RestartableTwin | None) -> RouteGroup:
    """`/twin` and `/twin/restart`."""

    def checked() -> RestartableTwin:
        if twin is None:
            raise Refused(409, NO_TWIN)
        return twin

    def described(restarts: int) -> dict[str, Any]:
        return {"twin": str(checked().source), "restarts": restarts, "bootstrap_servers": server.bootstrap_servers}

    async def show(_: Request) -> Response:
        return answer(described(checked().restarts))

    async def restart(request: Request) -> Response:
        await read_members(request, {})
        try:
            number = await checked().ask()
        except LogError as error:
            raise Refused(409, f"the twin cannot begin again, and goes on as it is: {error}") from None
        return answer(described(number), ACCEPTED)

    return RouteGroup({"/twin": {"GET": show}, "/twin/restart": {"POST": restart}}, PATHS, SCHEMAS)


SCHEMAS = {
    "Twin": answered({
        "twin": {"type": "string", "description": "the directory or file that it is made of"},
        "restarts": {"type": "integer", "description": "how many times it has begun again; in the answer to a restart "
            "the number of that one"},
        "bootstrap_servers": {"type": "string", "description": "its brokers that are up; others after a restart, "
            "unless they have fixed ports"},
    }),
}  # fmt: skip
PATHS = {
    "/twin": {"get": operation("describeTwin", "What the twin is made of", "Twin", refusals=(409,))},
    "/twin/restart": {
        "post": operation(
            "restartTwin",
            "Let the twin begin again with the present metadata of its source; the answer comes when that is read",
            "Twin",
            status=ACCEPTED,
            refusals=(400, 409, 413),
        ),
    },
}
