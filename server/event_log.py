"""Events for the operator of the server: structlog events on stderr, as console lines or as JSON.

structlog is imported by the first event and not at the start, because it imports asyncio, and rich if rich is installed
(together 50 ms and 5 MB). Its global configuration is not changed, because the server may run in another application's
process. Nothing here writes to stdout.
"""

import json
import math
import os
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from io import StringIO
from typing import Any, Literal, TextIO

import trio

from klamm.protocol.printable import printable

LogFormat = Literal["console", "json"]

REPEAT_SECONDS = 1.0
"""The least time between two `*_rarely` events of one kind, because a client can cause an event with every request."""


class EventLog:
    """Writes events to `stream`. If none is given, that is `sys.stderr` at the first event."""

    def __init__(self, log_format: LogFormat = "console", stream: TextIO | None = None) -> None:
        self._log_format = log_format
        self._stream = stream
        self._logger: Any = None
        self._quiet_until: dict[str, float] = {}
        self._suppressed: dict[str, int] = {}

    def info(self, event: str, **members: Any) -> None:
        self._write("info", event, members)

    def warning(self, event: str, **members: Any) -> None:
        self._write("warning", event, members)

    def exception(self, event: str, error: BaseException, **members: Any) -> None:
        """An event with the traceback of `error`."""
        self._write("error", event, {**members, "exc_info": error})

    def warning_rarely(self, event: str, **members: Any) -> None:
        """A warning that is omitted, and counted, if the same event was written less than `REPEAT_SECONDS` ago."""
        if self._is_due(event):
            self._write("warning", event, members)

    def exception_rarely(self, event: str, error: BaseException, **members: Any) -> None:
        """As `warning_rarely`, with the traceback of `error`."""
        if self._is_due(event):
            self._write("error", event, {**members, "exc_info": error})

    def _is_due(self, event: str) -> bool:
        now = trio.current_time()
        if now < self._quiet_until.get(event, -math.inf):
            self._suppressed[event] = self._suppressed.get(event, 0) + 1
            return False
        self._quiet_until[event] = now + REPEAT_SECONDS
        return True

    def _write(self, level: str, event: str, members: dict[str, Any]) -> None:
        if suppressed := self._suppressed.pop(event, 0):
            members = {**members, "suppressed": suppressed}
        # The server must not stop because stderr is a closed pipe or because its disk is full.
        with suppress(OSError, ValueError, AttributeError):
            stream = self._stream or sys.stderr
            try:
                if self._logger is None:
                    self._logger = _make_logger(self._log_format, stream)
            except (ImportError, OSError):  # too few free file descriptors to import structlog: write the event without
                stream.write(json.dumps({"level": level, "event": event, **members}, default=repr) + "\n")
            else:
                getattr(self._logger, level)(event, **members)


def _make_logger(log_format: LogFormat, stream: TextIO) -> Any:
    with _hidden("rich"):
        import structlog

    def write_traceback(to: TextIO, exc_info: Any) -> None:
        written = StringIO()
        structlog.dev.plain_traceback(written, exc_info)
        to.write("\n".join(printable(line) for line in written.getvalue().split("\n")))

    plain = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=_has_colours(stream), exception_formatter=write_traceback)
    )
    traces = [structlog.processors.format_exc_info] if log_format == "json" else []
    return structlog.wrap_logger(
        structlog.PrintLogger(stream),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *traces,
            *([] if log_format == "json" else [_escape]),
            plain,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        cache_logger_on_first_use=True,
    )


def _has_colours(stream: TextIO) -> bool:
    """Whether the stream is a terminal that shows colours, and the variable NO_COLOR is not set (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _escape(_logger: Any, _level: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Texts of clients must not reach a terminal as they are. Values of other types are shown as Python shows them, and
    in JSON they are ASCII."""
    return {name: printable(value) if isinstance(value, str) else value for name, value in event.items()}


@contextmanager
def _hidden(name: str) -> Iterator[None]:
    """Let imports of `name` fail inside the block. None in `sys.modules` makes Python raise ImportError."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
