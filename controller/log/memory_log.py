"""The log of a controller without a data directory: the same batches, byte for byte, in lists.

An appended batch cannot become more durable, so `durable_offset` is always `end_offset`. A snapshot replaces the
beginning of the log, so that the log takes memory in proportion to the metadata, not to the history. The newest one
stays, for readers that are behind.

The event loop appends: only it changes `_parts`. One worker thread at a time writes a snapshot: only it changes
`newest_snapshot`. The event loop drops what the snapshot replaces at its next append. Readers may run in any thread.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from klamm.controller.log.batch_index import BatchIndex, Extent
from klamm.controller.log.epoch import encode_leader_change
from klamm.controller.log.errors import LogError
from klamm.controller.log.memory_reader import MemoryReader
from klamm.controller.log.past import MemorySnapshot, Past
from klamm.controller.log.quorum import STATIC_QUORUM, Quorum, QuorumPlan
from klamm.controller.log.snapshot_files import SnapshotContent, encode_snapshot
from klamm.controller.log_records import Records
from klamm.controller.metadata_log import Snapshot, SnapshotFailed
from klamm.controller.metadata_log_reader import SnapshotId
from klamm.protocol.record_batch import (
    Batch,
    BatchBuilder,
    CorruptBatch,
    decode_batch,
    decode_batch_header,
    decode_batches,
    encode_control_batch,
)
from klamm.protocol.uuid import Uuid

MAX_MEMORY_LOG_BYTES: Final = 2 << 30
"""The most bytes behind the newest snapshot; an append beyond it is refused, which ends the server."""
SNAPSHOT_SHARE: Final = 8
"""A snapshot is urgent when the log has reached this part of its limit, 256 MiB, however few records it has."""


@contextmanager
def _readable() -> Iterator[None]:
    """Raises LogError for a record of a kind or version that Klamm does not know: a copy is read without a look at its
    records."""
    try:
        yield
    except CorruptBatch as error:
        raise LogError(f"the metadata log cannot be read: {error.reason}") from error


class MemoryPart:
    """Consecutive batches of the log."""

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.index = BatchIndex()
        """The positions that the batches would have in a file of their own."""
        self.batches: list[bytes] = []
        self.size_bytes = 0

    def append(self, batch: bytes) -> None:
        """Add a batch behind the others."""
        self.size_bytes += len(batch)
        self.batches.append(batch)
        self.index.append(decode_batch_header(batch, 0), self.size_bytes)

    def read(self, found: Extent) -> bytes:
        """The bytes of those batches."""
        return b"".join(self.batches[found.first : found.stop])


class MemoryLog:
    """A `MetadataLog` that lives as long as its process. Each one is epoch 1 of a cluster of its own."""

    def __init__(
        self,
        cluster_id: str,
        directory_id: Uuid,
        timestamp_ms: int,
        *,
        max_log_bytes: int = MAX_MEMORY_LOG_BYTES,
        keep_history: bool = False,
        quorum: QuorumPlan = STATIC_QUORUM,
        past: Past | None = None,
    ) -> None:
        """With `keep_history`, snapshots do not replace the beginning of the log. `past`: the log goes on from there,
        in the next epoch; None: it begins empty."""
        self.cluster_id = cluster_id
        self.directory_id = directory_id
        self.leader_epoch = 1 if past is None else past.leader_epoch + 1
        self.newest_snapshot: MemorySnapshot | None = None if past is None else past.snapshot
        """Set by the thread that writes a snapshot."""
        self.past_end = None if past is None else (past.end_offset, past.last_timestamp_ms)
        """The end of the copy that the log goes on from, and the time of its last record. None: it began empty."""
        self._max_log_bytes = max_log_bytes
        self._keep_history = keep_history
        self.end_offset = 0 if self.newest_snapshot is None else self.newest_snapshot.id.end_offset
        self._parts: tuple[MemoryPart, ...] = (MemoryPart(self.end_offset),)
        self._size_bytes = 0
        self._last_timestamp_ms = timestamp_ms
        self._refusal: str | None = None
        self._plan_of_quorum = quorum
        for batch in () if past is None else past.batches:
            self._keep(batch)
        before = Quorum() if past is None else past.quorum
        of_quorum = before.changes(quorum, directory_id)
        self._quorum = before.after(of_quorum)
        self._keep(encode_leader_change(self.end_offset, self.leader_epoch, timestamp_ms, of_quorum))

    @property
    def durable_offset(self) -> int:
        return self.end_offset

    @property
    def start_offset(self) -> int:
        """Records below this offset are deleted from the log, or will be at the next append."""
        newest = self.newest_snapshot
        return 0 if newest is None or self._keep_history else newest.id.end_offset

    @property
    def snapshot(self) -> Snapshot | None:
        newest = self.newest_snapshot
        return None if newest is None else Snapshot(newest.id.end_offset, newest.record_count)

    @property
    def is_snapshot_urgent(self) -> bool:
        return not self._keep_history and self._size_bytes * SNAPSHOT_SHARE >= self._max_log_bytes

    def begin_snapshot(self, *, roll: bool) -> "MemorySnapshotPlace | None":
        self._refuse_if_broken()
        if not roll:
            return None
        if self._parts[-1].batches:
            self._parts = (*self.parts(), MemoryPart(self.end_offset))
        return MemorySnapshotPlace(self, self.end_offset, self._last_timestamp_ms, self._quorum)

    @property
    def is_quorum_dynamic(self) -> bool:
        return self._quorum.is_dynamic

    def make_quorum_dynamic(self, timestamp_ms: int) -> None:
        self._refuse_if_broken()
        records = self._quorum.changes(replace(self._plan_of_quorum, is_dynamic=True), self.directory_id)
        if records:
            self._keep(encode_control_batch(self.end_offset, self.leader_epoch, timestamp_ms, records))
            self._quorum = self._quorum.after(records)
            self._last_timestamp_ms = timestamp_ms

    def append_batch(self, batch: BatchBuilder, timestamp_ms: int) -> tuple[int, int]:
        self._refuse_if_broken()
        written = self._keep(batch.finish(self.end_offset, self.leader_epoch, timestamp_ms))
        self._last_timestamp_ms = timestamp_ms
        return written

    def sync(self) -> None:
        self._refuse_if_broken()

    def read(self) -> Iterator[Batch]:
        self._refuse_if_broken()
        newest = self.newest_snapshot
        first_offset = newest.id.end_offset if newest else 0
        with _readable():
            for batch in [batch for part in self.parts() if part.base_offset >= first_offset for batch in part.batches]:
                yield decode_batch(batch, 0)

    def read_snapshot(self) -> Iterator[Batch]:
        newest = self.newest_snapshot
        with _readable():
            yield from () if newest is None else decode_batches(newest.data)

    def reader(self) -> MemoryReader:
        return MemoryReader(self)

    def parts(self) -> tuple[MemoryPart, ...]:
        """The parts of the log from `start_offset` on."""
        parts, start_offset = self._parts, self.start_offset
        gone = sum(following.base_offset <= start_offset for following in parts[1:])
        return parts[gone:]

    def log_bytes(self) -> bytes:
        """The log as one segment file would hold it, from `start_offset` on."""
        return b"".join(batch for part in self.parts() for batch in part.batches)

    def close(self) -> None:
        self._refusal = self._refusal or "the log is closed"

    def _keep(self, batch: bytes) -> tuple[int, int]:
        self._drop_what_a_snapshot_replaces()
        if self._size_bytes + len(batch) > self._max_log_bytes:
            self._refusal = (
                f"the metadata log in memory has {self._size_bytes} bytes, "
                f"and {len(batch)} more are beyond its limit of {self._max_log_bytes}"
            )
            raise LogError(self._refusal)
        header = decode_batch_header(batch, 0)
        self._size_bytes += len(batch)
        self._parts[-1].append(batch)
        self.end_offset = header.last_offset + 1
        return header.base_offset, header.last_offset

    def _drop_what_a_snapshot_replaces(self) -> None:
        if len(self._parts) > 1:
            self._parts = self.parts()
            self._size_bytes = sum(part.size_bytes for part in self._parts)

    def _refuse_if_broken(self) -> None:
        if self._refusal is not None:
            raise LogError(self._refusal)


class MemorySnapshotPlace:
    """A `SnapshotPlace` in memory."""

    def __init__(self, log: MemoryLog, end_offset: int, last_timestamp_ms: int, quorum: Quorum) -> None:
        self.end_offset = end_offset
        self._log = log
        self._last_timestamp_ms = last_timestamp_ms
        self._quorum = quorum

    def write(self, batches: Iterable[Records], timestamp_ms: int) -> Snapshot:
        if self._log.durable_offset < self.end_offset:
            raise SnapshotFailed(f"the log is durable to offset {self._log.durable_offset}, not to {self.end_offset}")
        pieces, record_count = [], 0
        content = SnapshotContent(batches, timestamp_ms, self._last_timestamp_ms, self._quorum)
        for batch, count in encode_snapshot(self._log.leader_epoch, content):
            pieces.append(batch)
            record_count += count
        snapshot_id = SnapshotId(self.end_offset, self._log.leader_epoch)
        self._log.newest_snapshot = MemorySnapshot(snapshot_id, b"".join(pieces), record_count)
        return Snapshot(self.end_offset, record_count)
