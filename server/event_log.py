"""What the server has to say to its operator: structlog events on stderr, as a console line or as JSON.

structlog is imported by the first event, not by the start: it brings asyncio along, and rich where rich is installed
(together 50 ms and 5 MB that a server which has nothing to say does not need). Its global configuration stays as it
is: the process may not be ours. Nothing here writes to stdout.
"""

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, TextIO

import trio

LogFormat = Literal["console", "json"]

REPEAT_SECONDS = 1.0
"""A client can cause an event per request, so each kind of `*_rarely` event is written once in this time."""


class EventLog:
    """Where events go. The stream is stderr as it is at the first event, unless one is given."""

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
        """A warning that is left out when the same event was written within `REPEAT_SECONDS`, and then counted."""
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
        # The service outlives its reader: a closed pipe or a full disk behind stderr is no reason to stop.
        with suppress(OSError, ValueError, AttributeError):
            stream = self._stream or sys.stderr
            try:
                if self._logger is None:
                    self._logger = _make_logger(self._log_format, stream)
            except (ImportError, OSError):  # no files are left to import it with, and that is worth an event
                stream.write(json.dumps({"level": level, "event": event, **members}, default=repr) + "\n")
            else:
                getattr(self._logger, level)(event, **members)


def _make_logger(log_format: LogFormat, stream: TextIO) -> Any:
    with _hidden("rich"):
        import structlog

    plain = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback)
    )
    traces = [structlog.processors.format_exc_info] if log_format == "json" else []
    return structlog.wrap_logger(
        structlog.PrintLogger(stream),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *traces,
            plain,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        cache_logger_on_first_use=True,
    )


@contextmanager
def _hidden(name: str) -> Iterator[None]:
    """Let an optional import of `name` fail inside the block: None in `sys.modules` is Python's own sign for that."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
