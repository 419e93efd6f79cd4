"""The metadata log as bytes, for readers that keep a copy: real brokers, twins, a dashboard (decision 12).

A reader returns durable records only, so it never returns a record that a power failure can undo. It returns whole
batches, and bytes of snapshots as they are stored, and decodes no record.

The properties use memory only. The methods may read files: call them in a thread, or those of `on_event_loop`. Several
calls may run at a time, while the event loop appends and other threads sync and write snapshots.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class SnapshotId(NamedTuple):
    """The id of a snapshot, as in FetchSnapshot: it replaces every record below `end_offset`, and `epoch` is the leader
    epoch of the last one."""

    end_offset: int
    epoch: int


class EpochEnd(NamedTuple):
    """A leader epoch, and the offset after its last record."""

    epoch: int
    end_offset: int


class SnapshotPart(NamedTuple):
    """Some bytes of a snapshot, and the size of the whole snapshot in bytes."""

    data: bytes
    size_bytes: int


class OffsetNotInLog(Exception):
    """The offset is beyond the durable end, or below the start, where a snapshot replaces the log."""


class SnapshotNotFound(Exception):
    """The snapshot does not exist, or a newer one has replaced it."""


class PositionOutOfRange(Exception):
    """The snapshot has no byte at this position."""


class NeedsThread(Exception):
    """A reader for the event loop was asked for records, or for what is in a file."""


class MetadataLogReader(Protocol):
    """Reads a log while it grows."""

    def on_event_loop(self) -> "MetadataLogReader":
        """A reader of the same log for the event loop. Where this one would return records or read a file, that one
        raises NeedsThread; at the durable end there are no records."""
        ...

    @property
    def start_offset(self) -> int:
        """The first offset that can be read. It grows when a snapshot replaces the beginning of the log."""
        ...

    @property
    def end_offset(self) -> int:
        """Every record below this offset is durable and can be read. Kafka calls it the high watermark."""
        ...

    @property
    def snapshots(self) -> Sequence[SnapshotId]:
        """The snapshots that can be read, the newest last."""
        ...

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches, beginning with the one that contains `offset`, up to `max_bytes` or the durable end; the first
        batch whatever its size. Empty at the durable end. Raises OffsetNotInLog, and LogError if a file cannot be
        read."""
        ...

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch of the log that is not above `epoch`, and its end offset; if `epoch` is above all, the
        newest one and the durable end. If `epoch` is below all epochs that can be read, the offset where the oldest one
        begins.

        Apache Kafka finds with this where a follower's log diverged (KafkaMetadataLog.endOffsetForEpoch). Raises
        LogError."""
        ...

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> SnapshotPart:
        """Up to `max_bytes` of a snapshot from byte `position` on; they need not be whole batches. Raises
        SnapshotNotFound, PositionOutOfRange and LogError."""
        ...
