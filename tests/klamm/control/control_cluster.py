"""A cluster with its control application in the test's event loop, without hypercorn and on any clock."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import StringIO
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import trio
from starlette.types import ASGIApp, Message

from klamm.cluster.assembly import FATAL_ERRORS, open_cluster
from klamm.cluster.plan import ClusterPlan
from klamm.control.app import make_app
from klamm.control.changes import Changes
from klamm.controller.settings import Settings
from klamm.server.addresses import Address
from klamm.server.event_log import EventLog
from klamm.server.server import Server

LISTEN = Address("127.0.0.1", 0)


@dataclass
class ControlledCluster:
    """The cluster and its control application, for tests."""

    server: Server
    app: ASGIApp
    changes: Changes
    events: StringIO

    async def ask(
        self, method: str, path: str, body: bytes | object = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and JSON of a response; a body that is not bytes is encoded as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, answered, content = await self.respond(method, path, data, headers or {"Host": "localhost"})
        assert answered["content-type"] == "application/json"
        assert content.endswith(b"\n")
        assert content.count(b"\n") == 1
        return status, json.loads(content)

    async def respond(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = MappingProxyType({})
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer."""
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": unquote(urlsplit(path).path),
            "query_string": urlsplit(path).query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        }
        messages: list[Message] = []
        requests: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if not requests:
                await trio.sleep_forever()
            return requests.pop()

        async def send(message: Message) -> None:
            messages.append(message)

        await self.app(scope, receive, send)
        start, *bodies = messages
        answered = {name.decode(): value.decode() for name, value in start["headers"]}
        return start["status"], answered, b"".join(message["body"] for message in bodies)

    async def states(self) -> list[tuple[str, bool]]:
        """State of every broker, and whether it is fenced."""
        return [(broker["state"], broker["fenced"]) for broker in (await self.ask("GET", "/brokers"))[1]]


@asynccontextmanager
async def controlled_cluster(
    brokers: int = 3,
    racks: tuple[str, ...] = (),
    configs: Mapping[str, str] | None = None,
    listen: Address = LISTEN,
    clock: Literal["real", "manual"] = "real",
    start_ms: int | None = None,
    token: str | None = None,
) -> AsyncIterator[ControlledCluster]:
    plan = ClusterPlan(
        keeps_requests=True,
        counts_requests=True,
        clock=clock,
        start_ms=start_ms,
        settings=Settings(static_configs=configs or {}),
        broker_ids=tuple(range(1, brokers + 1)),
        racks=racks,
    )
    written = StringIO()
    events = EventLog("json", written)
    async with open_cluster(plan, events) as server, trio.open_nursery() as nursery:
        changes = Changes(nursery, events, FATAL_ERRORS)
        yield ControlledCluster(server, make_app(server, changes, events, listen, token), changes, written)
        nursery.cancel_scope.cancel()
