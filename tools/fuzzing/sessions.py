"""Sessions of clients with a server: the bytes sent on a few connections, in order, and the check of the answers.

Every connection ends with the client's end of file or with a reset. Each request before that has one answer, in order;
after the first bytes that are not a served request there is no answer.
"""

import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from klamm.broker.dispatch import SERVED
from klamm.broker.handlers.batches_written import ACKS_OF_NONE
from klamm.controller.dispatch import is_readable
from klamm.protocol import (
    Api,
    ErrorCode,
    FrameBuffer,
    ProtocolError,
    UnsupportedVersion,
    decode_request,
    decode_response,
    load_api,
)
from klamm.protocol.api import Listener
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.data import produce
from klamm.protocol.messages.data.fetch import FetchRequest
from klamm.protocol.messages.data.produce import ProduceRequest
from klamm.protocol.messages.topics import describe_topic_partitions, metadata
from klamm.server.response_errors import collect_errors
from tools.fuzzing.broken import Broken

DEADLINE_SECONDS: Final = 60.0
"""Seconds in which any step is complete, on a machine with any load."""
PATIENCE_SECONDS: Final = 0.3
"""Seconds for a client that asked to wait for long; then it leaves."""
SHORT_WAIT_MS: Final = 1000
MAX_FRAME_BYTES: Final = 100 << 20
_REFUSES_SO = (metadata.API, describe_topic_partitions.API, produce.API)
"""APIs that answer UNKNOWN_SERVER_ERROR where Apache Kafka does: there it is no bug."""

Addresses = Mapping[Listener, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Step:
    """Bytes sent on a connection, which the first step opens; None: it is reset."""

    connection: int
    listener: Listener
    sent: bytes | None


Session = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected answer."""

    api: Api[Any, Any]
    version: int
    correlation_id: int


def session_to_line(session: Session, found: str) -> dict[str, Any]:
    """The session as an object of JSON, with the finding."""
    steps = [
        {"connection": step.connection, "to": step.listener, "send": None if step.sent is None else step.sent.hex()}
        for step in session
    ]
    return {"found": found, "steps": steps}


def session_of_line(line: dict[str, Any]) -> Session:
    return tuple(
        Step(step["connection"], step["to"], None if step["send"] is None else bytes.fromhex(step["send"]))
        for step in line["steps"]
    )


class Talk:
    """The client's side of a connection."""

    def __init__(self, listener: Listener, address: tuple[str, int]) -> None:
        self.listener = listener
        self.sent = bytearray()
        self._socket = socket.create_connection(address, timeout=DEADLINE_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = FrameBuffer(1 << 30)

    def send(self, data: bytes) -> None:
        """Send bytes; does nothing if the server has closed the connection."""
        self.sent += data
        try:
            self._socket.sendall(data)
        except ConnectionError:
            pass
        except TimeoutError:
            raise Broken("the server does not read on", f"{len(self.sent)} bytes sent") from None

    def reset(self) -> None:
        """Reset the connection, and wait until the server has noticed."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def close(self) -> None:
        self._socket.close()

    def receive(self) -> bytes | None:
        """The next answer; None if the server has closed the connection. Raises TimeoutError, ConnectionError."""
        while (frame := self._buffer.next_frame()) is None:
            chunk = self._socket.recv(1 << 16)
            if not chunk:
                if self._buffer.buffered_bytes:
                    raise Broken("the server closed in the middle of an answer")
                return None
            self._buffer.feed(chunk)
        return frame

    def finish(self) -> None:
        """End the sending side, and read all answers. Raises Broken if they are wrong or take too long."""
        expected, waits, is_whole = expectations(bytes(self.sent), self.listener)
        answers, was_reset, deadline = (
            list[bytes](),
            False,
            monotonic() + (PATIENCE_SECONDS if waits else DEADLINE_SECONDS),
        )
        try:
            self._socket.shutdown(socket.SHUT_WR)
            while True:
                self._socket.settimeout(max(0.01, deadline - monotonic()))
                if (answer := self.receive()) is None:
                    break
                answers.append(answer)
        except TimeoutError:
            if not waits:
                raise Broken(
                    "neither an answer nor an end", f"after {len(answers)} of {len(expected)} answers"
                ) from None
            was_reset = True
        except OSError:
            was_reset = True
        judge(answers, expected, may_lack=was_reset or waits or not is_whole)


def expectations(sent: bytes, listener: Listener) -> tuple[list[Expected], bool, bool]:
    """The expected answers to these bytes; whether a request asks to wait for long; and whether all requests are served
    ones."""
    buffer, expected, waits = FrameBuffer(MAX_FRAME_BYTES), list[Expected](), False
    buffer.feed(sent)
    try:
        while (frame := buffer.next_frame()) is not None:
            try:
                header, body = decode_request(frame)
            except UnsupportedVersion as error:
                expected.append(Expected(api_versions.API, 0, error.correlation_id))
                continue
            api, version = load_api(header.request_api_key), header.request_api_version
            assert api is not None
            served = SERVED.tables[listener].get(api.key)
            if served is None or version not in served.answered or not is_readable(api, body):
                return expected, waits, False
            if isinstance(body, ProduceRequest):
                waits |= body.timeout_ms > SHORT_WAIT_MS
                if body.acks == ACKS_OF_NONE:
                    waits = True  # The end of the connection is the refusal.
                    continue
            waits |= isinstance(body, FetchRequest) and body.max_wait_ms > SHORT_WAIT_MS
            expected.append(Expected(api, version, header.correlation_id))
    except ProtocolError:
        return expected, waits, False
    except Exception as error:
        raise Broken(f"the codec fails with {type(error).__name__}", str(error)) from error
    return expected, waits, True


def judge(answers: Sequence[bytes], expected: Sequence[Expected], *, may_lack: bool) -> None:
    """Raises Broken if these are not the expected answers."""
    for answer, one in zip(answers, expected, strict=False):
        name = f"{one.api.name} v{one.version}"
        try:
            correlation_id, body = decode_response(one.api, one.version, answer)
        except ProtocolError as error:
            raise Broken(f"the answer of {one.api.name} cannot be read", f"{name}: {error}") from error
        if correlation_id != one.correlation_id:
            raise Broken("an answer to something else", f"{name}: id {correlation_id}, not {one.correlation_id}")
        codes = {error["error_code"] for error in collect_errors(body)}
        if ErrorCode.UNKNOWN_SERVER_ERROR in codes and one.api not in _REFUSES_SO:
            raise Broken(f"bug: {one.api.name} failed", "as its answer says")
    if len(answers) > len(expected):
        raise Broken("more answers than requests", f"{len(answers)}, not {len(expected)}")
    if len(answers) < len(expected) and not may_lack:
        raise Broken("a request without an answer", str(expected[len(answers)]))


def play(session: Session, addresses: Addresses) -> None:
    """Play all steps, then end every connection. Raises Broken if the server's answers, or missing ones, are wrong."""
    talks: dict[int, Talk] = {}
    try:
        for step in session:
            talk = talks.get(step.connection)
            if talk is None:
                talk = talks[step.connection] = Talk(step.listener, addresses[step.listener])
            if step.sent is None:
                talk.reset()
                del talks[step.connection]
            else:
                talk.send(step.sent)
        for talk in talks.values():
            talk.finish()
    finally:
        for talk in talks.values():
            talk.close()
