"""Where the newest batches of a copied log lie, so that one of them can be compared with the leader's.

The log of a leader that was made anew under the same cluster id can have the same epochs, and be as long as the copy:
only its bytes show that it is another one.
"""

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from klamm.controller.log.errors import os_errors_as_log_errors

MAX_KEPT: Final = 1_000
"""More batches than arrive between two times at which the high watermark is kept."""


@dataclass(frozen=True, slots=True)
class KeptBatch:
    """A batch in a file of the copy."""

    base_offset: int
    last_offset: int
    epoch_before: int
    """The leader epoch of the batch before it."""
    path: Path
    position: int
    size: int

    def content(self) -> bytes:
        """Its bytes. Raises LogError."""
        with os_errors_as_log_errors("read", self.path), self.path.open("rb") as file:
            file.seek(self.position)
            return file.read(self.size)


class NewestBatches:
    """The last batches of a log."""

    def __init__(self) -> None:
        self._kept: deque[KeptBatch] = deque(maxlen=MAX_KEPT)

    def note(self, batch: KeptBatch) -> None:
        """The log has grown by a batch."""
        self._kept.append(batch)

    def cut(self, offset: int) -> None:
        """The log has no batch that begins at `offset` or behind it any more."""
        while self._kept and self._kept[-1].base_offset >= offset:
            self._kept.pop()

    def last_below(self, offset: int) -> KeptBatch | None:
        """The last batch all of whose records are below an offset."""
        return next((batch for batch in reversed(self._kept) if batch.last_offset < offset), None)
