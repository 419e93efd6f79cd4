"""Sends what simulated brokers ask real ones (`klamm.broker.outgoing`): one connection to each, one request at a time.

Kafka's brokers ask each other in the same way: AddPartitionsToTxnManager has one request to a coordinator in flight.
The end point is that of the first PLAINTEXT listener of the real broker's registration. A request without an answer
within `ANSWER_SECONDS`, or one whose connection fails, is answered by None, and the next one gets another connection.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import trio

from klamm.broker.outgoing import OutgoingRequest
from klamm.controller.metadata.broker import EndPoint
from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.codec.frames import FrameBuffer, encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.errors import ProtocolError
from klamm.server.event_log import EventLog

ANSWER_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 3.0
IDLE_SECONDS: Final = 30.0
"""A connection that has had nothing to send for so long is closed."""
MAX_ANSWER_BYTES: Final = 1 << 25
_RECEIVE_BYTES: Final = 65_536
_CLIENT_ID: Final = "klamm-simulated-broker"
_PLAINTEXT: Final = 0


class _NoAnswer(Exception):
    """A request got no answer."""


class OutgoingRequests:
    """Sends requests in tasks of the server, one for each real broker that has something to do."""

    def __init__(self, image: MetadataImage, events: EventLog, start_soon: Callable[..., None]) -> None:
        self._image = image
        self._events = events
        self._start_soon = start_soon
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
        line: _Line | None = None
        try:
            while await self._has_more(waiting):
                request = waiting[0]
                try:
                    line = line or await self._open(broker_id)
                    answer = await line.ask(request)
                except _NoAnswer as reason:
                    self._events.warning_rarely(
                        "a real broker gives no answer", broker_id=broker_id, reason=str(reason)
                    )
                    answer = None
                    if line is not None:
                        await line.aclose()
                        line = None
                waiting.popleft()
                request.answered(answer)
        finally:
            del self._waiting[broker_id]
            if line is not None:
                await line.aclose()

    async def _has_more(self, waiting: deque[OutgoingRequest]) -> bool:
        with trio.move_on_after(IDLE_SECONDS):
            while not waiting:
                await self._arrived.wait()
        return bool(waiting)

    async def _open(self, broker_id: int) -> "_Line":
        at = self._end_point(broker_id)
        try:
            with trio.fail_after(CONNECT_SECONDS):
                return _Line(await trio.open_tcp_stream(at.host, at.port))
        except (OSError, trio.TooSlowError) as error:
            raise _NoAnswer(f"{at.host}:{at.port}: {str(error) or 'no connection'}") from None

    def _end_point(self, broker_id: int) -> EndPoint:
        broker = self._image.brokers.get(broker_id)
        for at in broker.end_points if broker is not None and not broker.fenced else ():
            if at.security_protocol == _PLAINTEXT:
                return at
        raise _NoAnswer("it is not registered, is fenced, or has no PLAINTEXT listener")


class _Line:
    """A connection to a real broker."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._frames = FrameBuffer(MAX_ANSWER_BYTES)
        self._correlation_id = 0

    async def ask(self, request: OutgoingRequest) -> Any:
        """The answer. Raises _NoAnswer; the connection must not be used afterwards."""
        self._correlation_id += 1
        frame = encode_frame(
            encode_request(request.api, request.version, self._correlation_id, _CLIENT_ID, request.body)
        )
        try:
            with trio.fail_after(ANSWER_SECONDS):
                await self._stream.send_all(frame)
                while (found := self._frames.next_frame()) is None:
                    data = await self._stream.receive_some(_RECEIVE_BYTES)
                    if not data:
                        raise _NoAnswer("it closed the connection")
                    self._frames.feed(data)
            correlation_id, answer = decode_response(request.api, request.version, found)
        except (trio.BrokenResourceError, trio.TooSlowError, ProtocolError) as error:
            raise _NoAnswer(f"{request.api.name}: {str(error) or type(error).__name__}") from None
        if correlation_id != self._correlation_id:
            raise _NoAnswer(f"{request.api.name}: the answer has correlation id {correlation_id}")
        return answer

    async def aclose(self) -> None:
        """Close the connection."""
        await trio.aclose_forcefully(self._stream)
