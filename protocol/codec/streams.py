"""The streams for reading and writing bytes, with the methods that construct's types need."""

from klamm.protocol.errors import ProtocolError


class Cursor:
    """Bytes and a position in them. It has `read`, so construct's own types can parse from it, too."""

    __slots__ = ("data", "pos")

    def __init__(self, data: bytes, pos: int = 0) -> None:
        self.data = data
        self.pos = pos

    def read(self, size: int = -1) -> bytes:
        end = len(self.data) if size < 0 else min(self.pos + size, len(self.data))
        start, self.pos = self.pos, end
        return self.data[start:end]

    def tell(self) -> int:
        return self.pos

    def remaining(self) -> int:
        return len(self.data) - self.pos

    def take(self, size: int, path: str) -> bytes:
        """Exactly `size` bytes. Raises ProtocolError if fewer are left."""
        if size > self.remaining():
            raise ProtocolError(f"{size} bytes wanted, {self.remaining()} left", offset=self.pos, path=path)
        return self.read(size)


class Buffer(bytearray):
    """Bytes to which encoders append. It has `write`, so construct's own types can build into it, too."""

    __slots__ = ()

    def write(self, content: bytes) -> int:
        self += content
        return len(content)
