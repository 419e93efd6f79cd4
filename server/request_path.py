"""The path of one request: decode it, submit it, write it to the request log. Synchronous, and therefore atomic.

This module uses no sockets and no tasks. Bytes that are not a request that is served raise `ProtocolError`, and the
connection is closed. A bug in Klamm is logged, and only that request fails. Fatal errors (the log cannot be written, a
replay fails) are raised unchanged.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import trio

from klamm.controller.client import Client
from klamm.controller.core import Answer, Call, Controller
from klamm.controller.delayed_answer import DelayedAnswer
from klamm.controller.dispatch import is_readable
from klamm.controller.long_decision import Busy, LongDecision
from klamm.controller.outcome import NoReply
from klamm.controller.topic_policy import Unjudged, Verdicts
from klamm.protocol.codec.frames import SIZE_BYTES
from klamm.protocol.codec.requests import encode_response, read_request
from klamm.protocol.errors import ErrorCode, ProtocolError, UnsupportedVersion
from klamm.protocol.fields import Message
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.cluster.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from klamm.protocol.messages.headers import RequestHeader
from klamm.server.bug_answers import unknown_server_error
from klamm.server.event_log import EventLog
from klamm.server.flusher import Flusher
from klamm.server.pending_answer import Arrived, Decide, PendingAnswer, Reply, Waits
from klamm.server.policy_asker import PolicyAsker
from klamm.server.purgatory import Purgatory
from klamm.server.request_log import RequestLine, RequestLog
from klamm.server.response_errors import ResponseError, collect_errors
from klamm.server.turns import Turns

MAX_SOFTWARE_CHARACTERS = 256
"""The client's software name and version are cut to this length."""
MAX_REPR_CHARACTERS = 4_000
"""The text of a request is cut to this length in the event about a bug."""


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
        purgatory: Purgatory,
        turns: Turns,
        policy: PolicyAsker | None = None,
    ) -> None:
        self._turns = turns
        self._waits = Waits(controller, turns, purgatory, policy, clock_ms, self._attempt)
        self._purgatory = purgatory
        self._first_verdicts: Verdicts | None = None if policy is None else MappingProxyType({})
        self._controller = controller
        self._flusher = flusher
        self._request_log = request_log
        self._events = events
        self._clock_ms = clock_ms
        self._fatal_errors = fatal_errors

    def answer(self, frame: bytes, client: Client) -> Reply | PendingAnswer | None:
        """The reply to one frame, or a PendingAnswer that will have it. None: the client expects none. Raises
        ProtocolError if Kafka would close the connection without an answer, and NoReply."""
        started, arrived_ms = trio.current_time(), self._clock_ms()
        served = self._controller.served.to(client)
        try:
            api, header, request = read_request(frame, served)
        except UnsupportedVersion as error:
            return self._refuse_version(error, client, len(frame), started, arrived_ms)
        if not is_readable(api, request):
            raise ProtocolError(f"{api.name} with a number that Kafka does not read", path="body")
        api_version = served[api.key].schema_version(header.request_api_version)
        call = Call(
            api,
            api_version,
            request,
            client.listener,
            client.broker_id,
            header.client_id,
            client.principal,
            client.host,
            self._first_verdicts,
            served,
            partial(encode_response, api, api_version, header.correlation_id),
            client.listener_name,
        )
        # Simulated faults belong here: a request that a fault delays, drops or answers never reaches the core.
        arrived = Arrived(call, header, client, len(frame), started, arrived_ms)
        # A long request is not begun while others wait for their turn, even if no long request is under way.
        return self._attempt(
            arrived, partial(self._controller.begin, call, others_wait=self._turns.of_changes.locked())
        )

    def _attempt(self, arrived: Arrived, decide: Decide) -> Reply | PendingAnswer | None:
        """Decide a request by `decide`. Returns its reply, written to the request log, or a PendingAnswer."""
        log_end_offset = self._controller.log_end_offset
        try:
            found = decide()
        except (Busy, Unjudged) as cause:
            return PendingAnswer(arrived, cause, self._waits)
        except NoReply as error:
            self._drop(arrived, error, log_end_offset)
            raise
        except self._fatal_errors:
            raise
        except Exception as error:  # noqa: BLE001 - any other exception is a bug; only this request may fail
            found = self._failed(arrived, error, log_end_offset)
        if isinstance(found, LongDecision):
            return PendingAnswer(arrived, found, self._waits)
        if found.response is not None and not isinstance(found.response, Message):
            self._notice()
            return PendingAnswer(arrived, found, self._waits)
        return self._note(arrived, found)

    def _drop(self, arrived: Arrived, reason: NoReply, log_end_offset: int) -> None:
        """Log a request whose connection has to be closed. Parts of the request may have been done."""
        self._log(arrived, Answer(reason.unsent, self._controller.log_end_offset, log_end_offset, None))
        self._notice()

    def _note(self, arrived: Arrived, answer: Answer) -> Reply | None:
        _remember_software(arrived.client, arrived.call.request, answer.response)
        self._log(arrived, answer)  # before the notice, which finishes lines whose answers are durable already
        self._notice()
        return None if answer.payload is None else Reply(answer.payload, answer.durable_at, self._flusher.reservations)

    def _notice(self) -> None:
        self._flusher.notice()

    def _log(self, arrived: Arrived, answer: Answer) -> None:
        if self._request_log is not None:
            self._request_log.append(_request_line(arrived, answer))

    def _failed(self, arrived: Arrived, error: Exception, log_end_offset: int) -> Answer:
        call = arrived.call
        self._events.exception_rarely(f"bug: {call.api.name} failed", error, **_describe(call))
        response = unknown_server_error(call)
        if response is None:
            reason = NoReply(f"{call.api.name} v{call.api_version} cannot be told of an error of ours")
            self._drop(arrived, reason, log_end_offset)
            raise reason
        # The bug may have occurred after the append, so the answer waits until all records are durable.
        return Answer(response, self._controller.log_end_offset, log_end_offset, None, payload=call.encoded(response))

    def _refuse_version(
        self, error: UnsupportedVersion, client: Client, frame_bytes: int, started: float, arrived_ms: int
    ) -> Reply:
        """Answer an unsupported version of ApiVersions in version 0, with ApiVersions' own range only (KIP-511)."""
        api = api_versions.API
        described = self._controller.served.to(client)[api.key].described
        entry = ApiVersion(api_key=api.key, min_version=described[0], max_version=described[-1])
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[entry])
        header = RequestHeader(
            request_api_key=error.api_key, request_api_version=error.api_version, correlation_id=error.correlation_id
        )
        header.client_id = None
        payload = encode_response(api, 0, error.correlation_id, response)
        call = Call(api, 0, ApiVersionsRequest(), client.listener)
        arrived = Arrived(call, header, client, frame_bytes, started, arrived_ms)
        self._log(arrived, Answer(response, 0, self._controller.log_end_offset, None, payload=payload))
        return Reply(payload, 0)


def _remember_software(client: Client, request: Message, response: Message | DelayedAnswer | None) -> None:
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


def _with_log_only_errors(errors: list[ResponseError], log_only_errors: Mapping[str, str]) -> list[ResponseError]:
    """Add the error messages for which the response has no field."""
    for error in errors if log_only_errors else ():
        error["error_message"] = error["error_message"] or log_only_errors.get(error["topic_name"] or "")
    return errors


def _request_line(arrived: Arrived, answer: Answer) -> RequestLine:
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
        bytes_out=0 if answer.payload is None else len(answer.payload) + SIZE_BYTES,
        throttle_time_ms=getattr(response, "throttle_time_ms", 0),
        log_end_offset=answer.log_end_offset,
        record_offsets=answer.record_offsets,
        errors=_with_log_only_errors(collect_errors(response), answer.log_only_errors)
        if isinstance(response, Message)
        else [],
        started=arrived.started,
        durable_at=answer.durable_at,
    )
