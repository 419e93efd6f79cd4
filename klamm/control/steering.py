"""The routes that steer a cluster by hand, and their part of the OpenAPI description."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from klamm.cluster.options import MAX_BROKER_ID, checked_number
from klamm.cluster.steered import (
    COORDINATED,
    coordinated_topics,
    described_log_dirs,
    described_partition,
    partition_limit,
    set_disk,
)
from klamm.console.shown import shown
from klamm.control.answers import answer
from klamm.control.bodies import read_members
from klamm.control.brokers import BROKER_ID, describe_broker, known_broker
from klamm.control.changes import Changes
from klamm.control.openapi import RouteGroup, View, answered, asked, operation
from klamm.control.refusals import Refused
from klamm.control.topics import TOPIC
from klamm.server.server import Server
from klamm.server.steering import MAX_RATE, NotThere, SteeringRefused

MAX_INDEX_DIGITS = 9


def steering_routes(server: Server, changes: Changes) -> RouteGroup:
    """Leaders, ISRs, replication, sessions, disks and transactions."""
    views = _SteeringViews(server, changes)
    by_path: dict[str, dict[str, View]] = {
        "/topics/{topic}/partitions/{partition}": {"GET": views.show_partition},
        "/topics/{topic}/partitions/{partition}/leader": {"POST": views.move_leader},
        "/topics/{topic}/partitions/{partition}/isr": {"POST": views.change_isr},
        "/brokers/{broker_id}/replication": {"POST": views.set_rate},
        "/brokers/{broker_id}/expire-session": {"POST": views.expire_session},
        "/brokers/{broker_id}/fence": {"POST": views.fence},
        "/brokers/{broker_id}/unfence": {"POST": views.unfence},
        "/brokers/{broker_id}/disk": {"POST": views.set_disk},
        "/brokers/{broker_id}/log-dirs": {"GET": views.list_log_dirs, "POST": views.set_log_dir},
        "/transactions/{transactional_id:path}/time-out": {"POST": views.time_out},
        "/coordinators/rehash": {"POST": views.rehash},
        "/logs/clean": {"POST": views.clean_logs},
        "/partition-limit": {"GET": views.show_limit},
    }
    return RouteGroup(by_path, PATHS, SCHEMAS)


class _SteeringViews:
    """What each route does."""

    def __init__(self, server: Server, changes: Changes) -> None:
        self._server = server
        self._changes = changes

    async def show_partition(self, request: Request) -> Response:
        topic, partition = _partition(request)
        try:
            return answer(described_partition(self._server, topic, partition))
        except NotThere as error:
            raise Refused(404, str(error)) from None

    async def move_leader(self, request: Request) -> Response:
        topic, partition = _partition(request)
        given = await _required(request, "broker", _check_broker)
        return await self._steer(
            lambda: self._server.steering.move_leader(topic, partition, given),
            lambda: described_partition(self._server, topic, partition),
        )

    async def change_isr(self, request: Request) -> Response:
        topic, partition = _partition(request)
        given = await read_members(request, {"add": _check_broker, "remove": _check_broker})
        if len(given) != 1:
            raise Refused(400, "one of the members 'add' and 'remove' is expected")
        steering = self._server.steering
        change = steering.grow_isr if "add" in given else steering.shrink_isr
        (broker_id,) = given.values()
        return await self._steer(
            lambda: change(topic, partition, broker_id), lambda: described_partition(self._server, topic, partition)
        )

    async def set_rate(self, request: Request) -> Response:
        broker_id = known_broker(self._server, request)
        rate = await _required(request, "rate", _check_rate)

        async def change() -> None:
            await self._server.steering.set_replication_rate(broker_id, rate)

        return await self._steer(change, lambda: {"id": broker_id, "rate": rate})

    async def expire_session(self, request: Request) -> Response:
        return await self._steer_broker(request, self._server.steering.expire_session)

    async def fence(self, request: Request) -> Response:
        return await self._steer_broker(request, self._server.steering.fence)

    async def unfence(self, request: Request) -> Response:
        return await self._steer_broker(request, self._server.steering.unfence)

    async def set_disk(self, request: Request) -> Response:
        broker_id = known_broker(self._server, request)
        is_away = await _required(request, "away", _check_flag("away"))
        return await self._steer(
            lambda: set_disk(self._server, broker_id, is_away=is_away), lambda: {"id": broker_id, "away": is_away}
        )

    async def list_log_dirs(self, request: Request) -> Response:
        return answer(self._log_dirs(known_broker(self._server, request)))

    async def set_log_dir(self, request: Request) -> Response:
        broker_id = known_broker(self._server, request)
        given = await read_members(request, {"log_dir": _check_text, "failed": _check_flag("failed")})
        if len(given) != 2:
            raise Refused(400, "the members 'log_dir' and 'failed' are expected")
        steering = self._server.steering
        change = steering.fail_log_dir if given["failed"] else steering.repair_log_dir

        return await self._steer(lambda: change(broker_id, given["log_dir"]), lambda: self._log_dirs(broker_id))

    def _log_dirs(self, broker_id: int) -> dict[str, Any]:
        return {"id": broker_id, "log_dirs": described_log_dirs(self._server, broker_id)}

    async def rehash(self, request: Request) -> Response:
        given = await read_members(request, {"of": coordinated_topics})
        topic_names, moved = coordinated_topics(given.get("of")), [0]

        async def change() -> None:
            moved[0] = await self._server.steering.rehash_coordinators(topic_names)

        return await self._steer(change, lambda: {"moved": moved[0]})

    async def clean_logs(self, request: Request) -> Response:
        await read_members(request, {})
        return await self._steer(self._server.steering.clean_logs, lambda: {"cleaned": True})

    async def show_limit(self, _: Request) -> Response:
        try:
            return answer({"limit": partition_limit(self._server)})
        except SteeringRefused as error:
            raise Refused(409, str(error)) from None

    async def time_out(self, request: Request) -> Response:
        transactional_id = str(request.path_params["transactional_id"])
        await read_members(request, {})
        return await self._steer(
            lambda: self._server.steering.time_out_transaction(transactional_id),
            lambda: {"transactional_id": transactional_id},
        )

    async def _steer_broker(self, request: Request, change: Callable[[int], Awaitable[None]]) -> Response:
        broker_id = known_broker(self._server, request)
        await read_members(request, {})
        return await self._steer(lambda: change(broker_id), lambda: describe_broker(self._server, broker_id))

    async def _steer(self, change: Callable[[], Awaitable[None]], described: Callable[[], dict[str, Any]]) -> Response:
        async def work() -> dict[str, Any]:
            try:
                await change()
                return described()
            except NotThere as error:
                raise Refused(404, str(error)) from None
            except SteeringRefused as error:
                raise Refused(409, str(error)) from None

        return answer(await self._changes.finish(work))


def _partition(request: Request) -> tuple[str, int]:
    text = str(request.path_params["partition"])
    if not text.isascii() or not text.isdigit() or len(text) > MAX_INDEX_DIGITS:
        raise Refused(404, f"{shown(text)} is no partition")
    return str(request.path_params["topic"]), int(text)


async def _required(request: Request, name: str, check: Callable[[Any], object]) -> Any:
    given = await read_members(request, {name: check})
    if name not in given:
        raise Refused(400, f"the member {name!r} is missing")
    return given[name]


def _check_broker(broker_id: object) -> None:
    checked_number("broker", broker_id, 0, MAX_BROKER_ID)


def _check_rate(rate: object) -> None:
    if rate is not None:
        checked_number("rate", rate, 0, MAX_RATE)


def _check_flag(name: str) -> Callable[[object], None]:
    def check(flag: object) -> None:
        if not isinstance(flag, bool):
            raise ValueError(f"{name} {shown(flag)}: true or false is expected")

    return check


def _check_text(path: object) -> None:
    if not isinstance(path, str):
        raise ValueError(f"log_dir {shown(path)}: a path is expected")


_PARTITION = [TOPIC, {"name": "partition", "in": "path", "required": True, "schema": {"type": "integer"}}]
_TRANSACTION = {"name": "transactional_id", "in": "path", "required": True, "schema": {"type": "string"}}
_ID = {"type": "integer", "description": "a broker's id"}
SCHEMAS = {
    "Partition": answered({
        "topic": {"type": "string"},
        "partition": {"type": "integer"},
        "leader": {"type": "integer", "description": "-1: none"},
        "leader_epoch": {"type": "integer"},
        "replicas": {"type": "array", "items": {"type": "integer"}},
        "isr": {"type": "array", "items": {"type": "integer"}},
    }),
    "NewLeader": {**asked({"broker": _ID}), "required": ["broker"]},
    "IsrChange": asked({"add": _ID, "remove": _ID}),
    "ReplicationRate": asked({"rate": {"type": ["integer", "null"], "description": "null: as the other brokers"}}),
    "ReplicationOfBroker": answered({"id": _ID, "rate": {"type": ["integer", "null"]}}),
    "Disk": asked({"away": {"type": "boolean"}}),
    "DiskOfBroker": answered({"id": _ID, "away": {"type": "boolean"}}),
    "LogDirs": answered({"id": _ID, "log_dirs": {"type": "array", "items": answered({
        "log_dir": {"type": "string"},
        "directory_id": {"type": "string"},
        "online": {"type": "boolean"},
        "failed": {"type": "boolean", "description": "it is used again after a repair and a restart of the broker"},
    })}}),
    "LogDirChange": {**asked({"log_dir": {"type": "string"}, "failed": {"type": "boolean"}}),
        "required": ["log_dir", "failed"]},
    "Kind": asked({"of": {"type": "string", "enum": list(COORDINATED)}}),
    "Moved": answered({"moved": {"type": "integer", "description": "partitions of internal topics"}}),
    "PartitionLimit": answered({"limit": {"type": "integer", "description": "replicas of a broker, or partitions"}}),
    "Cleaned": answered({"cleaned": {"type": "boolean"}}),
    "TimedOut": answered({"transactional_id": {"type": "string"}}),
}  # fmt: skip
_REFUSALS = (400, 404, 409, 413)


def _on_partition(operation_id: str, summary: str, takes: str) -> dict[str, Any]:
    return {"parameters": _PARTITION, "post": operation(operation_id, summary, "Partition", takes=takes,
        refusals=_REFUSALS)}  # fmt: skip


def _on_broker(operation_id: str, summary: str, gives: str = "Broker", takes: str | None = None) -> dict[str, Any]:
    return {"parameters": [BROKER_ID], "post": operation(operation_id, summary, gives, takes=takes,
        refusals=_REFUSALS)}  # fmt: skip


PATHS = {
    "/topics/{topic}/partitions/{partition}": {
        "parameters": _PARTITION,
        "get": operation("showPartition", "A partition as it is now", "Partition", refusals=(404,)),
    },
    "/topics/{topic}/partitions/{partition}/leader": _on_partition(
        "moveLeader", "Make a member of the ISR the leader", "NewLeader"
    ),
    "/topics/{topic}/partitions/{partition}/isr": _on_partition(
        "changeIsr", "Add a replica to the ISR, or keep one out of it", "IsrChange"
    ),
    "/brokers/{broker_id}/replication": _on_broker(
        "setReplicationRate", "Messages per second that a broker's followers fetch", "ReplicationOfBroker",
        "ReplicationRate",
    ),
    "/brokers/{broker_id}/expire-session": _on_broker("expireSession", "Fence a broker as if its session were over"),
    "/brokers/{broker_id}/fence": _on_broker("fenceBroker", "Fence a broker, which sends no heartbeats until unfence"),
    "/brokers/{broker_id}/unfence": _on_broker("unfenceBroker", "Let a broker send heartbeats again"),
    "/brokers/{broker_id}/disk": _on_broker("setDisk", "Take a broker's disk away, or bring it back", "DiskOfBroker",
        "Disk"),
    "/brokers/{broker_id}/log-dirs": {
        "get": operation("listLogDirs", "The log directories of a broker", "LogDirs", refusals=(404,)),
        **_on_broker("setLogDir", "Let a log directory fail, or repair it", "LogDirs", "LogDirChange"),
    },
    "/coordinators/rehash": {
        "post": operation("rehashCoordinators", "Move coordinators to other brokers", "Moved", takes="Kind",
            refusals=_REFUSALS),
    },
    "/logs/clean": {
        "post": operation("cleanLogs", "Apply retention and compaction now", "Cleaned", refusals=(400, 413)),
    },
    "/partition-limit": {
        "get": operation("showPartitionLimit", "The smallest limit of KIP-578", "PartitionLimit", refusals=(409,)),
    },
    "/transactions/{transactional_id}/time-out": {
        "parameters": [_TRANSACTION],
        "post": operation("timeOutTransaction", "Abort an open transaction as if its timeout were over", "TimedOut",
            refusals=_REFUSALS),
    },
}  # fmt: skip
