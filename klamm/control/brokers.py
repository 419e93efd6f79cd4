"""The routes that list, stop, start, add and remove brokers, and their part of the OpenAPI description.

Every change answers when the metadata shows it (`klamm.server.server` waits for that), with the broker as it is
at that moment. Decisions are the server's: here requests become calls and brokers become JSON.
"""

from typing import Any, Literal, cast

from starlette.requests import Request
from starlette.responses import Response

from klamm.broker.brokers import NoSuchBroker
from klamm.cluster.options import MAX_BROKERS, checked_racks
from klamm.console.shown import shown
from klamm.control.answers import answer
from klamm.control.bodies import read_members
from klamm.control.changes import Changes
from klamm.control.openapi import RouteGroup, View, answered, asked, operation, reference
from klamm.control.refusals import Refused
from klamm.controller.metadata.usage import UNLIMITED_TOPICS
from klamm.server.brokers import GIVE_UP_SECONDS
from klamm.server.server import Server

MAX_ID_DIGITS = 10
"""Ids are int32."""


def broker_routes(server: Server, changes: Changes) -> RouteGroup:
    """`/brokers` and what is below it."""
    views = _BrokerViews(server, changes)
    by_path: dict[str, dict[str, View]] = {
        "/brokers": {"GET": views.list_brokers, "POST": views.add_broker},
        "/brokers/{broker_id}": {"GET": views.show_broker, "DELETE": views.remove_broker},
        "/brokers/{broker_id}/stop": {"POST": views.stop_broker},
        "/brokers/{broker_id}/kill": {"POST": views.kill_broker},
        "/brokers/{broker_id}/start": {"POST": views.start_broker},
    }
    return RouteGroup(by_path, PATHS, SCHEMAS)


class _BrokerViews:
    """What each route does. Path and body are checked before anything changes."""

    def __init__(self, server: Server, changes: Changes) -> None:
        self._server = server
        self._changes = changes

    async def list_brokers(self, _: Request) -> Response:
        return answer([describe_broker(self._server, broker_id) for broker_id in sorted(self._server.brokers.by_id)])

    async def show_broker(self, request: Request) -> Response:
        return answer(describe_broker(self._server, known_broker(self._server, request)))

    async def add_broker(self, request: Request) -> Response:
        given = await read_members(request, {"rack": _check_rack})

        async def add() -> dict[str, Any]:
            if len(self._server.brokers.by_id) >= MAX_BROKERS:
                raise Refused(409, f"there are {MAX_BROKERS} brokers, and more are not possible")
            return describe_broker(self._server, await self._server.add_broker(given.get("rack")))

        added = await self._changes.finish(add)
        return answer(added, 201, {"Location": f"/brokers/{added['id']}"})

    async def stop_broker(self, request: Request) -> Response:
        stopped = known_broker(self._server, request)
        members = await read_members(request, {"mode": _check_mode})
        return await self._stop(stopped, members.get("mode", "shutdown"))

    async def kill_broker(self, request: Request) -> Response:
        killed = known_broker(self._server, request)
        await read_members(request, {})
        return await self._stop(killed, "crash")

    async def _stop(self, stopped: int, mode: Literal["shutdown", "crash"]) -> Response:
        async def stop() -> dict[str, Any]:
            await self._server.stop_broker(stopped, mode)
            return describe_broker(self._server, stopped)

        return answer(await self._changes.finish(stop))

    async def start_broker(self, request: Request) -> Response:
        started = known_broker(self._server, request)
        await read_members(request, {})

        async def start() -> dict[str, Any]:
            await self._server.start_broker(started)
            return describe_broker(self._server, started)

        return answer(await self._changes.finish(start))

    async def remove_broker(self, request: Request) -> Response:
        removed = known_broker(self._server, request)
        await read_members(request, {})

        async def remove() -> dict[str, Any]:
            await self._server.remove_broker(removed)
            return {"id": removed, "state": "removed"}

        return answer(await self._changes.finish(remove))


def known_broker(server: Server, request: Request) -> int:
    """The id in the path. Raises `Refused` if no simulated broker has it."""
    text: str = request.path_params["broker_id"]
    # Digits only: int() would also take "+1", "1_0" and other scripts' digits.
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_ID_DIGITS):
        raise Refused(404, f"there is no simulated broker {shown(text)}")
    try:
        return server.brokers.find(int(text)).broker_id
    except NoSuchBroker as error:
        raise Refused(404, str(error)) from None


def describe_broker(server: Server, broker_id: int) -> dict[str, Any]:
    """A simulated broker as this process and the metadata have it now."""
    broker = server.brokers.by_id[broker_id]
    registered = server.image.brokers.get(broker_id)
    at = server.advertised(broker_id)
    return {
        "id": broker_id,
        "rack": broker.rack,
        "host": at.host,
        "port": at.port,
        "listeners": {name: str(address) for name, address in server.addresses_of(broker_id).items()},
        "state": "up" if broker.is_up else "down",
        # A broker that is about to register for the first time is not in the metadata yet.
        "fenced": registered is None or registered.fenced,
        "in_controlled_shutdown": registered is not None and registered.in_controlled_shutdown,
        "broker_epoch": -1 if registered is None else registered.broker_epoch,
        "replicas": _replica_count(server, broker_id),
    }


def _replica_count(server: Server, broker_id: int) -> int:
    image = server.image
    # Kept up to date as the limits of KIP-578 need it, which is without two topics.
    count = image.usage.replicas.get(broker_id, 0)
    for name in UNLIMITED_TOPICS & image.topics_by_name.keys():
        for owned, table in image.partitions.topic_ranges(image.topics_by_name[name].row):
            count += int((table.replicas[owned.rows] == broker_id).sum())
    return count


def _check_rack(rack: object) -> None:
    if rack is not None:
        checked_racks((cast("str", rack),))  # whether it is text is what is checked


def _check_mode(mode: object) -> None:
    if mode not in ("shutdown", "crash"):
        raise ValueError(f"mode {shown(mode)}: 'shutdown' or 'crash' is expected")


BROKER_ID = {"name": "broker_id", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 0}}
SCHEMAS = {
    "Broker": answered({
        "id": {"type": "integer"},
        "rack": {"type": ["string", "null"]},
        "host": {"type": "string", "description": "what clients are told to connect to"},
        "port": {"type": "integer"},
        "listeners": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "HOST:PORT of each of its listeners, by name",
        },
        "state": {"type": "string", "enum": ["up", "down"], "description": "whether its listeners accept"},
        "fenced": {"type": "boolean", "description": "after a crash only once its session is over"},
        "in_controlled_shutdown": {"type": "boolean"},
        "broker_epoch": {"type": "integer", "description": "-1: it has not registered yet"},
        "replicas": {"type": "integer", "description": "how many replicas it holds, of all topics"},
    }),
    "RemovedBroker": answered({"id": {"type": "integer"}, "state": {"type": "string", "enum": ["removed"]}}),
    "NewBroker": asked({
        "rack": {"type": ["string", "null"], "description": "null or missing: the rack whose turn it is"},
    }),
    "Stop": asked({
        "mode": {
            "type": "string",
            "enum": ["shutdown", "crash"],
            "default": "shutdown",
            "description": "shutdown: leaderships move first, and the answer comes when the broker is fenced. "
            "crash: its connections are closed at once, and it is fenced after broker.session.timeout.ms.",
        },
    }),
}  # fmt: skip
PATHS = {
    "/brokers": {
        "get": operation(
            "listBrokers", "All simulated brokers, by id", {"type": "array", "items": reference("Broker")}
        ),
        "post": operation(
            "addBroker", "Add a broker", "Broker", status=201, takes="NewBroker", refusals=(400, 409, 413, 504)
        ),
    },
    "/brokers/{broker_id}": {
        "parameters": [BROKER_ID],
        "get": operation("showBroker", "One broker", "Broker", refusals=(404,)),
        "delete": operation(
            "removeBroker",
            "Shut a broker down, if it is up, and have the cluster forget it",
            "RemovedBroker",
            refusals=(400, 404, 409, 413, 504),
        ),
    },
    "/brokers/{broker_id}/stop": {
        "parameters": [BROKER_ID],
        "post": operation("stopBroker", "Stop a broker", "Broker", takes="Stop", refusals=(400, 404, 409, 413, 504)),
    },
    "/brokers/{broker_id}/kill": {
        "parameters": [BROKER_ID],
        "post": operation(
            "killBroker",
            "Crash a broker: the same as a stop with the mode crash",
            "Broker",
            refusals=(400, 404, 409, 413, 504),
        ),
    },
    "/brokers/{broker_id}/start": {
        "parameters": [BROKER_ID],
        "post": operation(
            "startBroker",
            "Start a broker that is down; after a crash that takes until the session of its former self is over, and "
            f"is given up after {GIVE_UP_SECONDS:.0f} s",
            "Broker",
            refusals=(400, 404, 409, 413, 504),
        ),
    },
}
