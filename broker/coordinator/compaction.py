"""Compaction of a coordinator's partition: the newest record of each key is written again, then the old ones go.

Kafka's log cleaner rewrites segments and keeps offsets. Here the partition is one log in memory, so the records get new
offsets at its end. The work is done in steps, between the shard's operations; keys that are written meanwhile are left
out. A partition with an open transaction is left as it is.
"""

from collections.abc import Iterator
from typing import Final

from klamm.broker.coordinator.batches import EndOfTransaction, RawRecord, decode_records
from klamm.broker.coordinator.outbox import CoordinatorRecord
from klamm.broker.data.partition_log import PartitionLog
from klamm.broker.data.record_batches import decode_header

RECORDS_AT_ONCE: Final = 500
"""The records that one step reads or writes, about 5 ms of work."""
BEGIN_AT_BYTES: Final = 1024 * 1024
"""A partition smaller than this is not compacted."""


class Compaction:
    """One compaction of a log, up to its present end."""

    def __init__(self, log: PartitionLog) -> None:
        self.up_to_offset = log.log_end_offset
        """Records below this offset are deleted at the end."""
        self.rewritten_end: int | None = None
        """The offset that the high watermark has to reach before they are. None: not everything is written again."""
        self.is_given_up = False
        self._log = log
        self._latest: dict[bytes, RawRecord] = {}
        self._open: dict[int, list[RawRecord]] = {}
        """Records of transactions whose end was not read yet, by producer id."""
        self._reading: Iterator[None] | None = self._read()
        self._written_since: set[bytes] = set()

    def note_written(self, key: bytes) -> None:
        """The shard has written a newer record of this key."""
        if self.rewritten_end is None:
            self._written_since.add(key)

    def next_records(self) -> list[tuple[bytes, bytes | None]] | None:
        """Do one step. Returns records to write again, which may be none yet; None: there are no more."""
        if self._reading is not None:
            if next(self._reading, self) is self:
                self._reading = None
                self.is_given_up = any(self._open.values())
            return []
        found: list[tuple[bytes, bytes | None]] = []
        while self._latest and len(found) < RECORDS_AT_ONCE:
            key = next(iter(self._latest))
            value = self._latest.pop(key).value
            if value is not None and key not in self._written_since:
                found.append((key, value))
        return found or None

    def _read(self) -> Iterator[None]:
        at, count = self._log.log_start_offset, 0
        while at < self.up_to_offset:
            raw = self._log.read(at, 1, self.up_to_offset)
            if not raw:
                return
            batch = decode_header(raw)
            for record in decode_records(batch):
                if isinstance(record, EndOfTransaction):
                    for one in self._open.pop(record.producer_id, ()) if record.committed else ():
                        self._keep(one)
                    self._open.pop(record.producer_id, None)
                elif batch.is_transactional:
                    self._open.setdefault(batch.producer_id, []).append(record)
                else:
                    self._keep(record)
            at, count = batch.base_offset + batch.last_offset_delta + 1, count + batch.record_count
            if count >= RECORDS_AT_ONCE:
                count = 0
                yield

    def _keep(self, record: RawRecord) -> None:
        key = record.key or b""
        known = self._latest.get(key)
        if known is None or known.offset < record.offset:
            self._latest[key] = record


class SnapshotCompaction:
    """One compaction of a log whose records are not complete values: the state machine writes snapshots of all it has,
    then the records before the first of them go."""

    is_given_up = False

    def __init__(self, log: PartitionLog, snapshots: Iterator[list[CoordinatorRecord]]) -> None:
        self.up_to_offset = log.log_end_offset
        """Records below this offset are deleted at the end."""
        self.rewritten_end: int | None = None
        """As in `Compaction`."""
        self._snapshots = snapshots

    def next_snapshots(self) -> list[CoordinatorRecord] | None:
        """The next records to write; None: there are no more."""
        return next(self._snapshots, None)
