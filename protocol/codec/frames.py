"""Splits the bytes of a connection into frames: a size of four bytes, then that many bytes."""

from klamm.protocol.errors import ProtocolError

SIZE_BYTES = 4


class FrameBuffer:
    """Collects received bytes. It holds at most one incomplete frame and the bytes of the last call of `feed`."""

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._received = bytearray()
        self._start = 0

    @property
    def buffered_bytes(self) -> int:
        """Bytes received and not yet returned in frames."""
        return len(self._received) - self._start

    def feed(self, received: bytes) -> None:
        """Add received bytes, in the order of their arrival."""
        if self._start:
            del self._received[: self._start]
            self._start = 0
        self._received += received

    def next_frame(self) -> bytes | None:
        """The next whole frame without its size; None if more bytes are needed.

        Raises ProtocolError for a size that is negative or too large. The connection is unusable then.
        """
        body = self._start + SIZE_BYTES
        if len(self._received) < body:
            return None
        size = int.from_bytes(self._received[self._start : body], "big", signed=True)
        if size < 0:
            raise ProtocolError(f"frame of {size} bytes", offset=0, path="size")
        if size > self.max_frame_bytes:
            raise ProtocolError(f"frame of {size} bytes exceeds {self.max_frame_bytes}", offset=0, path="size")
        end = body + size
        if len(self._received) < end:
            return None
        frame = bytes(memoryview(self._received)[body:end])
        self._start = end
        return frame


def encode_frame(payload: bytes | bytearray) -> bytes:
    """The payload, preceded by its size in four bytes."""
    return len(payload).to_bytes(SIZE_BYTES, "big") + payload
