"""Sends what simulated brokers ask real ones (`klamm.broker.outgoing`): one connection to each, one request at a time.

Kafka's brokers ask each other in the same way: AddPartitionsToTxnManager has one request to a coordinator in flight.
The end point is that of the inter-broker listener in the real broker's registration. A request without an answer
within `ANSWER_SECONDS`, or one whose connection fails, is answered by None, and the next one gets another connection.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import trio

from klamm.broker.outgoing import OutgoingRequest
from klamm.controller.metadata.broker import EndPoint
from klamm.controller.metadata.image import MetadataImage
from klamm.quick_dataclasses import dataclass
from klamm.server.addresses import Address
from klamm.server.event_log import EventLog

ANSWER_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 3.0
IDLE_SECONDS: Final = 30.0
"""A connection that has had nothing to send for so long is closed."""
MAX_ANSWER_BYTES: Final = 1 << 25
"""The state of 100 share partitions with 10,000 batches each is below it."""
CLIENT_ID: Final = "klamm-simulated-broker"
_PLAINTEXT: Final = 0


class NoAnswer(Exception):
    """A request got no answer. The text is one clause."""


class RealBrokerLine(Protocol):
    """An open connection to a real broker."""

    @property
    def usable(self) -> bool:
        """Whether a further request may be sent."""

    async def ask(self, request: OutgoingRequest) -> Any:
        """The answer. Raises NoAnswer; the connection must not be used afterwards."""

    async def aclose(self) -> None:
        """Close the connection."""


@dataclass(frozen=True, slots=True)
class InterBroker:
    """How simulated brokers reach real ones."""

    listener_name: str | None
    """The listener of the real brokers; None: the first PLAINTEXT one of each."""
    connect: Callable[[Address], Awaitable[RealBrokerLine]]
    """Opens a connection, with TLS and a login if the listener needs them. Raises NoAnswer."""


class OutgoingRequests:
    """Sends requests in tasks of the server, one for each real broker that has something to do."""

    def __init__(
        self,
        between: InterBroker,
        image: MetadataImage,
        events: EventLog,
        start_soon: Callable[..., None],
        afterwards: Callable[[], None] = lambda: None,
    ) -> None:
        """`afterwards` is called after each answer, which may have given brokers something to do."""
        self._between = between
        self._image = image
        self._events = events
        self._start_soon = start_soon
        self._afterwards = afterwards
        self._waiting: dict[int, deque[OutgoingRequest]] = {}
        """The requests to each broker that has a task."""
        self._arrived = trio.Event()

    def send(self, request: OutgoingRequest) -> None:
        """Send a request behind those to the same broker."""
        if request.broker_id in self._waiting:
            self._waiting[request.broker_id].append(request)
            arrived, self._arrived = self._arrived, trio.Event()
            arrived.set()
            return
        self._waiting[request.broker_id] = deque([request])
        self._start_soon(self._serve, request.broker_id)

    async def _serve(self, broker_id: int) -> None:
        """Send what there is to one broker, and end when there was nothing for a while."""
        waiting = self._waiting[broker_id]
        line: RealBrokerLine | None = None
        try:
            while await self._has_more(waiting):
                if line is not None and not line.usable:
                    await line.aclose()
                    line = None
                try:
                    line = line or await self._open(broker_id)
                    answer = await _ask(line, waiting[0])
                except NoAnswer as reason:
                    self._events.warning_rarely(
                        "a real broker gives no answer", broker_id=broker_id, reason=str(reason)
                    )
                    answer = None
                    if line is not None:
                        await line.aclose()
                        line = None
                waiting.popleft().answered(answer)
                self._afterwards()
        finally:
            del self._waiting[broker_id]
            if line is not None:
                await line.aclose()

    async def _has_more(self, waiting: deque[OutgoingRequest]) -> bool:
        with trio.move_on_after(IDLE_SECONDS):
            while not waiting:
                await self._arrived.wait()
        return bool(waiting)

    async def _open(self, broker_id: int) -> RealBrokerLine:
        at = self._end_point(broker_id)
        try:
            with trio.fail_after(CONNECT_SECONDS):
                return await self._between.connect(Address(at.host, at.port))
        except trio.TooSlowError:
            raise NoAnswer(f"{at.host}:{at.port}: no connection within {CONNECT_SECONDS:.0f} s") from None

    def _end_point(self, broker_id: int) -> EndPoint:
        broker, name = self._image.brokers.get(broker_id), self._between.listener_name
        if broker is None or broker.fenced:
            raise NoAnswer("it is not registered, or is fenced")
        for at in broker.end_points:
            if at.name == name or (name is None and at.security_protocol == _PLAINTEXT):
                return at
        if name is None:
            raise NoAnswer("it has no PLAINTEXT listener, and no config inter.broker.listener.name names another one")
        raise NoAnswer(f"it has no listener {name}, which is the inter-broker listener")


async def _ask(line: RealBrokerLine, request: OutgoingRequest) -> Any:
    try:
        with trio.fail_after(ANSWER_SECONDS):
            return await line.ask(request)
    except trio.TooSlowError:
        raise NoAnswer(f"{request.api.name}: no answer within {ANSWER_SECONDS:.0f} s") from None
