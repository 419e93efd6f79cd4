"""The interface of a metadata log. `klamm.controller.log` has two implementations: in memory and in a data directory.

The controller is the only voter of its quorum: it leads from its start, and the end of its log is the high watermark.
The core gets its log as an argument and uses only the methods below.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from klamm.controller.log_records import Records
from klamm.controller.metadata_log_reader import MetadataLogReader
from klamm.protocol.record_batch import Batch, BatchBuilder
from klamm.protocol.uuid import Uuid

CONTROLLER_ID: Final = 3000
"""The node id of the one controller; no broker has it."""


class Snapshot(NamedTuple):
    """A snapshot: it replaces every record below `end_offset`, and has `record_count` records of its own."""

    end_offset: int
    record_count: int


class SnapshotFailed(Exception):
    """No snapshot was written; the text is one clause for people. The log is unchanged and can still be used."""


class SnapshotPlace(Protocol):
    """The place where one snapshot of the log, up to `end_offset`, can be written."""

    @property
    def end_offset(self) -> int:
        """The end offset of the log when the snapshot began."""
        ...

    def write(self, batches: Iterable[Records], timestamp_ms: int) -> Snapshot:
        """Write the records of the snapshot, and delete log segments that are not needed any more. Blocks: call it off
        the event loop, when the log is durable up to `end_offset`, one call at a time. Raises SnapshotFailed."""
        ...


class MetadataLog(Protocol):
    """Batches of records with ascending offsets. After a failed append or sync every call raises LogError."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def directory_id(self) -> Uuid: ...

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of this start; every appended batch has it."""
        ...

    @property
    def is_quorum_dynamic(self) -> bool:
        """Whether the log has the records of a dynamic quorum: kraft.version 1 (KIP-853)."""
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
        """The snapshot that replaces the beginning of the log; None: the log has all of its records."""
        ...

    @property
    def is_snapshot_urgent(self) -> bool:
        """Whether the log is so large that a snapshot should replace its beginning at once."""
        ...

    def begin_snapshot(self, *, roll: bool) -> SnapshotPlace | None:
        """The place for a snapshot of everything that was appended so far. With `roll` later records go to a new
        segment, so that older segments can be deleted; without, only a later start needs the snapshot. None: there will
        be no later start."""
        ...

    def append_batch(self, batch: BatchBuilder, timestamp_ms: int) -> tuple[int, int]:
        """Write encoded records as one batch, and return their first and last offset. They are durable only after
        `sync`."""
        ...

    def make_quorum_dynamic(self, timestamp_ms: int) -> None:
        """Append the records of a dynamic quorum, unless it is dynamic already."""
        ...

    def sync(self) -> None:
        """Make durable what was appended before this call. Blocks: call it off the event loop, one call at a time."""
        ...

    def read(self) -> Iterator[Batch]:
        """All batches that existed when the iteration began, from the end of `snapshot`, or else from the beginning."""
        ...

    def read_snapshot(self) -> Iterator[Batch]:
        """The batches of `snapshot`, whose offsets begin with 0; none if there is no snapshot."""
        ...

    def reader(self) -> MetadataLogReader:
        """A reader of the durable part of this log as bytes. It also sees what becomes durable later."""
        ...

    def close(self) -> None:
        """Close files and release the lock, without a last sync. A closed log allows only further calls of close."""
        ...
