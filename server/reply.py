"""What the request path returns for a frame: a reply, or an object that will have it."""

from collections.abc import Callable
from typing import Protocol

from klamm.controller.calls import Encoded
from klamm.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reply:
    """An encoded answer without its size field. It may leave when the metadata log is durable up to `durable_at`, and
    so many `reservations` of offsets are."""

    payload: Encoded
    durable_at: int
    reservations: int = 0
    announced_bytes: int | None = None
    """The size that the client is announced, if a fault cuts the payload."""
    is_last: bool = False
    """Whether the connection ends behind this answer, because of a fault."""

    @property
    def size_bytes(self) -> int:
        """The size that precedes the answer on the connection."""
        return len(self.payload) if self.announced_bytes is None else self.announced_bytes


class Finishing(Protocol):
    """An object that will have a reply."""

    async def finish(self, hold: Callable[[int], None]) -> Reply | None:
        """Wait for the reply. `hold` is called with the bytes that the request takes beside its frame."""
        ...
