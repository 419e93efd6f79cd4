"""A blocking client socket with several requests in flight; an answer with an error code raises an exception.

Each conversation has its own client id, so that state that a server keeps by client id would grow.
"""

import socket
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias

from klamm.protocol.api import Api
from klamm.protocol.codec.frames import SIZE_BYTES, FrameBuffer, encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.fields import Message, wire_fields

TIMEOUT_SECONDS = 120.0
RECEIVE_BYTES = 256 * 1024
AT_ONCE = 32
LARGEST_ANSWER_BYTES = 1 << 30

Ask: TypeAlias = tuple[Api[Any, Any], Message]


class WrongAnswer(Exception):
    """A server gave a wrong answer; the text is a clause for people."""


class Conversation:
    """One connection; `count` is the number of answers."""

    def __init__(self, address: tuple[str, int], client_id: str) -> None:
        self.count = 0
        self._client_id = client_id
        self._socket = socket.create_connection(address, timeout=TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = FrameBuffer(LARGEST_ANSWER_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, api: Api[Any, Any], request: Message) -> Any:
        """Send one request. Returns its answer."""
        return self.ask_all([(api, request)])[0]

    def ask_all(self, asks: Sequence[Ask]) -> list[Any]:
        """The answers, in order. Raises WrongAnswer if one of them has an error."""
        answers = []
        for start in range(0, len(asks), AT_ONCE):
            some = asks[start : start + AT_ONCE]
            self._socket.sendall(b"".join(self._frame(number, *ask) for number, ask in enumerate(some)))
            for number, (api, _) in enumerate(some):
                correlation_id, answer = decode_response(api, api.latest_stable, self._receive())
                if correlation_id != number:
                    raise WrongAnswer(f"{api.name}: correlation id {correlation_id} instead of {number}")
                for code in _error_codes(answer):
                    raise WrongAnswer(f"{api.name}: error {code} in {str(answer)[:500]}")
                self.count += 1
                answers.append(answer)
        return answers

    def send(self, data: bytes) -> None:
        """Send bytes unchanged."""
        self._socket.sendall(data)

    def _frame(self, number: int, api: Api[Any, Any], request: Message) -> bytes:
        return encode_frame(encode_request(api, api.latest_stable, number, self._client_id, request))

    def _receive(self) -> bytes:
        while (frame := self._frames.next_frame()) is None:
            chunk = self._socket.recv(RECEIVE_BYTES)
            if not chunk:
                missing = "in the middle of one" if self._frames.buffered_bytes >= SIZE_BYTES else "instead of one"
                raise WrongAnswer(f"the server ended a connection that waits for an answer, {missing}")
            self._frames.feed(chunk)
        return frame


def _error_codes(value: Any) -> Iterator[int]:
    """Every `error_code` in an answer that is not 0."""
    if isinstance(value, Message):
        code = getattr(value, "error_code", 0)
        if code:
            yield code
        for wire in wire_fields(type(value)):
            yield from _error_codes(getattr(value, wire.name))
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        for item in value:
            yield from _error_codes(item)
