"""What tests ask a cluster for: the records of a topic and the requests of clients. The standard library alone."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

IsolationLevel = Literal["read_uncommitted", "read_committed"]
ISOLATION_LEVELS: tuple[IsolationLevel, ...] = ("read_uncommitted", "read_committed")
MAX_RECORD_BYTES = 64 * 1024 * 1024
"""The most bytes of keys, values and headers that `records` returns unless it is asked for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record of a topic. `timestamp_ms` is in ms since 1970. `key`, `value` and the values of headers may be None."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def size_bytes(self) -> int:
        """The bytes of key, value and headers."""
        in_headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + in_headers

    def as_json(self) -> dict[str, object]:
        """The record as JSON of the control interface. Bytes are in base64."""
        return {
            "partition": self.partition,
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "key": _encoded(self.key),
            "value": _encoded(self.value),
            "headers": [[name, _encoded(value)] for name, value in self.headers],
        }

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """The record of an object in an answer."""
        return cls(
            partition=members["partition"],
            offset=members["offset"],
            timestamp_ms=members["timestamp_ms"],
            key=_decoded(members["key"]),
            value=_decoded(members["value"]),
            headers=tuple((name, _decoded(value)) for name, value in members["headers"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRequest:
    """An answered request, with the members of a line of the request log (docs/request-log.md)."""

    seq: int
    time: str
    broker_id: int | None
    listener: str
    principal: str
    client_id: str | None
    client_software_name: str | None
    client_software_version: str | None
    api: str
    api_key: int
    api_version: int
    correlation_id: int
    bytes_in: int
    bytes_out: int
    microseconds: int
    throttle_time_ms: int
    log_end_offset: int
    record_offsets: Sequence[int] | None
    errors: Sequence[Mapping[str, Any]]
    faults: Sequence[str] | None = None
    """The ids of the fault rules that hit the request; None: none did."""
    request: Mapping[str, Any] | None = None
    """The request as JSON, if the server keeps it (`--journal-bodies`) and it is not too large."""
    response: Mapping[str, Any] | None = None
    """The answer, likewise; None also if there was none."""
    listener_name: str | None = None
    """The name of the listener that the client connected to, such as "PLAINTEXT"; None: the cluster itself."""

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """The request of a line; members that a newer server adds are ignored."""
        return cls(**{field.name: members[field.name] for field in fields(cls) if field.name in members})

    def __repr__(self) -> str:
        receiver = "the controller" if self.broker_id is None else f"broker {self.broker_id}"
        codes = sorted({error["error_code"] for error in self.errors})
        failed = f", errors {codes}" if codes else ""
        return f"<LoggedRequest {self.seq}: {self.api} v{self.api_version} of {self.client_id!r} to {receiver}{failed}>"


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
