"""Requests for APIs and versions that are not served. As in Apache Kafka, their connection is closed without an answer;
people who see only that cannot know why, so each client is named once for each API, and the request log has a line.
"""

import struct
from typing import Final

from klamm.controller.client import Client
from klamm.protocol.codec.frames import SIZE_BYTES
from klamm.protocol.errors import ErrorCode, NotServed
from klamm.server.event_log import EventLog
from klamm.server.request_log import RequestLine, RequestLog
from klamm.server.response_errors import ResponseError, shortened_text

MAX_NAMED: Final = 1_000
"""Pairs of a client and an API that are named on stderr. Further pairs are counted only."""
_HEADER: Final = struct.Struct(">hhih")
"""API key, version, correlation id and length of the client id: the same in all versions of the header but 0."""


class UnservedRequests:
    """Names those who ask for what is not served."""

    def __init__(self, events: EventLog, request_log: RequestLog | None) -> None:
        self._events = events
        self._request_log = request_log
        self._named: set[tuple[str | None, int, int]] = set()

    def note(
        self, error: NotServed, frame: bytes, client: Client, started: float, arrived_ms: int, log_end_offset: int
    ) -> None:
        """Name the client, unless it was named for this API and version before, and write a line of the request log."""
        correlation_id, client_id = _asked_by(frame)
        client_id = shortened_text(client_id)
        event = "connection closed: this API or version is not served"
        members = {"reason": error.reason, "client_id": client_id, "client_software": client.software_name}
        pair = client_id, error.api_key, error.api_version
        if len(self._named) >= MAX_NAMED:
            self._events.warning_rarely(event, **members)
        elif pair not in self._named:
            self._named.add(pair)
            self._events.warning(event, **members)
        if self._request_log is not None:
            self._request_log.append(
                RequestLine(
                    arrived_ms=arrived_ms,
                    broker_id=client.broker_id,
                    listener=client.listener,
                    listener_name=client.listener_name,
                    principal=client.principal,
                    client_id=client_id,
                    client_software_name=client.software_name,
                    client_software_version=client.software_version,
                    api=error.api_name,
                    api_key=error.api_key,
                    api_version=error.api_version,
                    correlation_id=correlation_id,
                    bytes_in=len(frame) + SIZE_BYTES,
                    bytes_out=0,
                    throttle_time_ms=0,
                    log_end_offset=log_end_offset,
                    record_offsets=None,
                    errors=[_refusal(error.reason)],
                    started=started,
                    durable_at=0,
                )
            )


def _asked_by(frame: bytes) -> tuple[int, str | None]:
    """The correlation id and the client id; 0 and None if the frame is too short for them."""
    if len(frame) < _HEADER.size:
        return 0, None
    _, _, correlation_id, length = _HEADER.unpack_from(frame)
    name = frame[_HEADER.size : _HEADER.size + length] if length >= 0 else None
    return correlation_id, None if name is None else name.decode(errors="replace")


def client_id_of(frame: bytes) -> str | None:
    """The client id in the header of a request; None if it has none, or is too short."""
    return _asked_by(frame)[1]


def _refusal(reason: str) -> ResponseError:
    return {
        "topic_name": None,
        "topic_id": None,
        "partition_index": None,
        "resource_type": None,
        "resource_name": None,
        "error_code": ErrorCode.UNSUPPORTED_VERSION,
        "error_message": f"{reason}; the connection is closed",
    }
