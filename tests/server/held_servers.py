"""A server with a disk that the test can hold, and all that leaves the server: answers on connections, calls that
return. Each item is stored with two offsets: up to where the log was durable when it left, and up to where it had to
be, which is the log end offset when the request was decided or the call returned."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from klamm.broker.simulated_broker import BrokerError
from klamm.controller.client import Client
from klamm.controller.core import Answer, Call, Controller
from klamm.controller.log import MetadataLog
from klamm.controller.long_decision import LongDecision
from klamm.protocol.api import Api
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import encode_request
from klamm.protocol.fields import Message
from klamm.server.limits import ServerLimits
from tests.server.harness import Peer, RunningServer, open_test_server, settled
from tests.server.slow_disks import SlowDisk, SlowMemoryLog, SlowSegmentLog

PATIENT = ServerLimits(shutdown_seconds=60.0)
STEP_SECONDS = 0.1
ROUNDS = 40
"""Enough for any path after the disk works again: each takes one sync and some time."""


class FailingController(Controller):
    """Decides two topics at a time, and stores the log end offset at the decision of each request. Raises an error in
    the method that `fails_in` names, after the method has done its work."""

    items_at_once = 2
    fails_in = "nowhere"
    """Set by a test after the start."""

    def __init__(self, *args: Any, **arguments: Any) -> None:
        self.saw: dict[str | None, int] = {}
        """By client id. Answers that wait for records see more of the log later."""
        super().__init__(*args, **arguments)

    def submit(self, call: Call) -> Answer:
        return self._decided("submit", super().submit(call), call.client_id)

    def begin(self, call: Call, *, others_wait: bool = False) -> Answer | LongDecision:
        decided = super().begin(call, others_wait=others_wait)
        return decided if isinstance(decided, LongDecision) else self._decided("submit", decided, call.client_id)

    def commit(self, decision: LongDecision) -> Answer:
        return self._decided("commit", super().commit(decision), decision.call.client_id)

    def try_complete(self, call: Call, answer: Answer) -> Answer:
        return self._decided("try_complete", super().try_complete(call, answer), None)

    def _decided(self, place: str, answer: Answer, client_id: str | None) -> Answer:
        self.saw[client_id] = self.log_end_offset
        if self.fails_in == place:
            raise ZeroDivisionError("planted")
        return answer


@dataclass(frozen=True, slots=True)
class Left:
    """Something that left the server."""

    what: str
    durable_offset: int
    needed_offset: int


def client_id(number: int) -> str:
    """The client id in request `number`."""
    return f"request {number}"


@dataclass
class Held:
    """A running server with a disk that can be held, and what left it."""

    running: RunningServer
    log: MetadataLog
    disk: SlowDisk
    clock: MockClock
    nursery: trio.Nursery
    left: list[Left] = field(default_factory=list)
    expected: int = 0
    _asked: int = 0

    def connect(self, *, controller: bool = False) -> Peer:
        """A client whose answers are stored."""
        client = Client("controller" if controller else "broker", None if controller else 1)
        peer = self.running.connect_in_memory(client)
        self.nursery.start_soon(self._receive, peer)
        return peer

    async def ask(
        self, *asked: tuple[Api[Any, Any], int, Message], on: Peer | None = None, answers: int | None = None
    ) -> Peer:
        """Send requests in one piece, and run the server until nothing can continue without the disk."""
        peer, frames = on or self.connect(), b""
        for api, version, request in asked:
            self._asked += 1
            frames += encode_frame(encode_request(api, version, self._asked, client_id(self._asked), request))
        self.expected += len(asked) if answers is None else answers
        await peer.send(frames)
        await self.rest()
        return peer

    async def call(self, call: Callable[[], Awaitable[object]]) -> None:
        """Call a method of the server, as `klamm` does."""
        self.expected += 1
        self.nursery.start_soon(self._call, call)
        await self.rest()

    async def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_SECONDS)):
            self.clock.jump(STEP_SECONDS)
            await self.rest()

    async def rest(self) -> None:
        """Run the server's tasks and its thread until all of them wait for the disk."""
        threads = trio.to_thread.current_default_thread_limiter()
        await wait_all_tasks_blocked()
        await settled(lambda: self.disk.is_syncing or not threads.borrowed_tokens)
        await wait_all_tasks_blocked()

    async def let_one_sync_through(self) -> None:
        if self.disk.is_syncing:
            before = self.disk.ended
            self.disk.let_one()
            await settled(lambda: self.disk.ended > before)
        await self.pass_time(2 * STEP_SECONDS)

    async def _receive(self, peer: Peer) -> None:
        while (frame := await peer.receive(within_seconds=math.inf)) is not None:
            what = client_id(int.from_bytes(frame[:4], "big"))
            controller = self.running.controller
            assert isinstance(controller, FailingController)
            self.left.append(Left(what, self.log.durable_offset, controller.saw[what]))

    async def _call(self, call: Callable[[], Awaitable[object]]) -> None:
        what = "returned"
        try:
            await call()
        except BrokerError as refusal:
            what = f"refused: {refusal}"
        self.left.append(Left(what, self.log.durable_offset, self.log.end_offset))


@asynccontextmanager
async def held_server(
    clock: MockClock, *, log: SlowMemoryLog | SlowSegmentLog, **arguments: Any
) -> AsyncIterator[Held]:
    """A server with two brokers, whose disk is not held yet."""
    arguments = {"brokers": 2, "controller_class": FailingController, "limits": PATIENT, "has_bugs": True, **arguments}
    async with open_test_server(log=log, **arguments) as running, trio.open_nursery() as nursery:
        try:
            yield Held(running, log, log.disk, clock, nursery)
        finally:
            log.disk.release()
            nursery.cancel_scope.cancel()
