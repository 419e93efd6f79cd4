"""The way of one request: decode, submit, encode at once, note in the request log. Synchronous, hence atomic.

Knows no sockets and no tasks. Bytes that are no request served here raise `ProtocolError`, and the connection ends. A
bug of ours is logged and costs that request alone. What ends the process (a log that cannot be written, a replay that
fails) goes through untouched.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import trio

from klamm.controller.authorizer import ANONYMOUS
from klamm.controller.core import Answer, Call, Controller
from klamm.controller.dispatch import IN_STRETCHES, SERVED, is_readable, serves
from klamm.controller.long_decision import Busy, LongDecision
from klamm.controller.outcome import NoReply, Waiting
from klamm.controller.served_versions import KIP_578_API_KEYS
from klamm.controller.topic_policy import RequestedTopic, Unjudged, Verdicts
from klamm.protocol.api import Listener
from klamm.protocol.codec.frames import SIZE_BYTES
from klamm.protocol.codec.requests import encode_response, read_request
from klamm.protocol.errors import ApiError, ErrorCode, ProtocolError, UnsupportedVersion
from klamm.protocol.fields import Message
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.cluster.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from klamm.protocol.messages.headers import RequestHeader
from klamm.server.bug_answers import unknown_server_error
from klamm.server.event_log import EventLog
from klamm.server.flusher import Flusher
from klamm.server.policy_asker import PolicyAsker
from klamm.server.request_log import RequestLine, RequestLog
from klamm.server.response_errors import ResponseError, collect_errors
from klamm.server.turns import Turns
from klamm.server.waiting_room import WaitingRoom

Encoded: TypeAlias = bytes | bytearray

MAX_SOFTWARE_CHARACTERS = 256
"""As much is kept of what a client calls itself and its version."""
MAX_REPR_CHARACTERS = 4_000
"""As much of a request goes into the event about the bug that it met."""


@dataclass(slots=True)
class Client:
    """Who is on the other side of a connection, as far as is known."""

    listener: Listener
    broker_id: int | None = None
    """The broker whose listener was connected to; None on the controller's."""
    host: str = ""
    """The address at the other end, as Java prints it."""
    principal: str = ANONYMOUS
    """Who that is. A listener on which clients say who they are sets it once they have."""
    software_name: str | None = None
    software_version: str | None = None
    listener_name: str | None = None
    """The listener that was connected to, such as "PLAINTEXT"; None: the first one."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An encoded answer without its size. It may leave when the log is durable up to `durable_at`."""

    payload: Encoded
    durable_at: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request that has been decoded, and how it came."""

    call: Call
    header: RequestHeader
    client: Client
    frame_bytes: int
    started: float
    arrived_ms: int


@dataclass(frozen=True, slots=True)
class Delayed:
    """A request that was decided, and whose answer waits for record data: `RequestPath.answer_when_ready` has it."""

    arrived: Arrived
    answer: Answer
    waiting: Waiting


@dataclass(frozen=True, slots=True)
class Undecided:
    """A request that cannot be decided at once: `RequestPath.answer_in_turn` does it, and has to be called.

    It comes to much (`decision`, whose first stretch was taken), the create-topic policy has to judge some topics
    first, or it would change something, and a long one is under way."""

    arrived: Arrived
    decision: LongDecision | None = None
    unjudged: Sequence[RequestedTopic] = ()


class RequestPath:
    """Turns frames into replies."""

    def __init__(
        self,
        controller: Controller,
        flusher: Flusher,
        request_log: RequestLog | None,
        events: EventLog,
        clock_ms: Callable[[], int],
        fatal_errors: tuple[type[Exception], ...],
        waiting_room: WaitingRoom,
        turns: Turns,
        policy: PolicyAsker | None = None,
    ) -> None:
        self._waiting_room = waiting_room
        self._turns = turns
        self._policy = policy
        self._first_verdicts: Verdicts | None = None if policy is None else MappingProxyType({})
        self._kip_578_versions = controller.settings.kip_578_versions
        self._also_versions = frozenset(
            (api.key, api.latest_stable + 1)
            for api in SERVED["broker"]
            if self._kip_578_versions and api.key in KIP_578_API_KEYS
        )
        self._controller = controller
        self._flusher = flusher
        self._request_log = request_log
        self._events = events
        self._clock_ms = clock_ms
        self._fatal_errors = fatal_errors
        self._served_keys = {listener: frozenset(api.key for api in apis) for listener, apis in SERVED.items()}

    def answer(self, frame: bytes, client: Client) -> Reply | Delayed | Undecided | None:
        """The reply to one frame; None: the client wants none. Raises ProtocolError where Kafka closes the connection
        without one, or NoReply."""
        started, arrived_ms = trio.current_time(), self._clock_ms()
        # Before the body is decoded: nobody should make us work for requests that are refused anyway.
        api_key = int.from_bytes(frame[:2], "big", signed=True)
        if api_key not in self._served_keys[client.listener]:
            raise ProtocolError(f"no API of key {api_key} is served here", offset=0, path="request_api_key")
        try:
            api, header, request = read_request(frame, self._also_versions)
        except UnsupportedVersion as error:
            return self._refuse_version(error, client, len(frame), started, arrived_ms)
        version = header.request_api_version
        if not serves(client.listener, api, version, kip_578_versions=self._kip_578_versions):
            raise ProtocolError(f"{api.name} v{version} is not served here", offset=2, path="request_api_version")
        if not is_readable(api, request):
            raise ProtocolError(f"{api.name} with a number that Kafka does not read", path="body")
        call = Call(
            api,
            min(version, api.latest_stable),
            request,
            client.listener,
            client.broker_id,
            header.client_id,
            client.principal,
            client.host,
            self._first_verdicts,
            client.listener_name,
        )
        # Simulated faults enter here: what is to be answered, delayed or dropped instead never reaches the core.
        found = Arrived(call, header, client, len(frame), started, arrived_ms)
        return self._reply(found, partial(self._begin, call))

    async def answer_in_turn(self, undecided: Undecided) -> Reply | Delayed | None:
        """The reply to a request that could not be decided at once. Whoever cancels this leaves nothing half."""
        verdicts: dict[str, ApiError | None] = {}
        while True:
            arrived, decision = undecided.arrived, undecided.decision
            if undecided.unjudged:
                assert self._policy is not None, "without a policy there is nothing to judge"
                for topic in undecided.unjudged:
                    verdicts[topic.topic_name] = await self._policy.judge(topic)
                arrived = replace(arrived, call=replace(arrived.call, verdicts=verdicts))
            if decision is None:
                await self._turns.of_changes.acquire()
            try:
                reply = await self._take_turn(arrived, decision)
            finally:
                self._turns.of_changes.release()
            if not isinstance(reply, Undecided):
                return reply
            undecided = reply  # while the policy was asked, room was made

    async def _take_turn(self, arrived: Arrived, decision: LongDecision | None) -> Reply | Delayed | Undecided | None:
        """Decide while nobody else changes anything."""
        if decision is None:
            reply = self._reply(arrived, partial(self._controller.begin, arrived.call))
            if not isinstance(reply, Undecided) or reply.decision is None:
                return reply
            decision = reply.decision
        try:
            stretches = self._go_on(arrived, decision)
            while True:
                await self._turns.let_others_in()
                try:
                    next(stretches)
                except StopIteration as end:
                    decided: Reply | Undecided | None = end.value
                    return decided
        finally:
            self._controller.abandon(decision)

    def _begin(self, call: Call) -> Answer | LongDecision:
        """Decide, or begin to: then the turn is ours, and `answer_in_turn` gives it back."""
        if call.api not in IN_STRETCHES:
            return self._controller.submit(call)
        if self._turns.of_changes.locked():
            raise Busy  # even if nothing is under way at this moment, somebody else is waiting
        decided = self._controller.begin(call)
        if isinstance(decided, LongDecision):
            self._turns.of_changes.acquire_nowait()
        return decided

    async def answer_when_ready(self, delayed: Delayed) -> Reply | None:
        """The reply to a request that waits, when what it waits for is there or its time is over; None if the server
        stops before."""
        # Before the first wait, too: meanwhile others may have been served.
        while isinstance(
            reply := self._reply(delayed.arrived, partial(self._controller.look, delayed.answer)), Delayed
        ):
            waiting = reply.waiting
            if not await self._waiting_room.wait(waiting.partitions, max(1, waiting.look_at_ms - self._clock_ms())):
                return None
        assert not isinstance(reply, Undecided), "it was decided before it waited"
        return reply

    def _reply(
        self, arrived: Arrived, decide: Callable[[], Answer | LongDecision]
    ) -> Reply | Delayed | Undecided | None:
        """What `decide` has to say, encoded and noted."""
        log_end_offset = self._controller.log_end_offset
        try:
            answer, payload = self._decide(arrived, decide)
        except Busy:
            return Undecided(arrived)
        except Unjudged as reason:
            return Undecided(arrived, unjudged=reason.topics)
        except NoReply as error:  # a part of what was asked may have been done
            self._log(arrived, Answer(error.unsent, self._controller.log_end_offset, log_end_offset, None), None)
            self._notice()
            raise
        if isinstance(answer, LongDecision):
            return Undecided(arrived, answer)
        if answer.response is not None and not isinstance(answer.response, Message):
            self._notice()
            return Delayed(arrived, answer, answer.response)
        return self._note(arrived, answer, payload)

    def _go_on(self, arrived: Arrived, decision: LongDecision) -> Generator[None, None, Reply | Undecided | None]:
        """The other stretches of a long decision: its plan, its records and its answer as bytes, and then the deed."""
        log_end_offset = self._controller.log_end_offset
        payload: Encoded | None
        try:
            yield from decision.go_on()
            yield
            assert decision.outcome is not None, "it has been planned"
            assert isinstance(decision.outcome.response, Message), "nothing that is decided in stretches waits"
            payload = _encode(arrived, decision.outcome.response)
            yield
            answer = self._controller.commit(decision)
        except Unjudged as reason:
            return Undecided(arrived, unjudged=reason.topics)
        except self._fatal_errors:
            raise
        except Exception as error:  # noqa: BLE001 - as below
            answer, payload = self._failed(arrived, error, log_end_offset)
        return self._note(arrived, answer, payload)

    def _note(self, arrived: Arrived, answer: Answer, payload: Encoded | None) -> Reply | None:
        _remember_software(arrived.client, arrived.call.request, answer.response)
        self._log(arrived, answer, payload)  # first: what is durable already is free to leave
        self._notice()
        return None if payload is None else Reply(payload, answer.durable_at)

    def _notice(self) -> None:
        self._flusher.notice()
        self._waiting_room.notice()

    def _log(self, arrived: Arrived, answer: Answer, payload: Encoded | None) -> None:
        if self._request_log is not None:
            self._request_log.append(_request_line(arrived, answer, payload))

    def _decide(
        self, arrived: Arrived, decide: Callable[[], Answer | LongDecision]
    ) -> tuple[Answer | LongDecision, Encoded | None]:
        log_end_offset = self._controller.log_end_offset
        try:
            answer = decide()
            if isinstance(answer, LongDecision) or not isinstance(answer.response, Message):
                return answer, None
            return answer, _encode(arrived, answer.response)
        except (NoReply, Unjudged, Busy):
            raise
        except self._fatal_errors:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is our bug, and only this request's affair
            return self._failed(arrived, error, log_end_offset)

    def _failed(self, arrived: Arrived, error: Exception, log_end_offset: int) -> tuple[Answer, Encoded]:
        call = arrived.call
        self._events.exception_rarely(f"bug: {call.api.name} failed", error, **_describe(call))
        response = unknown_server_error(call)
        if response is None:
            raise NoReply(f"{call.api.name} v{call.api_version} cannot be told of an error of ours")
        # The bug may have been in the encoding, with the records written: the answer waits for them all the same.
        answer = Answer(response, self._controller.log_end_offset, log_end_offset, None)
        return answer, _encode(arrived, response)

    def _refuse_version(
        self, error: UnsupportedVersion, client: Client, frame_bytes: int, started: float, arrived_ms: int
    ) -> Reply:
        """ApiVersions of an unknown version is answered in version 0, and tells only its own versions (KIP-511)."""
        api = api_versions.API
        entry = ApiVersion(api_key=api.key, min_version=api.versions.start, max_version=api.latest_stable)
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[entry])
        header = RequestHeader(
            request_api_key=error.api_key, request_api_version=error.api_version, correlation_id=error.correlation_id
        )
        header.client_id = None
        payload = encode_response(api, 0, error.correlation_id, response)
        call = Call(api, 0, ApiVersionsRequest(), client.listener)
        arrived = Arrived(call, header, client, frame_bytes, started, arrived_ms)
        self._log(arrived, Answer(response, 0, self._controller.log_end_offset, None), payload)
        return Reply(payload, 0)


def _encode(arrived: Arrived, response: Message) -> Encoded:
    call = arrived.call
    return encode_response(call.api, call.api_version, arrived.header.correlation_id, response)


def _remember_software(client: Client, request: Message, response: Message | Waiting | None) -> None:
    if not isinstance(request, ApiVersionsRequest) or not request.client_software_name:
        return
    if isinstance(response, ApiVersionsResponse) and response.error_code == ErrorCode.NONE:
        client.software_name = request.client_software_name[:MAX_SOFTWARE_CHARACTERS]
        client.software_version = request.client_software_version[:MAX_SOFTWARE_CHARACTERS]


def _describe(call: Call) -> dict[str, Any]:
    return {
        "api_version": call.api_version,
        "client_id": call.client_id,
        "listener": call.listener,
        "broker_id": call.broker_id,
        "request": repr(call.request)[:MAX_REPR_CHARACTERS],
    }


def _with_unsaid(errors: list[ResponseError], unsaid: Mapping[str, str]) -> list[ResponseError]:
    """The errors, with the texts for which the answer itself had no place."""
    for error in errors if unsaid else ():
        error["error_message"] = error["error_message"] or unsaid.get(error["topic_name"] or "")
    return errors


def _request_line(arrived: Arrived, answer: Answer, payload: Encoded | None) -> RequestLine:
    header, client, api, response = arrived.header, arrived.client, arrived.call.api, answer.response
    return RequestLine(
        arrived_ms=arrived.arrived_ms,
        broker_id=client.broker_id,
        listener=client.listener,
        principal=client.principal,
        client_id=header.client_id,
        client_software_name=client.software_name,
        client_software_version=client.software_version,
        api=api.name,
        api_key=api.key,
        api_version=header.request_api_version,
        correlation_id=header.correlation_id,
        bytes_in=arrived.frame_bytes + SIZE_BYTES,
        bytes_out=0 if payload is None else len(payload) + SIZE_BYTES,
        throttle_time_ms=getattr(response, "throttle_time_ms", 0),
        log_end_offset=answer.log_end_offset,
        record_offsets=answer.record_offsets,
        errors=_with_unsaid(collect_errors(response), answer.unsaid) if isinstance(response, Message) else [],
        started=arrived.started,
        durable_at=answer.durable_at,
    )
