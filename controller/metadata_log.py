"""What a metadata log promises. `controller.log` has two of them: in memory and in a data directory.

A controller is alone in its quorum: it leads from the first moment, and its log's end is the high watermark. The core
gets its log by argument and asks no more of it than stands here.
"""

from collections.abc import Iterator
from typing import Final, Protocol

from controller.outcome import Records
from protocol.record_batch import Batch
from protocol.uuid import Uuid

CONTROLLER_ID: Final = 3000
"""The node id of the one controller; brokers count from 1."""


class MetadataLog(Protocol):
    """Batches of records with growing offsets. After a failed append or sync it refuses everything (LogError)."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def directory_id(self) -> Uuid: ...

    @property
    def leader_epoch(self) -> int:
        """The epoch of this start; every batch appended carries it."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset that the next record will get."""
        ...

    @property
    def durable_offset(self) -> int:
        """Every record below this offset survives the end of the process."""
        ...

    def append(self, records: Records, timestamp_ms: int) -> tuple[int, int]:
        """Write the records as one batch; their first and last offset. Not durable before a `sync`."""
        ...

    def sync(self) -> None:
        """Make durable what was appended before this call. Blocks: call it off the event loop, one call at a time."""
        ...

    def read(self) -> Iterator[Batch]:
        """All batches that were there when iteration began, from the first offset on."""
        ...

    def close(self) -> None:
        """Let go of files and lock, without a last sync. What was closed refuses everything but another close."""
        ...
