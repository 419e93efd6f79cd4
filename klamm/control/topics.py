"""The routes that create and delete a topic and return its records, and their part of the OpenAPI description."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from klamm.cluster.options import checked_configs, checked_number
from klamm.cluster.topics import NoSuchTopic, TopicError, create_topic, delete_topic, read_page
from klamm.console.shown import shown
from klamm.control.answers import answer
from klamm.control.bodies import read_members
from klamm.control.changes import Changes
from klamm.control.openapi import RouteGroup, answered, asked, operation
from klamm.control.recorded import ISOLATION_LEVELS
from klamm.control.refusals import Refused
from klamm.server.server import Server

MAX_INT32 = 2**31 - 1
MAX_OFFSET = 2**63 - 1


def topic_routes(server: Server, changes: Changes) -> RouteGroup:
    """`/topics`, `/topics/{topic}` and `/topics/{topic}/records`."""

    async def create(request: Request) -> Response:
        given = await read_members(request, _NEW_TOPIC)
        if "name" not in given:
            raise Refused(400, "the member 'name' is missing")

        async def work() -> dict[str, Any]:
            configs = checked_configs(given.get("configs") or {})
            counts = given.get("num_partitions"), given.get("replication_factor")
            try:
                await create_topic(server, given["name"], *counts, configs)
            except TopicError as error:
                raise Refused(409, str(error)) from None
            return {"name": given["name"]}

        return answer(await changes.finish(work), 201)

    async def delete(request: Request) -> Response:
        name = str(request.path_params["topic"])
        await read_members(request, {})

        async def work() -> dict[str, Any]:
            try:
                await delete_topic(server, name)
            except TopicError as error:
                raise Refused(404 if isinstance(error, NoSuchTopic) else 409, str(error)) from None
            return {"deleted": name}

        return answer(await changes.finish(work))

    async def read(request: Request) -> Response:
        given = await read_members(request, _WHICH_RECORDS)
        try:
            page = read_page(
                server,
                request.path_params["topic"],
                given.get("partition"),
                isolation_level=given.get("isolation_level", ISOLATION_LEVELS[0]),
                from_partition=given.get("from_partition", 0),
                from_offset=given.get("from_offset", 0),
            )
        except TopicError as error:
            raise Refused(404 if isinstance(error, NoSuchTopic) else 409, str(error)) from None
        return answer({
            "records": [record.as_json() for record in page.records],
            "next_partition": page.next_partition,
            "next_offset": page.next_offset,
        })  # fmt: skip

    views = {
        "/topics": {"POST": create},
        "/topics/{topic}": {"DELETE": delete},
        "/topics/{topic}/records": {"POST": read},
    }
    return RouteGroup(views, PATHS, SCHEMAS)


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise ValueError(f"name {shown(name)}: a string is expected")


def _check_count(count: object) -> None:
    if count is not None:
        checked_number("count", count, 1, MAX_INT32)


def _check_configs(configs: object) -> None:
    if configs is not None:
        checked_configs(configs)


def _check_partition(partition: object) -> None:
    if partition is not None:
        checked_number("partition", partition, 0, MAX_INT32)


def _check_level(level: object) -> None:
    if level not in ISOLATION_LEVELS:
        raise ValueError(f"isolation_level {shown(level)}: {' or '.join(map(repr, ISOLATION_LEVELS))} is expected")


_NEW_TOPIC = {
    "name": _check_name,
    "num_partitions": _check_count,
    "replication_factor": _check_count,
    "configs": _check_configs,
}
_WHICH_RECORDS = {
    "partition": _check_partition,
    "isolation_level": _check_level,
    "from_partition": lambda number: checked_number("from_partition", number, 0, MAX_INT32),
    "from_offset": lambda number: checked_number("from_offset", number, 0, MAX_OFFSET),
}
_COUNT = {"type": ["integer", "null"], "minimum": 1, "description": "null or missing: the broker's default"}
_BYTES = {"type": ["string", "null"], "contentEncoding": "base64"}
TOPIC = {"name": "topic", "in": "path", "required": True, "schema": {"type": "string"}}
SCHEMAS = {
    "NewTopic": {
        **asked({
            "name": {"type": "string"},
            "num_partitions": _COUNT,
            "replication_factor": _COUNT,
            "configs": {"type": ["object", "null"], "description": "values are strings, numbers or booleans"},
        }),
        "required": ["name"],
    },
    "CreatedTopic": answered({"name": {"type": "string"}}),
    "DeletedTopic": answered({"deleted": {"type": "string", "description": "its name"}}),
    "WhichRecords": asked({
        "partition": {"type": ["integer", "null"], "description": "null or missing: all partitions"},
        "isolation_level": {"type": "string", "enum": list(ISOLATION_LEVELS)},
        "from_partition": {"type": "integer", "description": "next_partition of the page before"},
        "from_offset": {"type": "integer", "description": "next_offset of the page before"},
    }),
    "Records": answered({
        "records": {
            "type": "array",
            "items": answered({
                "partition": {"type": "integer"},
                "offset": {"type": "integer"},
                "timestamp_ms": {"type": "integer", "description": "ms since 1970"},
                "key": _BYTES,
                "value": _BYTES,
                "headers": {"type": "array", "description": "pairs of a name and a value in base64, or null"},
            }),
        },
        "next_partition": {"type": ["integer", "null"], "description": "null: there are no more records"},
        "next_offset": {"type": "integer"},
    }),
}  # fmt: skip
PATHS = {
    "/topics": {
        "post": operation(
            "createTopic",
            "Create a topic; the answer comes when the metadata has it",
            "CreatedTopic",
            status=201,
            takes="NewTopic",
            refusals=(400, 409, 413),
        ),
    },
    "/topics/{topic}": {
        "parameters": [TOPIC],
        "delete": operation(
            "deleteTopic",
            "Delete a topic and its records; the answer comes when the metadata no longer has it",
            "DeletedTopic",
            refusals=(404, 409),
        ),
    },
    "/topics/{topic}/records": {
        "parameters": [TOPIC],
        "post": operation(
            "readRecords",
            "The records of a topic, uncompressed, in pages of about 1 MiB or 5,000 records",
            "Records",
            takes="WhichRecords",
            refusals=(400, 404, 409, 413),
        ),
    },
}
