"""The metadata log as bytes, for those who keep a copy of it: real brokers, twins, a dashboard (decision 12).

A reader shows what is durable, and nothing else: a record that a loss of power could take back is in no answer. It
gives whole batches and bytes of snapshots as they are stored, and decodes no record.

The properties answer from memory. The methods may read files: call them in a thread, where several may run at a time,
while the event loop appends and other threads sync and write snapshots.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class SnapshotId(NamedTuple):
    """A snapshot, as FetchSnapshot names it: it stands for every record below `end_offset`, and `epoch` is the leader
    epoch of the last one."""

    end_offset: int
    epoch: int


class EpochEnd(NamedTuple):
    """A leader epoch, and the offset behind its last record."""

    epoch: int
    end_offset: int


class SnapshotPart(NamedTuple):
    """Some bytes of a snapshot, and the size of all of it in bytes."""

    data: bytes
    size_bytes: int


class OffsetNotInLog(Exception):
    """The log has no such offset: it is beyond the durable end, or below the start, where a snapshot stands for it."""


class SnapshotNotFound(Exception):
    """There is no such snapshot, or no longer: a newer one has taken its place."""


class PositionOutOfRange(Exception):
    """The snapshot is there and has no byte at this position."""


class MetadataLogReader(Protocol):
    """Reads a log that goes on growing."""

    @property
    def start_offset(self) -> int:
        """The first offset that can be read. It grows when a snapshot lets the log's beginning go."""
        ...

    @property
    def end_offset(self) -> int:
        """Every record below this offset is durable, and can be read. What Kafka calls the high watermark."""
        ...

    @property
    def snapshots(self) -> Sequence[SnapshotId]:
        """The snapshots that can be read, the newest last."""
        ...

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `offset` on, up to `max_bytes` or the durable end; the first one
        whatever its size. Nothing at the durable end. Raises OffsetNotInLog, and LogError if a file cannot be read."""
        ...

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch of the log that is not above `epoch`, and where it ends; for one above all, the newest
        epoch and the durable end. Of an epoch below all that can be read, the offset where the oldest one begins.

        So Apache Kafka finds where a follower's log diverged (KafkaMetadataLog.endOffsetForEpoch). Raises LogError."""
        ...

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> SnapshotPart:
        """Up to `max_bytes` of a snapshot from byte `position` on; they need not be whole batches. Raises
        SnapshotNotFound, PositionOutOfRange and LogError."""
        ...
