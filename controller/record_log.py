"""What the core asks of a log. `controller.log` has two: one in memory, one in a data directory."""

from collections.abc import Iterator
from typing import Protocol

from controller.outcome import Records
from protocol.record_batch import Batch


class RecordLog(Protocol):
    """An append-only log of metadata records."""

    @property
    def cluster_id(self) -> str:
        """The id of the cluster whose log this is."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record will get."""

    def append(self, records: Records, timestamp_ms: int) -> tuple[int, int]:
        """Append one batch; returns its first and last offset. Raises LogError."""

    def read(self) -> Iterator[Batch]:
        """All batches from the start, for replay."""
