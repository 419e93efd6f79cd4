"""A page as a test has it: the snapshot, decoded, and the events behind it."""

import json
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import trio
from starlette.types import Message

from klamm.control.page.cells import CELL
from tests.klamm.control.control_cluster import ControlledCluster

HOST = {"Host": "localhost"}
Cell = tuple[int, ...]


def cells_of(data: bytes) -> dict[tuple[int, int], Cell]:
    """Leader, state, ISR, replicas and placeholders by topic row and partition."""
    return {(int(row), int(index)): tuple(map(int, rest)) for row, index, *rest in np.frombuffer(data, CELL).tolist()}


@dataclass
class Page:
    """What an open page knows."""

    head: dict[str, Any]
    cells: dict[tuple[int, int], Cell]
    events: list[tuple[str, Any]] = field(default_factory=list)
    number: int = -1
    brokers: dict[int, dict[str, Any]] = field(default_factory=dict)
    is_over: bool = False
    unparsed: str = ""

    def take(self, body: str) -> None:
        *whole, self.unparsed = (self.unparsed + body).split("\n\n")
        for text in whole:
            lines = dict(line.split(": ", 1) for line in text.split("\n") if ": " in line)
            if not lines:
                self.events.append(("quiet", None))
                continue
            self.number = int(lines.get("id", self.number))
            name, data = lines["event"], lines["data"]
            if name == "cells":
                found = cells_of(b64decode(data))
                self.cells |= found
                self.events.append((name, found))
            else:
                self.events.append((name, json.loads(data)))
            if name == "brokers":
                changed, removed = self.events[-1][1]["changed"], self.events[-1][1]["removed"]
                self.brokers |= {one["id"]: one for one in changed}
                for broker_id in removed:
                    del self.brokers[broker_id]

    def last(self, name: str) -> Any:
        """The newest state of a panel."""
        return next((data for found, data in reversed(self.events) if found == name), self.head.get(name))

    async def until(self, condition: Callable[[], object]) -> None:
        """Return when the events have made it so."""
        with trio.fail_after(20):
            while not condition():  # noqa: ASYNC110 - on the mock clock
                await trio.sleep(0.01)


async def take_snapshot(cluster: ControlledCluster) -> Page:
    status, headers, content = await cluster.respond("GET", "/page/snapshot", headers=HOST)
    assert (status, headers["content-type"]) == (200, "application/octet-stream")
    assert int(headers["content-length"]) == len(content)
    length = int.from_bytes(content[:4], "little")
    assert length % 4 == 0
    head = json.loads(content[4 : 4 + length])
    brokers = {one["id"]: one for one in head["brokers"]}
    return Page(head, cells_of(content[4 + length :]), number=head["seq"], brokers=brokers)


@asynccontextmanager
async def listening(
    cluster: ControlledCluster, page: Page, *, reads: bool = True, number: object = None
) -> AsyncIterator[dict[str, Any]]:
    """The events go into the page. Without `reads` the connection takes nothing."""
    started: dict[str, Any] = {}
    gone = trio.Event()
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": "/page/events",
        "query_string": b"",
        "headers": [
            (b"host", b"localhost"),
            (b"last-event-id", str(page.number if number is None else number).encode()),
        ],
    }
    asked = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if asked:
            return asked.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            started.update(message)
        elif not reads:
            await trio.sleep_forever()
        elif message["body"]:
            page.take(message["body"].decode())

    async def serve() -> None:
        await cluster.app(scope, receive, send)
        page.is_over = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        try:
            yield started
        finally:
            gone.set()
            with trio.move_on_after(5):
                while not page.is_over:  # noqa: ASYNC110 - on the mock clock
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
