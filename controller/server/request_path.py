"""The way of one request: decode, submit, encode at once, note in the request log. Synchronous, hence atomic.

Knows no sockets and no tasks. Bytes that are no request served here raise `ProtocolError`, and the connection ends. A
bug of ours is logged and costs that request alone. What ends the process (a log that cannot be written, a replay that
fails) goes through untouched.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import trio

from controller.authorizer import ANONYMOUS
from controller.core import Answer, Call, Controller
from controller.dispatch import SERVED, is_readable, serves
from controller.served_versions import KIP_578_API_KEYS
from controller.server.bug_answers import unknown_server_error
from controller.server.event_log import EventLog
from controller.server.flusher import Flusher
from controller.server.policy_asker import PolicyAsker
from controller.server.request_log import RequestLine, RequestLog
from controller.server.response_errors import ResponseError, collect_errors
from controller.topic_policy import Unjudged, Verdicts
from protocol.api import Api, Listener
from protocol.codec.frames import SIZE_BYTES
from protocol.codec.requests import decode_request, encode_response
from protocol.errors import ApiError, ErrorCode, ProtocolError, UnsupportedVersion
from protocol.fields import Message
from protocol.messages.cluster import api_versions
from protocol.messages.cluster.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.headers import RequestHeader

Encoded: TypeAlias = bytes | bytearray

MAX_SOFTWARE_CHARACTERS = 256
"""As much is kept of what a client calls itself and its version."""
MAX_REPR_CHARACTERS = 4_000
"""As much of a request goes into the event about the bug that it met."""


class NoReply(Exception):
    """A request that cannot be answered in its own terms: the connection has to end."""


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


@dataclass(frozen=True, slots=True)
class Reply:
    """An encoded answer without its size. It may leave when the log is durable up to `durable_at`."""

    payload: Encoded
    durable_at: int


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
        policy: PolicyAsker | None = None,
    ) -> None:
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

    async def answer_after_policy(self, frame: bytes, client: Client, unjudged: Unjudged) -> Reply:
        """The reply to a frame whose topics the create-topic policy has to judge first."""
        assert self._policy is not None, "without a policy there is nothing to judge"
        verdicts: dict[str, ApiError | None] = {}
        arrived = trio.current_time(), self._clock_ms()
        while True:
            for topic in unjudged.topics:
                verdicts[topic.topic_name] = await self._policy.judge(topic)
            try:
                return self.answer(frame, client, verdicts, arrived)
            except Unjudged as more:  # while the policy was asked, room was made
                unjudged = more

    def answer(
        self,
        frame: bytes,
        client: Client,
        verdicts: Verdicts | None = None,
        arrived: tuple[float, int] | None = None,
    ) -> Reply:
        """The reply to one frame. Raises ProtocolError where Kafka closes the connection without one, or NoReply, and
        Unjudged where a policy has to be asked first."""
        started, arrived_ms = arrived or (trio.current_time(), self._clock_ms())
        # Before the body is decoded: nobody should make us work for requests that are refused anyway.
        if int.from_bytes(frame[:2], "big", signed=True) not in self._served_keys[client.listener]:
            raise ProtocolError("no API of this key is served here", offset=0, path="request_api_key")
        try:
            api, header, request = decode_request(frame, self._also_versions)
        except UnsupportedVersion as error:
            api, header, answer, payload = self._refuse_version(error)
        else:
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
                self._first_verdicts if verdicts is None else verdicts,
            )
            answer, payload = self._decide(call, header.correlation_id)
            _remember_software(client, request, answer.response)
        if self._request_log is not None:
            line = _request_line(api, header, client, answer, len(frame), len(payload), started, arrived_ms)
            self._request_log.append(line)
        self._flusher.notice()
        return Reply(payload, answer.durable_at)

    def _decide(self, call: Call, correlation_id: int) -> tuple[Answer, Encoded]:
        log_end_offset = self._controller.log_end_offset
        try:
            # Simulated faults enter here: what is to be answered, delayed or dropped instead never reaches the core.
            answer = self._controller.submit(call)
            return answer, encode_response(call.api, call.api_version, correlation_id, answer.response)
        except Unjudged:
            raise
        except self._fatal_errors:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is our bug, and only this request's affair
            self._events.exception_rarely(f"bug: {call.api.name} failed", error, **_describe(call))
        response = unknown_server_error(call)
        if response is None:
            raise NoReply(f"{call.api.name} v{call.api_version} has no place for an error")
        # The bug may have been in the encoding, with the records written: the answer waits for them all the same.
        answer = Answer(response, self._controller.log_end_offset, log_end_offset, None)
        return answer, encode_response(call.api, call.api_version, correlation_id, response)

    def _refuse_version(self, error: UnsupportedVersion) -> tuple[Api[Any, Any], RequestHeader, Answer, Encoded]:
        """ApiVersions of an unknown version is answered in version 0, and tells only its own versions (KIP-511)."""
        api = api_versions.API
        entry = ApiVersion(api_key=api.key, min_version=api.versions.start, max_version=api.latest_stable)
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[entry])
        header = RequestHeader(
            request_api_key=error.api_key, request_api_version=error.api_version, correlation_id=error.correlation_id
        )
        header.client_id = None
        end_offset = self._controller.log_end_offset
        return (
            api,
            header,
            Answer(response, 0, end_offset, None),
            encode_response(api, 0, error.correlation_id, response),
        )


def _remember_software(client: Client, request: Message, response: Message) -> None:
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


def _request_line(
    api: Api[Any, Any],
    header: RequestHeader,
    client: Client,
    answer: Answer,
    frame_bytes: int,
    payload_bytes: int,
    started: float,
    arrived_ms: int,
) -> RequestLine:
    return RequestLine(
        arrived_ms=arrived_ms,
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
        bytes_in=frame_bytes + SIZE_BYTES,
        bytes_out=payload_bytes + SIZE_BYTES,
        throttle_time_ms=getattr(answer.response, "throttle_time_ms", 0),
        log_end_offset=answer.log_end_offset,
        record_offsets=answer.record_offsets,
        errors=_with_unsaid(collect_errors(answer.response), answer.unsaid),
        started=started,
        durable_at=answer.durable_at,
    )
