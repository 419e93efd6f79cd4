"""What a metadata log promises. `klamm.controller.log` has two of them: in memory and in a data directory.

A controller is alone in its quorum: it leads from the first moment, and its log's end is the high watermark. The core
gets its log by argument and asks no more of it than stands here.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from klamm.controller.log_records import Records
from klamm.controller.metadata_log_reader import MetadataLogReader
from klamm.protocol.record_batch import Batch, BatchBuilder
from klamm.protocol.uuid import Uuid

CONTROLLER_ID: Final = 3000
"""The node id of the one controller; brokers count from 1."""


class Snapshot(NamedTuple):
    """What stands for every record below `end_offset`, in `record_count` records of its own."""

    end_offset: int
    record_count: int


class SnapshotFailed(Exception):
    """No snapshot was taken; the text is one clause for people. The log goes on as it was."""


class SnapshotPlace(Protocol):
    """Where a snapshot of all that was in the log at one moment can be written."""

    @property
    def end_offset(self) -> int:
        """Of that moment."""
        ...

    def write(self, batches: Iterable[Records], timestamp_ms: int) -> Snapshot:
        """Write the records that say all that the log said, and drop what is needed no longer. Blocks: call it off the
        event loop, when the log is durable up to `end_offset`, one at a time. Raises SnapshotFailed."""
        ...


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

    @property
    def snapshot(self) -> Snapshot | None:
        """What stands for the beginning of the log; None: nothing does, the log has all of it."""
        ...

    def begin_snapshot(self, *, roll: bool) -> SnapshotPlace | None:
        """The place for a snapshot of all that was appended so far; None: this log keeps none. With `roll` whatever
        follows goes to a new segment, so that what is before it can be dropped some day."""
        ...

    def append(self, records: Records, timestamp_ms: int) -> tuple[int, int]:
        """Write the records as one batch; their first and last offset. Not durable before a `sync`."""
        ...

    def append_batch(self, batch: BatchBuilder, timestamp_ms: int) -> tuple[int, int]:
        """The same for records that have been encoded already."""
        ...

    def sync(self) -> None:
        """Make durable what was appended before this call. Blocks: call it off the event loop, one call at a time."""
        ...

    def read(self) -> Iterator[Batch]:
        """All batches that were there when iteration began, from the end of `snapshot` on, or from the beginning."""
        ...

    def read_snapshot(self) -> Iterator[Batch]:
        """The batches of `snapshot`, with offsets of their own; none if there is none."""
        ...

    def reader(self) -> MetadataLogReader:
        """What shows the durable part of this log as bytes, now and later."""
        ...

    def close(self) -> None:
        """Let go of files and lock, without a last sync. What was closed refuses everything but another close."""
        ...
