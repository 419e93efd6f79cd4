"""The request log: a file with one line, a JSON object, for each answered request.

Members of a line, in this order (null if there is no value):

    v                        1: the version of this schema
    seq                      +1 from line to line, continued after a restart and across rotation; a gap means lines that
                             could not be written; lines lost in a crash leave no gap (see below)
    time                     when the whole request had arrived, by the controller's clock (ISO 8601, UTC)
    cluster_id               as in Metadata
    broker_id                the broker that received the request; null on the controller's listener
    listener                 "broker" or "controller"
    listener_name            the name of the listener, such as "PLAINTEXT"; null: the cluster itself
    principal                the client's principal, as in ACLs: "User:ANONYMOUS" on a plaintext connection; null: the
                             cluster itself, such as a topic made over the control interface
    client_id                from the request header; at most 256 characters, as the software's name and version
    client_software_name     from the last ApiVersions v3+ request on this connection (KIP-511)
    client_software_version
    api, api_key             Kafka's name and number
    api_version, correlation_id
    bytes_in, bytes_out      sizes of the whole frames, with the four bytes of their size field
    microseconds             from arrival until the answer could leave: all records that it depends on were durable
    throttle_time_ms         as in the response
    log_end_offset           of the metadata log, before the request
    record_offsets           [first, last] of the records that the request wrote, or null
    errors                   at most 1,000 of them, and 256 KiB, with texts of at most 256 characters:
                             [{topic_name, topic_id, partition_index, resource_type, resource_name, error_code,
                             error_message}], one for each error; all subjects null: the request as a whole
    faults                   the ids of the fault rules that hit the request, or null

Lines are in the order in which the controller handled the requests. A line is written when its answer may leave, at the
next tick (100 ms) or sooner, and is never synced. A process that is killed loses the lines since its last tick; a
machine that fails loses the lines that its system had not stored. The next start continues after the last whole line,
so such a loss leaves no gap in `seq`; the metadata log has all changes. A request whose connection is closed without an
answer has no line, and neither have the simulated brokers' own requests, which use no connection. The file is rotated
by size; FILE.1 is the newest of the old files.
"""

import fcntl
import json
import os
from collections import deque
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klamm.quick_dataclasses import dataclass
from klamm.server.bodies import NO_BODIES, Bodies
from klamm.server.event_log import EventLog
from klamm.server.limits import KIB, MIB
from klamm.server.recent_requests import RecentRequests
from klamm.server.request_counts import RequestCounts
from klamm.server.response_errors import ResponseError

if TYPE_CHECKING:  # a server without a request topic does not need it
    from klamm.server.request_topic import RequestTopic

SCHEMA_VERSION = 1
MAX_FILE_BYTES = 64 * MIB
OLD_FILES = 5
MAX_WAITING_LINES = 256
"""Finished lines are kept for the next tick. When there are this many, they are written at once."""
MAX_WAITING_ERRORS = 1_000
"""The same limit for the errors in finished lines."""
PIECE_BYTES = 1 * MIB
"""Lines are encoded and written in pieces of about this size."""
_LINE_START = b'{"v":'
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RequestLogError(Exception):
    """The file cannot be used as a request log. The text is one clause for users."""


@dataclass(slots=True)
class RequestLine:
    """One line without its `seq`. The answer may leave when the metadata log is durable up to `durable_at`;
    `microseconds`, counted from `started` (seconds), is set then."""

    arrived_ms: int
    broker_id: int | None
    listener: str
    principal: str | None
    client_id: str | None
    client_software_name: str | None
    client_software_version: str | None
    api: str
    api_key: int
    api_version: int
    correlation_id: int
    bytes_in: int
    bytes_out: int
    throttle_time_ms: int
    log_end_offset: int
    record_offsets: tuple[int, int] | None
    errors: list[ResponseError]
    started: float
    durable_at: int
    microseconds: int = 0
    faults: tuple[str, ...] = ()
    """The fault rules that hit the request."""
    bodies: Bodies | None = None
    """Request and answer, for the journal alone."""
    listener_name: str | None = None
    """The name of the listener that the client connected to; None: the cluster itself."""
    is_of_topic: bool = False
    """Whether the request reads or writes the request topic, which then has no record about it."""


class RequestLog:
    """An open request log. Only opening raises. If a write fails later, its lines are lost and a warning is logged.

    With `recent`, the newest lines are also kept there; without a path they are kept there alone.
    """

    def __init__(
        self,
        path: Path | None,
        cluster_id: str,
        events: EventLog,
        *,
        max_file_bytes: int = MAX_FILE_BYTES,
        old_files: int = OLD_FILES,
        recent: RecentRequests[RequestLine] | None = None,
        counts: RequestCounts | None = None,
        topic: "RequestTopic | None" = None,
        keeps_bodies: bool = False,
        measures_time: bool = True,
    ) -> None:
        """`keeps_bodies`: whether lines in `recent` have requests and answers. Without `measures_time` the duration of
        every request is 0, so that equal requests make equal lines."""
        self.recent = recent
        self.counts = counts
        """Counts the lines; None: they are not counted."""
        self.topic = topic
        """Takes the lines as records, too; None: there is no such topic."""
        self.keeps_bodies = keeps_bodies and recent is not None
        self._measures_time = measures_time
        self._has_file = path is not None
        self._path = path or Path(os.devnull)
        self._cluster_id = cluster_id
        self._events = events
        self._max_file_bytes = max_file_bytes
        self._old_files = old_files
        self._waiting_for_disk: deque[RequestLine] = deque()
        self._finished: list[RequestLine] = []
        self._finished_errors = 0
        self._failing = False
        if path is None:
            self._file, self._size, self._next_seq = -1, 0, 0
            return
        try:
            self._file, self._size, self._next_seq = _open_at_end(path)
        except OSError as error:
            raise RequestLogError(f"request log {path}: {error.strerror or error}") from error

    def append(self, line: RequestLine) -> None:
        """Add a line; its answer may still wait for the disk."""
        self._waiting_for_disk.append(line)

    @property
    def has_lines(self) -> bool:
        """Whether lines have not been written yet."""
        topic_waits = self.topic is not None and self.topic.has_lines
        return bool(self._waiting_for_disk or self._finished) or topic_waits

    def release(self, durable_offset: int, now: float) -> None:
        """Finish the lines whose answers may leave at `durable_offset`. `now` is on the same clock as `started`."""
        waiting = self._waiting_for_disk
        while waiting and waiting[0].durable_at <= durable_offset:
            line = waiting.popleft()
            if self._measures_time:
                line.microseconds = max(0, round((now - line.started) * 1_000_000))
            self._finished.append(line)
            self._finished_errors += len(line.errors)
            if len(self._finished) >= MAX_WAITING_LINES or self._finished_errors >= MAX_WAITING_ERRORS:
                self.flush()

    def flush(self) -> None:
        """Write every finished line."""
        if not self._finished:
            return
        lines, self._finished, self._finished_errors = self._finished, [], 0
        piece = bytearray()
        for line in lines:
            piece += self._pass_on(line)
            self._next_seq += 1
            if len(piece) >= PIECE_BYTES:
                self._write_or_warn(bytes(piece))
                piece.clear()
        if piece:
            self._write_or_warn(bytes(piece))

    def _pass_on(self, line: RequestLine) -> bytes:
        """Give a line to everything that takes lines. Returns its bytes for the file."""
        if self.recent is not None:
            self.recent.add(self._next_seq, line)
        if self.counts is not None:
            self.counts.add(line)
        topic = None if line.is_of_topic else self.topic
        if topic is None and not self._has_file:
            return b""
        encoded = json.dumps(self.members_of(line, self._next_seq), separators=(",", ":")).encode()
        if topic is not None:
            topic.add(encoded)
        return encoded + b"\n" if self._has_file else b""

    def flush_to_topic(self) -> bool:
        """Write every finished line, also to the topic. Returns whether the topic has got records."""
        self.flush()
        return self.topic is not None and self.topic.write()

    def _write_or_warn(self, encoded: bytes) -> None:
        try:
            self._write(encoded)
        except OSError as error:
            if not self._failing:
                self._failing = True
                self._events.warning(
                    "the request log cannot be written; its lines are lost until it can",
                    path=str(self._path),
                    reason=str(error),
                )
        else:
            self._failing = False

    def close(self) -> None:
        self.flush()
        if self._has_file:
            os.close(self._file)

    def members_of(self, line: RequestLine, seq: int) -> dict[str, Any]:
        """The members of a line, in their order."""
        return {
            "v": SCHEMA_VERSION,
            "seq": seq,
            "time": (_EPOCH + timedelta(milliseconds=line.arrived_ms)).isoformat(timespec="milliseconds"),
            "cluster_id": self._cluster_id,
            "broker_id": line.broker_id,
            "listener": line.listener,
            "listener_name": line.listener_name,
            "principal": line.principal,
            "client_id": line.client_id,
            "client_software_name": line.client_software_name,
            "client_software_version": line.client_software_version,
            "api": line.api,
            "api_key": line.api_key,
            "api_version": line.api_version,
            "correlation_id": line.correlation_id,
            "bytes_in": line.bytes_in,
            "bytes_out": line.bytes_out,
            "microseconds": line.microseconds,
            "throttle_time_ms": line.throttle_time_ms,
            "log_end_offset": line.log_end_offset,
            "record_offsets": line.record_offsets,
            "errors": line.errors,
            "faults": list(line.faults) or None,
        }

    def journal_members_of(self, line: RequestLine, seq: int) -> dict[str, Any]:
        """The members of a line and, if they are kept, request and answer as JSON."""
        members = self.members_of(line, seq)
        if self.keeps_bodies:
            members |= line.bodies.members() if line.bodies is not None else NO_BODIES
        return members

    def _write(self, encoded: bytes) -> None:
        if self._size and self._size + len(encoded) > self._max_file_bytes:
            self._rotate()
        written = 0
        try:
            while written < len(encoded):
                written += os.write(self._file, encoded[written:])
        except OSError:
            # The disk became full in the middle of a write: remove the part of a line.
            os.ftruncate(self._file, self._size)
            raise
        self._size += written

    def _rotate(self) -> None:
        coming = self._path.with_name(f"{self._path.name}.new")
        fresh = _open_file(coming)  # first, so that no old file is lost if a new one cannot be created
        for number in range(self._old_files - 1, -1, -1):
            if (newer := self._numbered(number)).exists():
                newer.replace(self._numbered(number + 1))
        coming.replace(self._path)
        os.close(self._file)
        self._file, self._size = fresh, 0

    def _numbered(self, number: int) -> Path:
        return _numbered(self._path, number)


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


def _open_file(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # two writers would use each seq twice
    except BlockingIOError:
        os.close(file)
        raise RequestLogError(f"{path} is in use by another process") from None
    return file


def _open_at_end(path: Path) -> tuple[int, int, int]:
    """Open the file and cut off an incomplete last line. Returns the file, its size and the next `seq`."""
    file = _open_file(path)
    try:
        size, last = _last_line(file, path)
        os.ftruncate(file, size)
        if last is None and _numbered(path, 1).exists():  # the process ended between rotation and the first line
            with _numbered(path, 1).open("rb") as rotated:
                _, last = _last_line(rotated.fileno(), _numbered(path, 1))
    except BaseException:
        os.close(file)
        raise
    return file, size, 0 if last is None else last + 1


def _last_line(file: int, path: Path) -> tuple[int, int | None]:
    """The position at which the last complete line ends, and its `seq`; None if the file has no complete line."""
    start, tail = _tail(file)
    complete = tail.rfind(b"\n") + 1
    if not complete:
        # Only an incomplete line of a request log may be cut off. Any other file is not Klamm's.
        if tail.strip(b"\0") and not tail.startswith(_LINE_START[: len(tail)]):
            raise RequestLogError(f"{path} is no request log, and will not be overwritten")
        return start, None
    try:
        seq = json.loads(tail[tail.rfind(b"\n", 0, complete - 1) + 1 : complete])["seq"]
    except (ValueError, KeyError, TypeError):
        seq = None
    if not isinstance(seq, int):
        raise RequestLogError(f"{path} is no request log: its last line has no seq")
    return start + complete, seq


def _tail(file: int) -> tuple[int, bytes]:
    """The position and the bytes of the end of the file, which contains the whole last complete line."""
    end = os.lseek(file, 0, os.SEEK_END)
    length = 64 * KIB
    while True:
        start = max(0, end - length)
        tail = os.pread(file, end - start, start)
        if start == 0 or tail.count(b"\n") >= 2:
            return start, tail
        length *= 8
