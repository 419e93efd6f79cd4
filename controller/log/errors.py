"""What goes wrong with a log: one line for people, naming the file. All of it is fatal for a server.

The operating system's errors become `LogError` here, at the border; nothing above sees an OSError of the log.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class LogError(Exception):
    """The log cannot be opened, written or made durable. The message is one line, fit for a terminal."""


class CorruptLog(LogError):
    """The log is not as it was written: which file, at which byte, and the offset that belongs there."""

    def __init__(self, path: Path, position: int, offset: int, reason: str) -> None:
        super().__init__(f"{path} is corrupt at byte {position}, where the batch of offset {offset} belongs: {reason}")
        self.path = path
        self.position = position
        self.offset = offset
        self.reason = reason


class CorruptSnapshot(LogError):
    """A snapshot is not as it was written: which file, and at which byte."""

    def __init__(self, path: Path, position: int, reason: str) -> None:
        super().__init__(f"snapshot {path} is damaged at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


@contextmanager
def os_errors_as_log_errors(action: str, path: Path) -> Iterator[None]:
    """Raise what the operating system refuses as `cannot {action} {path}: {why}`."""
    try:
        yield
    except OSError as error:
        raise LogError(f"cannot {action} {path}: {error.strerror or error}") from error
