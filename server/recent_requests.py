"""The newest requests of clients, in memory, for tests that ask what was requested. The lines are those of the request
log, whether or not there is a file.
"""

from collections import deque
from collections.abc import Sized
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from klamm.quick_dataclasses import dataclass
from klamm.server.bodies import Bodies
from klamm.server.limits import MIB

CONTROL_CLIENT_ID: Final = "klamm-control"
"""The client id of the control interface's own requests, which are not among those of clients."""
MAX_LINES: Final = 10_000
MAX_ERRORS: Final = 20_000
"""The errors of all lines together; the texts of one have at most 256 characters."""
MAX_BODY_BYTES: Final = 64 * MIB
"""The requests and answers of all lines together, as JSON, if they are kept."""


class Line(Protocol):
    """What is read of a line (`klamm.server.request_log.RequestLine`)."""

    @property
    def client_id(self) -> str | None: ...
    @property
    def api(self) -> str: ...
    @property
    def broker_id(self) -> int | None: ...
    @property
    def errors(self) -> Sized: ...
    @property
    def faults(self) -> tuple[str, ...]: ...
    @property
    def bodies(self) -> Bodies | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Which lines are wanted. None: any."""

    api: str | None = None
    client_id: str | None = None
    broker_id: int | None = None
    fault: str | None = None
    """The id of a fault rule that hit the request."""
    after_seq: int = -1

    def fits(self, seq: int, line: Line) -> bool:
        return (
            seq > self.after_seq
            and self.api in (None, line.api)
            and self.client_id in (None, line.client_id)
            and self.broker_id in (None, line.broker_id)
            and (self.fault is None or self.fault in line.faults)
        )


LineT = TypeVar("LineT", bound=Line)


class RecentRequests(Generic[LineT]):
    """The newest lines, at most `MAX_LINES` with `MAX_ERRORS` and `MAX_BODY_BYTES`."""

    def __init__(
        self, max_lines: int = MAX_LINES, max_errors: int = MAX_ERRORS, max_body_bytes: int = MAX_BODY_BYTES
    ) -> None:
        self._lines: deque[tuple[int, LineT]] = deque()
        self._errors = self._body_bytes = 0
        self._max_body_bytes = max_body_bytes
        self._max_lines = max_lines
        self._max_errors = max_errors

    def add(self, seq: int, line: LineT) -> None:
        """Add a line, and drop the oldest ones beyond the limits."""
        if line.client_id == CONTROL_CLIENT_ID:
            return
        self._lines.append((seq, line))
        self._errors += len(line.errors)
        self._body_bytes += 0 if line.bodies is None else line.bodies.size_bytes
        while len(self._lines) > 1 and self._is_full():
            _, oldest = self._lines.popleft()
            self._errors -= len(oldest.errors)
            self._body_bytes -= 0 if oldest.bodies is None else oldest.bodies.size_bytes

    def _is_full(self) -> bool:
        return (
            len(self._lines) > self._max_lines
            or self._errors > self._max_errors
            or self._body_bytes > self._max_body_bytes
        )

    def find(self, which: Which, most: int) -> list[tuple[int, LineT]]:
        """The lines that fit, with their `seq`; the oldest first, at most `most`."""
        found: list[tuple[int, LineT]] = []
        for seq, line in self._lines:
            if which.fits(seq, line):
                found.append((seq, line))
                if len(found) == most:
                    break
        return found

    def newest(self, after_seq: int, most: int, looked_at: int) -> list[tuple[int, LineT]]:
        """The newest lines behind `after_seq`, the oldest first: at most `most`, and as many again that have errors.
        Looks at no more than `looked_at` lines."""
        found: list[tuple[int, LineT]] = []
        left, errors_left = most, most
        for seq, line in islice(reversed(self._lines), looked_at):
            if seq <= after_seq:
                break
            if left > 0:
                left -= 1
                found.append((seq, line))
            elif line.errors and errors_left > 0:
                errors_left -= 1
                found.append((seq, line))
        return found[::-1]

    @property
    def apis(self) -> set[str]:
        """The names of the APIs that were requested."""
        return {line.api for _, line in self._lines}
