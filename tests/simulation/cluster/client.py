"""A client: one connection, the requests that it sent and the answers that it waits for, in order."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

import trio

from klamm.protocol.api import Api
from klamm.protocol.codec.frames import FrameBuffer, encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Message
from klamm.protocol.messages.data.produce import ProduceRequest
from klamm.server.request_log import RequestLine
from tests.simulation.cluster.answers import judge_answer, what_metadata_has_to_say
from tests.simulation.cluster.asked import Asked
from tests.simulation.cluster.surroundings import connect
from tests.simulation.cluster.violation import Violation, demand
from tests.simulation.cluster.world import CONTROLLER_PORT, FIRST_PORT, World

ANSWER_SECONDS = 40.0
"""Answers that wait for records wait at most five; the rest is for threads that dawdle."""
IDLE_SECONDS = 600.0
"""`connections.max.idle.ms`: after leaps of time who was not heard of for so long may be closed."""
BROKEN_CORRELATION_ID = 1_000_000
"""Of frames that are spoilt: even the name in them may have become another client's."""
ORDER = "each_request_has_one_answer_in_order_or_the_connection_is_closed"


class SimulatedClient:
    """Connected to one broker, or to the controller (None)."""

    def __init__(self, world: World, broker_id: int | None) -> None:
        """Raises Refused."""
        world.clients_ever += 1
        self.name = f"client-{world.clients_ever}"
        self.broker_id = broker_id
        self.waiting: deque[Asked] = deque()
        self.unanswered: dict[int, Asked] = {}
        """By correlation id what was sent and wants no answer, or has none yet."""
        self.closed = self.broken = self.leaving = False
        self.is_private = False
        """It belongs to an application: others send nothing on it."""
        self.on_end: Callable[[str], None] = lambda _name: None
        """Called when the connection may be closed from now on."""
        self._news = trio.Event()
        self.abandoned = world.witness.dead
        self.may_be_closed = broker_id in world.living.changing
        self._world = world
        self._chance = Random(f"{world.seed} {self.name}")
        port = CONTROLLER_PORT if broker_id is None else FIRST_PORT + broker_id - 1
        self._stream = connect(port, self._chance)
        self._outbox, self._to_send = trio.open_memory_channel[bytes | None](1_000)
        self._correlation_id = 0
        self._heard_at = trio.current_time()
        world.clients.append(self)
        world.nursery.start_soon(self._live)

    @property
    def is_of_use(self) -> bool:
        return not (self.closed or self.broken or self.leaving or self.abandoned)

    def ask(self, api: Api[Any, Any], version: int, request: Message) -> Asked:
        """Send a request; its answer is judged when it comes."""
        self._correlation_id += 1
        self._world.requests_ever += 1
        try:
            payload = encode_request(api, version, self._correlation_id, self.name, request)
        except ProtocolError:  # what this version cannot say
            version = api.latest_stable
            payload = encode_request(api, version, self._correlation_id, self.name, request)
        asked = Asked(api, version, request, self._correlation_id, trio.current_time())
        self.unanswered[asked.correlation_id] = asked
        if isinstance(request, ProduceRequest) and request.acks == 0:
            self.may_be_closed = True
        else:
            self.waiting.append(asked)
        self.send(encode_frame(payload))
        return asked

    def send(self, data: bytes) -> None:
        self._outbox.send_nowait(data)

    def leave(self) -> None:
        """Say that nothing more will come; what was asked is still to be answered."""
        self.leaving = True
        self.on_end(self.name)
        self._outbox.send_nowait(None)

    def hang_up(self) -> None:
        """Be gone, whatever is on its way."""
        self.abandon()
        self._world.nursery.start_soon(trio.aclose_forcefully, self._stream)

    def abandon(self) -> None:
        """Whatever comes from now on is not seen."""
        self.abandoned = True
        self.on_end(self.name)
        self._tell()

    def expect_the_end(self) -> None:
        """The broker may close the connection from now on."""
        self.may_be_closed = True
        self.on_end(self.name)

    async def wait_for(self, asked: Asked, seconds: float) -> None:
        """Return when there is a response, when there cannot be one any more, or when the time is over."""
        with trio.move_on_after(seconds):
            while asked.response is None and not (self.closed or self.abandoned):
                await self._news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()

    def is_decided(self, line: RequestLine) -> None:
        """What the request log says of one of ours."""
        if line.correlation_id == BROKEN_CORRELATION_ID:
            return
        asked = self.unanswered.get(line.correlation_id)
        if asked is None or asked.api.key != line.api_key:
            demand(ORDER, self.broken, f"{self.name}: nobody asked for {line.api} {line.correlation_id}")
            return
        demand(ORDER, asked.saw is None or self.broken, f"{self.name}: {line.api} was decided twice")
        asked.saw = self._world.living.log.end_offset
        asked.expected = what_metadata_has_to_say(self._world.living.image, asked.version, asked.request)
        asked.decided_at = self._heard_at = trio.current_time()
        asked.unclean_elections = self._world.witness.unclean_elections

    async def _live(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_all)
                await self._receive_all()
                nursery.cancel_scope.cancel()
        finally:
            self.closed = True
            self.on_end(self.name)
            self._tell()
            self._world.clients.remove(self)
            if not self._world.clients:
                self._world.nobody_is_connected.set()
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._stream)

    async def _send_all(self) -> None:
        try:
            async for data in self._to_send:
                if data is None:
                    await self._stream.send_eof()
                    return
                rest = data
                while rest:
                    size = self._chance.choice((1, 2, 5, 60, 1_000, len(data)))
                    await self._stream.send_all(rest[:size])
                    rest = rest[size:]
                    if self._chance.random() < 0.05:
                        await trio.sleep(self._chance.choice((0.0, 0.001, 0.2)))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def _receive_all(self) -> None:
        frames = FrameBuffer(1 << 30)
        try:
            while chunk := await self._stream.receive_some(self._chance.choice((1, 10, 100, 10_000))):
                frames.feed(bytes(chunk))
                while (frame := frames.next_frame()) is not None:
                    self._judge(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except (Violation, ProtocolError) as error:
            found = error if isinstance(error, Violation) else Violation(ORDER, f"{self.name}: {error}")
            self._world.violations.append(found)
        self._is_closed(frames.buffered_bytes)

    def _judge(self, frame: bytes) -> None:
        if self.abandoned or (self.broken and not self.waiting):
            return
        demand(ORDER, self.waiting, f"{self.name}: an answer that nobody waits for")
        asked = self.waiting.popleft()
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        expected = asked.correlation_id
        demand(ORDER, correlation_id == expected, f"{self.name}: answer {correlation_id}, not {expected}")
        del self.unanswered[asked.correlation_id]
        _, asked.response = decode_response(asked.api, asked.version, frame)
        demand(ORDER, asked.saw is not None, f"{self.name}: {asked.api.name} was answered before it was decided")
        judge_answer(self._world, asked)
        self._tell()

    def _is_closed(self, half_an_answer: int) -> None:
        world = self._world
        if self.abandoned or self.broken or self.may_be_closed:
            return
        if world.living.stopping:
            decided = [asked for asked in self.waiting if asked.saw is not None]
            if decided:
                reason = f"{self.name}: {decided}"
                world.violations.append(Violation("a_stop_lets_answers_on_their_way_leave", reason))
            return
        left = self.leaving and not self.waiting
        reason = f"{self.name} to {self.broker_id}: closed, {len(self.waiting)} answers missing"
        idle = trio.current_time() - self._heard_at > IDLE_SECONDS
        if not half_an_answer and (left or (idle and all(asked.saw is None for asked in self.waiting))):
            return
        world.violations.append(Violation("a_good_client_is_never_closed", reason))

    def look_at_the_time(self) -> None:
        """Raises Violation if an answer is overdue."""
        if self.is_of_use or self.leaving:
            for asked in self.waiting:
                late = trio.current_time() - asked.sent_at > ANSWER_SECONDS
                demand(ORDER, not late or self.closed or self.abandoned or self.broken, f"{self.name}: {asked}")
