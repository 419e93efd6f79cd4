"""The routes that wait until the cluster is in some state, and their part of the OpenAPI description."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from klamm.cluster.options import checked_number
from klamm.cluster.steered import wait_for_group, wait_for_isr, wait_for_reassignments, wait_for_topic
from klamm.console.shown import shown
from klamm.control.answers import answer
from klamm.control.bodies import read_members
from klamm.control.faults import DEFAULT_WAIT_MS, TIMEOUT, check_timeout
from klamm.control.group_states import check_group_state
from klamm.control.openapi import RouteGroup, View, answered, asked, operation, reference
from klamm.control.refusals import Checks, Refused
from klamm.control.topics import TOPIC
from klamm.server.server import Server
from klamm.server.steering import NotThere

MAX_INT32 = 2**31 - 1


def wait_routes(server: Server) -> RouteGroup:
    """Waits for topics, ISRs, groups and reassignments."""

    async def topic(request: Request) -> Response:
        return await _waited(request, {"num_partitions": _check_count}, lambda given, seconds: wait_for_topic(
            server, str(request.path_params["topic"]), given.get("num_partitions", 1), seconds))  # fmt: skip

    async def isr(request: Request) -> Response:
        return await _waited(request, {"partition": _check_partition}, lambda given, seconds: wait_for_isr(
            server, str(request.path_params["topic"]), given.get("partition"), seconds))  # fmt: skip

    async def group(request: Request) -> Response:
        checks = {"members": _check_members, "state": check_group_state}
        return await _waited(request, checks, lambda given, seconds: wait_for_group(server,
            str(request.path_params["group"]), given.get("members", 1), given.get("state", "Stable"), seconds)
        )  # fmt: skip

    async def reassignments(request: Request) -> Response:
        return await _waited(request, {"topic": _check_text}, lambda given, seconds: wait_for_reassignments(
            server, given.get("topic"), seconds))  # fmt: skip

    views: dict[str, dict[str, View]] = {
        "/topics/{topic}/wait": {"POST": topic},
        "/topics/{topic}/isr/wait": {"POST": isr},
        "/groups/{group}/wait": {"POST": group},
        "/reassignments/wait": {"POST": reassignments},
    }
    return RouteGroup(views, PATHS, SCHEMAS)


async def _waited(
    request: Request, checks: Checks, wait: Callable[[dict[str, Any], float], Awaitable[dict[str, Any]]]
) -> Response:
    given = await read_members(request, {**checks, "timeout_ms": check_timeout})
    try:
        return answer(await wait(given, given.get("timeout_ms", DEFAULT_WAIT_MS) / 1000))
    except NotThere as error:
        raise Refused(404, str(error)) from None
    except TimeoutError as error:
        raise Refused(504, str(error)) from None


def _check_count(count: object) -> None:
    checked_number("num_partitions", count, 1, MAX_INT32)


def _check_partition(partition: object) -> None:
    if partition is not None:
        checked_number("partition", partition, 0, MAX_INT32)


def _check_members(members: object) -> None:
    checked_number("members", members, 0, MAX_INT32)


def _check_text(text: object) -> None:
    if text is not None and not isinstance(text, str):
        raise ValueError(f"{shown(text)}: a string is expected")


_GROUP = {"name": "group", "in": "path", "required": True, "schema": {"type": "string"}}
_NUMBER = {"type": "integer"}
SCHEMAS = {
    "WaitForTopic": asked({"num_partitions": _NUMBER, "timeout_ms": TIMEOUT}),
    "WaitForIsr": asked({"partition": {"type": ["integer", "null"]}, "timeout_ms": TIMEOUT}),
    "WaitForGroup": asked({"members": _NUMBER, "state": {"type": "string"}, "timeout_ms": TIMEOUT}),
    "WaitForReassignments": asked({"topic": {"type": ["string", "null"]}, "timeout_ms": TIMEOUT}),
    "ExistingTopic": answered({"topic": {"type": "string"}, "num_partitions": _NUMBER}),
    "Partitions": answered({"partitions": {"type": "array", "items": reference("Partition")}}),
    "Group": answered({"group": {"type": "string"}, "state": {"type": "string"}, "members": _NUMBER}),
    "Reassignments": answered({"reassigning": {"type": "integer", "description": "partitions in reassignment: 0"}}),
}


def _wait(operation_id: str, summary: str, gives: str, takes: str) -> dict[str, Any]:
    return operation(operation_id, summary, gives, takes=takes, refusals=(400, 404, 413, 504))


PATHS = {
    "/topics/{topic}/wait": {
        "parameters": [TOPIC],
        "post": _wait("waitForTopic", "Wait until a topic exists, with so many partitions", "ExistingTopic",
            "WaitForTopic"),
    },
    "/topics/{topic}/isr/wait": {
        "parameters": [TOPIC],
        "post": _wait("waitForIsr", "Wait until all replicas are in sync", "Partitions", "WaitForIsr"),
    },
    "/groups/{group}/wait": {
        "parameters": [_GROUP],
        "post": _wait("waitForGroup", "Wait until a group is stable with so many members", "Group", "WaitForGroup"),
    },
    "/reassignments/wait": {
        "post": _wait("waitForReassignments", "Wait until no reassignment is in progress", "Reassignments",
            "WaitForReassignments"),
    },
}  # fmt: skip
