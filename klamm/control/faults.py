"""The routes of fault rules, and their part of the OpenAPI description."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from klamm.cluster.fault_rules import add_fault, described, wait_for_hits
from klamm.cluster.options import checked_number
from klamm.control.answers import answer
from klamm.control.bodies import read_members
from klamm.control.limits import MAX_WAIT_MS
from klamm.control.openapi import RouteGroup, View, answered, asked, operation, reference
from klamm.control.refusals import Refused, decode_object
from klamm.server.faults.reading import MAX_COUNT, MEMBERS
from klamm.server.faults.rules import NoSuchRule
from klamm.server.server import Server

DEFAULT_WAIT_MS = 10_000


def fault_routes(server: Server) -> RouteGroup:
    """`/faults` and what is below it."""
    views = _FaultViews(server)
    by_path: dict[str, dict[str, View]] = {
        "/faults": {"GET": views.list_rules, "POST": views.add, "DELETE": views.clear},
        "/faults/{rule_id}": {"GET": views.show, "DELETE": views.remove},
        "/faults/{rule_id}/wait": {"POST": views.wait},
    }
    return RouteGroup(by_path, PATHS, SCHEMAS)


class _FaultViews:
    """What each route does."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def list_rules(self, _: Request) -> Response:
        return answer({"faults": [described(self._server, state) for state in self._server.faults.all()]})

    async def add(self, request: Request) -> Response:
        members = decode_object(await request.body())
        try:
            added = add_fault(self._server, members)
        except ValueError as error:
            raise Refused(400, str(error)) from None
        return answer(added, 201, {"Location": f"/faults/{added['id']}"})

    async def clear(self, _: Request) -> Response:
        return answer({"removed": self._server.faults.clear()})

    async def show(self, request: Request) -> Response:
        try:
            return answer(described(self._server, self._server.faults.find(_rule_id(request))))
        except NoSuchRule as error:
            raise Refused(404, str(error)) from None

    async def remove(self, request: Request) -> Response:
        try:
            return answer(described(self._server, self._server.faults.remove(_rule_id(request))))
        except NoSuchRule as error:
            raise Refused(404, str(error)) from None

    async def wait(self, request: Request) -> Response:
        given = await read_members(request, _WAIT)
        hits, timeout_ms = given.get("hits", 1), given.get("timeout_ms", DEFAULT_WAIT_MS)
        try:
            return answer(await wait_for_hits(self._server, _rule_id(request), hits, timeout_ms / 1000))
        except NoSuchRule as error:
            raise Refused(404, str(error)) from None
        except TimeoutError as error:
            raise Refused(504, str(error)) from None


def _rule_id(request: Request) -> str:
    return str(request.path_params["rule_id"])


def check_timeout(timeout_ms: object) -> None:
    """Raise ValueError unless the value is a time that a request may wait."""
    checked_number("timeout_ms", timeout_ms, 0, MAX_WAIT_MS)


_WAIT = {"hits": lambda hits: checked_number("hits", hits, 1, MAX_COUNT), "timeout_ms": check_timeout}
TIMEOUT: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_MS, "description": "10000 if missing"}
_NUMBERS = {"type": ["integer", "array"]}
_KINDS: dict[str, dict[str, Any]] = {
    **{name: {"type": "string"} for name in MEMBERS},
    "api": {"type": ["string", "array"], "description": "Kafka's name of an API, or several"},
    "versions": {"type": ["string", "integer"], "description": "such as 3-9"},
    "broker": _NUMBERS,
    "partition": _NUMBERS,
    **{name: {"type": "object", "description": "values by their paths"} for name in ("where", "set")},
    **{name: {"type": "integer"} for name in ("skip", "times", "every", "for_ms", "throttle_time_ms")},
    "probability": {"type": "number"},
    "delay_ms": {"type": ["number", "object"]},
    **{name: {"type": "boolean"} for name in ("whole", "after", "stale_metadata")},
}
_RULE_PATH = {"name": "rule_id", "in": "path", "required": True, "schema": {"type": "string"}}
SCHEMAS = {
    "FaultRule": asked({name: _KINDS[name] for name in MEMBERS}),
    "Fault": answered({
        "id": {"type": "string"},
        "rule": {"type": "object", "description": "its members, as they were given"},
        "state": {"type": "string", "enum": ["active", "over", "removed"]},
        "matches": {"type": "integer", "description": "the requests that it matched while it was not over"},
        "hits": {"type": "integer", "description": "those on which it counted"},
        "requests": {"type": "array", "items": {"type": "object"}, "description": "the newest 100 hits"},
    }),
    "Faults": answered({"faults": {"type": "array", "items": reference("Fault")}}),
    "RemovedFaults": answered({"removed": {"type": "integer"}}),
    "WaitForHits": asked({"hits": {"type": "integer", "minimum": 1}, "timeout_ms": TIMEOUT}),
}  # fmt: skip
PATHS = {
    "/faults": {
        "get": operation("listFaults", "All fault rules, in their order", "Faults"),
        "post": operation("addFault", "Add a fault rule (docs/faults.md)", "Fault", status=201, takes="FaultRule",
            refusals=(400, 413)),
        "delete": operation("removeFaults", "Remove all fault rules", "RemovedFaults"),
    },
    "/faults/{rule_id}": {
        "parameters": [_RULE_PATH],
        "get": operation("showFault", "A fault rule, with the requests that it hit", "Fault", refusals=(404,)),
        "delete": operation("removeFault", "Remove a fault rule; connections that it keeps silent are closed", "Fault",
            refusals=(404,)),
    },
    "/faults/{rule_id}/wait": {
        "parameters": [_RULE_PATH],
        "post": operation("waitForHits", "Wait until a fault rule has this many hits", "Fault", takes="WaitForHits",
            refusals=(400, 404, 413, 504)),
    },
}  # fmt: skip
