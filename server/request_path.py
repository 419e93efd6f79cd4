"""The path of one request: decode it, submit it, write it to the request log. Synchronous, and therefore atomic.

This module uses no sockets and no tasks. Bytes that are not a request that is served raise `ProtocolError`, and the
connection is closed. A bug in Klamm is logged, and only that request fails. Fatal errors (the log cannot be written, a
replay fails) are raised unchanged.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import trio

from klamm.controller.busy import Busy
from klamm.controller.calls import Encoded
from klamm.controller.client import Client
from klamm.controller.core import Answer, Call, Controller
from klamm.controller.delayed_answer import DelayedAnswer
from klamm.controller.dispatch import is_readable
from klamm.controller.long_decision import LongDecision
from klamm.controller.metadata_log_reader import MetadataLogReader
from klamm.controller.outcome import NoReply
from klamm.controller.reading import Readings, Unread
from klamm.controller.topic_policy import Unjudged, Verdicts
from klamm.protocol.api import Api
from klamm.protocol.codec.requests import encode_response, measure_request, read_request
from klamm.protocol.codec.sizes import DecodedSize
from klamm.protocol.errors import ErrorCode, NotServed, ProtocolError, UnsupportedVersion
from klamm.protocol.fields import Message
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.cluster.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from klamm.protocol.messages.data.fetch import API as FETCH
from klamm.protocol.messages.headers import RequestHeader
from klamm.server.answer_lines import Encoding, request_line
from klamm.server.answered_bodies import bodies_of
from klamm.server.bug_answers import unknown_server_error
from klamm.server.event_log import EventLog
from klamm.server.faults.rules import FaultRules
from klamm.server.faulty_requests import FaultEnds, FaultyRequests, LateAnswer
from klamm.server.flusher import Flusher
from klamm.server.large_request import LargeRequest
from klamm.server.limits import ServerLimits
from klamm.server.pending_answer import Arrived, Decide, PendingAnswer, Waits
from klamm.server.policy_asker import PolicyAsker
from klamm.server.purgatory import Purgatory
from klamm.server.reply import Reply
from klamm.server.request_limits import RequestLimits, limits_of
from klamm.server.request_log import RequestLog
from klamm.server.secrets import shown_message
from klamm.server.server_answers import ServerAnswers
from klamm.server.turns import Turns
from klamm.server.unserved_requests import UnservedRequests, client_id_of

Charge: TypeAlias = Callable[[Call, int, int], int]
"""Measures a request: the call, the bytes of its body, the time in ms. Returns its throttle time in ms."""

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
        log: MetadataLogReader,
        turns: Turns,
        policy: PolicyAsker | None = None,
        limits: ServerLimits = ServerLimits(),  # noqa: B008 - frozen
        *,
        faults: FaultRules,
        threads: bool = False,
        charge: Charge | None = None,
    ) -> None:
        """`charge` measures requests by quotas. `threads`: whether large requests are decoded and decided, and large
        batches read, in a thread. Otherwise all is done on the event loop as for small ones, so that the order of
        events depends on nothing but trio's clock."""
        self._threads = threads
        self._charge = charge
        self._max_memory_bytes = limits.decoded_request_bytes
        self._max_answer_bytes = limits.answer_bytes
        self.turns = turns
        self.server_answers = ServerAnswers(
            log,
            flusher,
            events,
            self.answer,
            lambda fetch: controller.observers.note(fetch, clock_ms()),
            turns.bulk,
            threads=threads,
        )
        """Completes answers with bytes of the metadata log, and answers to forwarded requests."""
        self._waits = Waits(controller, turns, purgatory, self.server_answers, policy, clock_ms, self._attempt)
        self._purgatory = purgatory
        self._first_verdicts: Verdicts | None = None if policy is None else MappingProxyType({})
        self._first_readings: Readings | None = MappingProxyType({}) if threads else None
        self._controller = controller
        self._flusher = flusher
        self._request_log = request_log
        self._events = events
        self._clock_ms = clock_ms
        self._fatal_errors = fatal_errors
        self._faulty = FaultyRequests(faults, controller, self._attempt, self._begin, self._log_unanswered)
        self.afterwards: Callable[[], None] | None = None
        """Called after each request."""
        self.touch: Callable[[], None] = lambda: None
        """Called after a request that may have left something to the next tick."""
        self._unserved = UnservedRequests(events, request_log)
        self._by_client_id = bool(controller.settings.emulation.by_client_id)

    def stop_waiting(self) -> None:
        """End every answer that waits for records or for a coordinator, now and later, with ServerStops."""
        self._purgatory.close()
        self.server_answers.close()

    def answer(self, frame: bytes, client: Client) -> Reply | PendingAnswer | LargeRequest | LateAnswer | None:
        """The reply to one frame, or an object that will have it. None: the client expects none. Raises ProtocolError
        if Kafka would close the connection without an answer or if the request exceeds a limit, NoReply, and FaultEnds
        if a simulated fault ends the connection's answers."""
        started, arrived_ms = trio.current_time(), self._clock_ms()
        if self._by_client_id:
            client.client_id = client_id_of(frame)
        limits = limits_of(frame)
        try:
            if len(frame) > limits.small_bytes and self._is_large(frame, client, limits):
                if self._threads:
                    return self._large(frame, client, limits, started, arrived_ms)
                self._measure(frame, client, limits)
            return self._decide(self._charged(self._arrived(frame, client, started, arrived_ms)))
        except NotServed as error:
            self._unserved.note(error, frame, client, started, arrived_ms, self._controller.log_end_offset)
            self._notice()
            raise
        except UnsupportedVersion as error:
            return self._refuse_version(error, client, len(frame), started, arrived_ms)

    @property
    def log_end_offset(self) -> int:
        """The end of the metadata log: an answer that depends on the present state has to wait until it is durable."""
        return self._controller.log_end_offset

    def note_authentication(
        self,
        api: Api[Any, Any],
        header: RequestHeader,
        response: Message,
        payload: Encoded | None,
        client: Client,
        frame_bytes: int,
        started: float,
    ) -> None:
        """Write a line about a request that the listener's guard answered, before its client was authenticated. Neither
        request nor response is in the line, only the errors."""
        call = Call(api, header.request_api_version, api.request(), client.listener)
        end = self._controller.log_end_offset
        self._log(
            Arrived(call, header, client, frame_bytes, started, self._clock_ms()),
            Answer(response, end, end, None, payload=payload),
        )
        self._notice()

    def _is_large(self, frame: bytes, client: Client, limits: RequestLimits) -> bool:
        """Whether the request has too many entries to be handled at once. Raises ProtocolError if it has too many
        bytes."""
        if limits.max_bytes is not None and len(frame) > limits.max_bytes:
            raise ProtocolError(
                f"request of {len(frame)} bytes exceeds {limits.max_bytes}, the most for API key "
                f"{int.from_bytes(frame[:2], 'big')}"
            )
        _, size = measure_request(frame, self._controller.served.to(client), limits.entries_at_once)
        return size.entries > limits.entries_at_once

    def _large(
        self, frame: bytes, client: Client, limits: RequestLimits, started: float, arrived_ms: int
    ) -> LargeRequest:
        return LargeRequest(
            lambda: self._measure(frame, client, limits),
            lambda: self._arrived(frame, client, started, arrived_ms),
            self._charged,
            self._decide,
            limits,
            self._waits,
            self._faulty.rules.concern,
        )

    def _measure(self, frame: bytes, client: Client, limits: RequestLimits) -> DecodedSize:
        """What the request takes once it is decoded. Raises ProtocolError if that exceeds a limit. Reads nothing that
        changes while the server runs, so it may be called in a thread."""
        api, size = measure_request(frame, self._controller.served.to(client), limits.max_entries)
        if size.entries > limits.max_entries:
            raise ProtocolError(f"{api.name} with more than {limits.max_entries} entries")
        if size.memory_bytes > self._max_memory_bytes:
            raise ProtocolError(
                f"request that would take {size.memory_bytes} bytes decoded exceeds {self._max_memory_bytes} "
                "(decoded_request_bytes)"
            )
        return size

    def _arrived(self, frame: bytes, client: Client, started: float, arrived_ms: int) -> Arrived:
        """The decoded request. Reads nothing that changes while the server runs, so it may be called in a thread."""
        served = self._controller.served.to(client)
        api, header, request = read_request(frame, served)
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
            self._first_readings,
            served,
            Encoding(api, api_version, header.correlation_id, self._max_answer_bytes, self._request_log is not None),
            client.listener_name,
            may_use_tokens=client.may_use_tokens,
            connection_id=client.connection_id,
            client=client,
        )
        return Arrived(call, header, client, len(frame), started, arrived_ms)

    def _decide(self, arrived: Arrived) -> Reply | PendingAnswer | LateAnswer | None:
        if self._faulty.rules.concern(arrived.call.api.key):
            return self._faulty.decide(arrived)
        return self._begin(arrived)

    def _begin(self, arrived: Arrived) -> Reply | PendingAnswer | None:
        # A long request is not begun while others wait for their turn, even if no long request is under way.
        return self._attempt(
            arrived, partial(self._controller.begin, arrived.call, others_wait=self.turns.of_changes.locked())
        )

    def _charged(self, arrived: Arrived) -> Arrived:
        """The request, measured by the quotas of its client."""
        charge = self._charge
        if charge is None or not self._controller.image.client_quotas:
            return arrived
        throttle_time_ms = charge(arrived.call, arrived.frame_bytes, self._clock_ms())
        if not throttle_time_ms:
            return arrived
        return replace(arrived, call=replace(arrived.call, throttle_time_ms=throttle_time_ms))

    def _attempt(self, arrived: Arrived, decide: Decide) -> Reply | PendingAnswer | None:
        """Decide a request by `decide`. Returns its reply, written to the request log, or a PendingAnswer."""
        log_end_offset = self._controller.log_end_offset
        try:
            found = decide()
        except (Busy, Unjudged, Unread) as cause:
            return PendingAnswer(arrived, cause, self._waits)
        except NoReply as error:
            self._drop(arrived, error, log_end_offset)
            raise
        except FaultEnds:
            raise
        except self._fatal_errors:
            raise
        except Exception as error:  # noqa: BLE001 - any other exception is a bug; only this request may fail
            found = self._failed(arrived, error, log_end_offset)
        if isinstance(found, LongDecision):
            return PendingAnswer(arrived, found, self._waits)
        if found.response is not None and not isinstance(found.response, Message):
            self._notice(arrived)
            return PendingAnswer(arrived, found, self._waits)
        return self._note(arrived, found)

    def _drop(self, arrived: Arrived, reason: NoReply, log_end_offset: int) -> None:
        """Log a request whose connection has to be closed. Parts of the request may have been done."""
        self._log_unanswered(arrived, Answer(reason.unsent, self._controller.log_end_offset, log_end_offset, None))

    def _log_unanswered(self, arrived: Arrived, answer: Answer) -> None:
        self._log(arrived, answer)
        self._notice(arrived)

    def _note(self, arrived: Arrived, answer: Answer) -> Reply | None:
        _remember_software(arrived.client, arrived.call.request, answer.response)
        # A request without a response throttles its client, too; a fault rule's throttle time is only in the answer.
        arrived.client.throttle_time_ms = getattr(answer.response, "throttle_time_ms", arrived.call.throttle_time_ms)
        struck = arrived.struck
        if struck is not None:
            answer = self._faulty.altered(arrived, struck, answer)
        self._log(arrived, answer)  # before the notice, which finishes lines whose answers are durable already
        self._notice(arrived)
        if answer.payload is None:
            return None
        reply = Reply(answer.payload, answer.durable_at, self._flusher.reservations)
        return reply if struck is None else self._faulty.reply(struck, reply)

    def _notice(self, arrived: Arrived | None = None) -> None:
        if self.afterwards is not None:
            self.afterwards()
        # What is due of the controller depends on records, and a Fetch changes nothing that is due.
        is_idle = arrived is not None and (arrived.call.listener == "controller" or arrived.call.api is FETCH)
        if not is_idle or self._request_log is not None:
            self.touch()
        self._flusher.notice()

    def _log(self, arrived: Arrived, answer: Answer) -> None:
        if self._request_log is not None:
            line = request_line(arrived, answer)
            if (topic := self._request_log.topic) is not None:
                line.is_of_topic = topic.concerns(line.api, line.broker_id, arrived.call.request, answer.response)
            if self._request_log.keeps_bodies:
                line.bodies = bodies_of(arrived, answer)
            self._request_log.append(line)

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
        "request": repr(shown_message(call.request, call.api_version))[:MAX_REPR_CHARACTERS],
    }
