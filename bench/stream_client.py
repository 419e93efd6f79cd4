"""A connection with several requests on their way: whenever an answer comes in, the next request goes out.

To be driven by a selector; the socket is blocking, since what is on the way always fits the kernel's buffers.
"""

import socket
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from bench.raw_client import TIMEOUT_SECONDS, Refused
from klamm.protocol.codec.frames import FrameBuffer

RECEIVE_BYTES = 64 * 1024
MAX_FRAME_BYTES = 1024 * 1024


class StreamClient:
    """Sends `frames`, never more than `depth` of them unanswered."""

    def __init__(self, address: tuple[str, int], frames: Sequence[bytes], depth: int) -> None:
        self.socket = socket.create_connection(address, timeout=TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers: list[bytes] = []
        self._frames = frames
        self._depth = depth
        self._sent = 0
        self._buffer = FrameBuffer(MAX_FRAME_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()

    def start(self) -> None:
        """Send as many frames as may be in flight."""
        self._send(self._depth)

    def receive(self) -> bool:
        """Read the answers that have arrived, send the same number of frames. Returns True when everything is
        answered."""
        received = self.socket.recv(RECEIVE_BYTES)
        if not received:
            raise Refused("the server closed the connection")
        self._buffer.feed(received)
        before = len(self.answers)
        while (frame := self._buffer.next_frame()) is not None:
            self.answers.append(frame)
        self._send(len(self.answers) - before)
        return len(self.answers) == len(self._frames)

    def _send(self, count: int) -> None:
        going = self._frames[self._sent : self._sent + count]
        if going:
            self.socket.sendall(b"".join(going))
            self._sent += len(going)
