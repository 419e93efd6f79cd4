"""Counts the requests of clients, for the metrics. The counts are made of lines of the request log, after the answers
have left, and need no clock of their own.

The combinations of API, version, error and broker are bounded: beyond the limit, new ones are counted together.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from klamm.protocol.errors import ErrorCode
from klamm.server.durations import Durations
from klamm.server.recent_requests import CONTROL_CLIENT_ID
from klamm.server.response_errors import ResponseError

MAX_COMBINATIONS: Final = 4_000
MAX_APIS: Final = 200
"""The most names of APIs that are counted one by one. Clients also send the keys of APIs that Kafka does not have."""


class Line(Protocol):
    """What is read of a line (`klamm.server.request_log.RequestLine`)."""

    @property
    def client_id(self) -> str | None: ...
    @property
    def api(self) -> str: ...
    @property
    def api_version(self) -> int: ...
    @property
    def broker_id(self) -> int | None: ...
    @property
    def errors(self) -> Sequence[ResponseError]: ...
    @property
    def microseconds(self) -> int: ...
    @property
    def bytes_in(self) -> int: ...
    @property
    def bytes_out(self) -> int: ...
    @property
    def throttle_time_ms(self) -> int: ...


class Combination(NamedTuple):
    """Requests with the same values here are counted together."""

    api: str
    api_version: int
    error_code: int
    """The first error of the answer; 0: none."""
    broker_id: int | None
    """The broker that was asked; None: the controller."""


OTHERS: Final = Combination("", -1, ErrorCode.UNKNOWN_SERVER_ERROR, None)
"""The requests whose combination came after the limit."""


class OfApi:
    """What is counted of one API alone."""

    __slots__ = ("bytes_in", "bytes_out", "durations", "throttle_ms")

    def __init__(self) -> None:
        self.durations = Durations()
        self.bytes_in = self.bytes_out = self.throttle_ms = 0


class RequestCounts:
    """The counts since the start of the process."""

    def __init__(self, max_combinations: int = MAX_COMBINATIONS, max_apis: int = MAX_APIS) -> None:
        self.requests: dict[Combination, int] = {}
        self.by_api: dict[str, OfApi] = {}
        self._max_combinations = max_combinations
        self._max_apis = max_apis

    def add(self, line: Line) -> None:
        """Count a request, unless it is one of the control interface."""
        if line.client_id == CONTROL_CLIENT_ID:
            return
        error_code = line.errors[0]["error_code"] if line.errors else 0
        counted = Combination(line.api, line.api_version, error_code, line.broker_id)
        requests = self.requests
        if counted not in requests and len(requests) >= self._max_combinations:
            counted = OTHERS
        requests[counted] = requests.get(counted, 0) + 1
        of_api = self.by_api.get(line.api)
        if of_api is None:
            name = line.api if len(self.by_api) < self._max_apis else OTHERS.api
            of_api = self.by_api.setdefault(name, OfApi())
        of_api.durations.add(line.microseconds / 1_000_000)
        of_api.bytes_in += line.bytes_in
        of_api.bytes_out += line.bytes_out
        of_api.throttle_ms += line.throttle_time_ms
