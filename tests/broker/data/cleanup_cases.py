"""Logs and rules for tests of retention and compaction."""

from dataclasses import replace
from typing import Any

from klamm.broker.data.log_compaction import Dirty, LogCompaction, dirty_part
from klamm.broker.data.partition_log import PartitionLog
from klamm.broker.data.record_batches import ProducedBatch, decode_header, read_produced
from klamm.broker.data.record_contents import RecordContents, decode_records, split_batches
from klamm.broker.data.record_room import RecordRoom
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.controller.configs import CleanupRules
from klamm.controller.metadata.partition import Partition
from klamm.protocol.uuid import ZERO_UUID
from tests.broker.data.batches import batch, record
from tests.broker.data.rooms import room

ALL = 1 << 30
DAY_MS = 24 * 60 * 60 * 1000
NOW = 1_700_000_000_000
DELETES = CleanupRules(
    deletes=True,
    compacts=False,
    retention_ms=-1,
    retention_bytes=-1,
    segment_bytes=ALL,
    segment_ms=DAY_MS,
    min_cleanable_dirty_ratio=0.0,
    min_compaction_lag_ms=0,
    max_compaction_lag_ms=2**63 - 1,
    delete_retention_ms=DAY_MS,
)
COMPACTS = replace(DELETES, deletes=False, compacts=True)
Pair = tuple[bytes | None, bytes | None]


def produced(*pairs: Pair, timestamp_ms: int = NOW, **fields: Any) -> ProducedBatch:
    """A batch of records with these keys and values."""
    records = [record(index, key=key, value=value) for index, (key, value) in enumerate(pairs)]
    found = read_produced(batch(records, timestamp_ms=timestamp_ms, **fields), api_version=12, max_message_bytes=ALL)
    assert isinstance(found, ProducedBatch)
    return found


class Log:
    """A partition with one replica, whose leader appends by rules."""

    def __init__(self, rules: CleanupRules, shared: RecordRoom | None = None) -> None:
        self.rules = rules
        self.found = ReplicatedLog(PartitionLog(shared or room()), 1_000_000)
        self.found.follow(Partition((1,), (1,), 1, 0, 0, directories=(ZERO_UUID,)), lambda _: True, NOW)
        self.log = self.found.log

    def append(self, reported: ProducedBatch, now_ms: int = NOW) -> int:
        self.log.roll(len(reported.records), reported.max_timestamp_ms, self.rules, now_ms)
        return self.found.append(reported, now_ms)

    def put(self, *pairs: Pair, timestamp_ms: int = NOW, now_ms: int | None = None, **fields: Any) -> int:
        reported = produced(*pairs, timestamp_ms=timestamp_ms, **fields)
        return self.append(reported, timestamp_ms if now_ms is None else now_ms)

    def close_segment(self, now_ms: int = NOW) -> None:
        """Let the next batch begin a segment."""
        self.log.segments.begin(self.log.log_end_offset, now_ms)

    def dirty(self, now_ms: int = NOW) -> Dirty | None:
        return dirty_part(self.found, self.rules, now_ms)

    def compact(self, now_ms: int = NOW) -> int:
        """Compact everything that is dirty; the number of steps."""
        dirty = self.dirty(now_ms)
        assert dirty is not None
        return sum(1 for _ in LogCompaction(self.found, dirty, self.rules, now_ms).steps())

    @property
    def batches(self) -> list[ProducedBatch]:
        data = self.log.read(self.log.log_start_offset, ALL, self.log.log_end_offset)
        return [decode_header(one.records) for one in split_batches(data or b"")]

    @property
    def records(self) -> list[RecordContents]:
        return [
            one
            for each in self.batches
            if not each.is_control
            for one in decode_records(each, ALL)
            if one.offset >= self.log.log_start_offset
        ]

    @property
    def pairs(self) -> dict[int, Pair]:
        """Keys and values by offset."""
        return {one.offset: (one.key, one.value) for one in self.records}
