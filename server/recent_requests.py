"""The newest requests of clients, in memory, for tests that ask what was requested. The lines are those of the request
log, whether or not there is a file.
"""

from collections import deque
from collections.abc import Sized
from typing import Final, Generic, Protocol, TypeVar

CONTROL_CLIENT_ID: Final = "klamm-control"
"""The client id of the control interface's own requests, which are not among those of clients."""
MAX_LINES: Final = 10_000
MAX_ERRORS: Final = 20_000
"""The errors of all lines together; the texts of one have at most 256 characters."""


class Line(Protocol):
    """What is read of a line (`klamm.server.request_log.RequestLine`)."""

    @property
    def client_id(self) -> str | None: ...
    @property
    def api(self) -> str: ...
    @property
    def errors(self) -> Sized: ...


LineT = TypeVar("LineT", bound=Line)


class RecentRequests(Generic[LineT]):
    """The newest lines, at most `MAX_LINES` with `MAX_ERRORS`."""

    def __init__(self, max_lines: int = MAX_LINES, max_errors: int = MAX_ERRORS) -> None:
        self._lines: deque[tuple[int, LineT]] = deque()
        self._errors = 0
        self._max_lines = max_lines
        self._max_errors = max_errors

    def add(self, seq: int, line: LineT) -> None:
        """Add a line, and drop the oldest ones beyond the limits."""
        if line.client_id == CONTROL_CLIENT_ID:
            return
        self._lines.append((seq, line))
        self._errors += len(line.errors)
        while len(self._lines) > self._max_lines or (self._errors > self._max_errors and len(self._lines) > 1):
            self._errors -= len(self._lines.popleft()[1].errors)

    def find(self, api: str | None, after_seq: int, most: int) -> list[tuple[int, LineT]]:
        """The lines of an API (None: of all) and their `seq`, which is above `after_seq`; the oldest first, at most
        `most`."""
        found: list[tuple[int, LineT]] = []
        for seq, line in self._lines:
            if seq > after_seq and api in (None, line.api):
                found.append((seq, line))
                if len(found) == most:
                    break
        return found

    @property
    def apis(self) -> set[str]:
        """The names of the APIs that were requested."""
        return {line.api for _, line in self._lines}
