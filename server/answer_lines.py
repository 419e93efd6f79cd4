"""The bytes of an answer with its errors, and the line of the request log about it."""

from collections.abc import Mapping
from typing import Any

from klamm.controller.core import Answer, Call
from klamm.controller.delayed_answer import DelayedAnswer
from klamm.controller.outcome import NoReply
from klamm.protocol.api import Api
from klamm.protocol.codec.frames import SIZE_BYTES
from klamm.protocol.codec.requests import encode_response
from klamm.protocol.fields import Message
from klamm.server.pending_answer import Arrived
from klamm.server.request_log import RequestLine
from klamm.server.response_errors import ResponseError, collect_errors, shortened_text


def _with_log_only_errors(errors: list[ResponseError], log_only_errors: Mapping[str, str]) -> list[ResponseError]:
    """Add the error messages for which the response has no field."""
    for error in errors if log_only_errors else ():
        error["error_message"] = error["error_message"] or shortened_text(
            log_only_errors.get(error["topic_name"] or "")
        )
    return errors


class Encoding:
    """Makes the bytes of a response, and finds its errors if there is a request log. Both see the columns that the
    response may view before anything changes them, and for a large request both are done in its thread."""

    __slots__ = ("_finds_errors", "_max_bytes", "_of", "errors", "response")

    def __init__(
        self, api: Api[Any, Any], api_version: int, correlation_id: int, max_bytes: int, finds_errors: bool
    ) -> None:
        self._of = api, api_version, correlation_id
        self._max_bytes = max_bytes
        self._finds_errors = finds_errors
        self.response: Message | None = None
        """The response that was encoded last."""
        self.errors: list[ResponseError] = []
        """Its errors."""

    def __call__(self, response: Message) -> bytearray:
        """Raises NoReply for a response that is too large to be sent; its request has changed nothing."""
        payload = encode_response(*self._of, response)
        if len(payload) > self._max_bytes:
            api, version, _ = self._of
            raise NoReply(f"an answer of {len(payload)} bytes to {api.name} v{version} exceeds {self._max_bytes}")
        if self._finds_errors:
            self.response, self.errors = response, collect_errors(response)
        return payload


def _errors_of(call: Call, response: Message | DelayedAnswer | None) -> list[ResponseError]:
    encoding = call.encode
    if isinstance(encoding, Encoding) and encoding.response is response:
        return encoding.errors
    return collect_errors(response) if isinstance(response, Message) else []


def request_line(arrived: Arrived, answer: Answer) -> RequestLine:
    header, client, api, response = arrived.header, arrived.client, arrived.call.api, answer.response
    return RequestLine(
        arrived_ms=arrived.arrived_ms,
        broker_id=client.broker_id,
        listener=client.listener,
        listener_name=client.listener_name,
        principal=client.principal,
        client_id=shortened_text(header.client_id),
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
        errors=_with_log_only_errors(_errors_of(arrived.call, response), answer.log_only_errors),
        started=arrived.started,
        durable_at=answer.durable_at,
        faults=() if arrived.struck is None else tuple(arrived.struck.rule_ids),
    )
