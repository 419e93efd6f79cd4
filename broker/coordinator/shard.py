"""A shard: one partition of an internal topic on its leader, with the state machine that its records make.

An operation of the state machine gives an outbox. The shard appends its records as one batch to the partition and
replays them; the responses leave when the high watermark is above these records. A response without records waits for
the records before it, because it may depend on them. Responses that wait longer than `write_timeout_ms` become
COORDINATOR_NOT_AVAILABLE, as in Kafka.
"""

from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from typing import Final

from klamm.broker.coordinator.batches import EndOfTransaction, RawRecord, decode_records, encode_batch
from klamm.broker.coordinator.budget import Budget, LiveRecords
from klamm.broker.coordinator.compaction import BEGIN_AT_BYTES, Compaction, SnapshotCompaction
from klamm.broker.coordinator.outbox import CoordinatorState, Outbox, Reply, Waiter, Written
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.record_batches import ProducedBatch, decode_header
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.coordinator_records import decode_key, decode_value, encode_key, encode_value
from klamm.protocol.errors import ApiError, ErrorCode, ProtocolError
from klamm.protocol.internal_topics import SHARE_GROUP_STATE
from klamm.quick_dataclasses import dataclass

_NUMBER_BYTES: Final = 2
"""A key begins with the number of its kind."""
LOAD_RECORDS_AT_ONCE: Final = 2_000
"""The records that one step of loading replays, about 20 ms of work."""


@dataclass(slots=True)
class _Pending:
    """Replies that wait for the high watermark to reach `offset`, until `deadline_ms`."""

    offset: int
    deadline_ms: int
    on_written: list[Callable[[], None]]
    replies: list[Reply]


class Shard:
    """The coordinator of one partition. It lives while `broker_id` leads the partition."""

    def __init__(
        self,
        topic: Topic,
        index: int,
        broker_id: int,
        state: CoordinatorState,
        data: DataPlane,
        write_timeout_ms: int,
        follow: Callable[[MetadataImage, "Shard", int], bool] | None = None,
        budget: Budget | None = None,
    ) -> None:
        """`follow` is called with the image, this shard and the time in ms after each operation, and whenever time has
        passed: it does what the state of this shard demands of other partitions, and returns whether it has more to do
        as time passes. It may run operations here. `budget` is that of all shards of the process; None: one of this
        shard alone."""
        self.topic = topic
        self.index = index
        self.broker_id = broker_id
        self.state = state
        self.is_loaded = False
        self._data = data
        self._write_timeout_ms = write_timeout_ms
        self._position: int | None = None
        """The offset of the next record to load. None: loading has not begun."""
        self._end_offset = 0
        """The offset behind the last record that this shard has loaded or written."""
        self._pending: deque[_Pending] = deque()
        self._is_closed = False
        self._follow = follow
        self._is_following = False
        self._follows_on = follow is not None
        """Whether `follow` has more to do as time passes, or was not called since the last change."""
        self._live = LiveRecords(budget or Budget())
        self._compaction: Compaction | SnapshotCompaction | None = None
        self._compact_at_bytes = BEGIN_AT_BYTES

    @property
    def leader_epoch(self) -> int:
        """The epoch in which the broker leads the partition."""
        found = self._data.find(*self.key)
        return 0 if found is None else found.leader_epoch

    def is_replicated(self, offset: int, now_ms: int) -> bool:
        """Whether the record at `offset` of the partition is below the high watermark."""
        found = self._data.find(*self.key)
        return found is not None and found.high_watermark(now_ms) > offset

    @property
    def key(self) -> LogKey:
        """The partition."""
        return self.topic.topic_id, self.index

    # -- loading ---------------------------------------------------------------------------------------------------

    def load_step(self, image: MetadataImage, now_ms: int) -> None:
        """Replay the next records. Sets `is_loaded` behind the last one."""
        found = self._data.find(*self.key)
        if found is not None:
            log = found.log
            at = log.log_start_offset if self._position is None else max(self._position, log.log_start_offset)
            end, left = log.log_end_offset, LOAD_RECORDS_AT_ONCE
            while at < end and left > 0:
                raw = log.read(at, 1, end)
                if not raw:
                    break
                batch = decode_header(raw)
                for record in decode_records(batch):
                    self._replay_loaded(record, batch.producer_id if batch.is_transactional else -1)
                at, left = batch.base_offset + batch.last_offset_delta + 1, left - batch.record_count
            self._position = self._end_offset = at
            if at < end and left <= 0:
                return
        self.is_loaded = True
        self._settle(image, self.state.loaded(now_ms), now_ms)

    def _replay_loaded(self, record: RawRecord | EndOfTransaction, producer_id: int) -> None:
        if isinstance(record, EndOfTransaction):
            self.state.replay_end_of_transaction(record.producer_id, committed=record.committed)
            return
        self._live.note(self._live_key(record.key or b""), record.value)
        try:
            key = decode_key(self.topic.name, record.key or b"")
            value = None if key is None or record.value is None else decode_value(self.topic.name, key, record.value)
        except ProtocolError:
            return  # not written by a coordinator; Kafka skips what it cannot read, too
        if key is not None:
            self.state.replay(key, value, Written(record.offset, record.timestamp_ms, producer_id))

    def _live_key(self, key: bytes) -> bytes:
        """What a record is alive by: in the share coordinator's topic, snapshots and updates of a share partition are
        counted as one record."""
        return key[_NUMBER_BYTES:] if self.topic.name == SHARE_GROUP_STATE else key

    # -- operations ------------------------------------------------------------------------------------------------

    def run(self, image: MetadataImage, operation: Callable[[], Outbox], now_ms: int) -> None:
        """Do one operation of the state machine: write its records, deliver its replies in time."""
        self._advance(image, now_ms)
        self._settle(image, operation(), now_ms)
        self._compact(image, now_ms)
        self._do_follow(image, now_ms)

    def advance(self, image: MetadataImage, now_ms: int) -> None:
        """Fire the timers that are due and deliver the replies whose records are replicated by now."""
        self._advance(image, now_ms)
        self._do_follow(image, now_ms)

    def _do_follow(self, image: MetadataImage, now_ms: int) -> None:
        if self._follow is None or self._is_following or self._is_closed or not self.is_loaded:
            return
        self._is_following = True
        try:
            self._follows_on = self._follow(image, self, now_ms)
        finally:
            self._is_following = False

    def _advance(self, image: MetadataImage, now_ms: int) -> None:
        if self._is_closed or not self.is_loaded:
            return
        while (outbox := self.state.tick(now_ms)) is not None:
            self._settle(image, outbox, now_ms)
        if self._compaction is not None:
            self._compact(image, now_ms)
        self._deliver(now_ms)

    def next_due_ms(self, now_ms: int) -> int | None:
        """When `advance` may have something to do, in ms on the controller's clock. None: not before a new
        operation."""
        due_ms = self.state.next_due_ms
        if self._pending:
            first, found = self._pending[0], self._data.find(*self.key)
            reaches_ms = None if found is None else found.reaches_at_ms(first.offset, now_ms)
            first_ms = first.deadline_ms if reaches_ms is None else min(reaches_ms, first.deadline_ms)
            due_ms = first_ms if due_ms is None else min(due_ms, first_ms)
        return due_ms

    def next_tick_ms(self, now_ms: int) -> float:
        """When `Coordinators.tick` may have something to do here; infinite: not before a new operation."""
        if self._pending or self._follows_on or self._compaction is not None or not self.is_loaded:
            return now_ms
        due_ms = self.state.next_due_ms
        return inf if due_ms is None else due_ms

    def replay_end_of_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply the control record of a transaction that was written to this partition."""
        found = self._data.find(*self.key)
        self._end_offset = self._end_offset if found is None else found.log.log_end_offset
        self.state.replay_end_of_transaction(producer_id, committed=committed)

    def close(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Refuse every request that waits. The shard is not used any more."""
        self._is_closed = True
        self._live.close()
        waiting: list[Waiter] = [reply.waiter for pending in self._pending for reply in pending.replies]
        self._pending.clear()
        for waiter in (*waiting, *self.state.waiters()):
            waiter.refuse(code)

    def _settle(self, image: MetadataImage, outbox: Outbox, now_ms: int) -> None:
        self._follows_on = self._follow is not None
        if outbox.records:
            refusal = self._append(image, outbox, now_ms)
            if refusal is not None:
                for reply in outbox.replies:
                    reply.waiter.refuse(refusal)
                return
        if outbox.replies or outbox.on_written:
            deadline_ms = now_ms + self._write_timeout_ms
            self._pending.append(_Pending(self._end_offset, deadline_ms, outbox.on_written, outbox.replies))
        self._deliver(now_ms)

    def _append(self, image: MetadataImage, outbox: Outbox, now_ms: int) -> ErrorCode | None:
        raw = [
            (encode_key(key), None if value is None else encode_value(value, version))
            for key, value, version in outbox.records
        ]
        if outbox.replies and self._live.refuses([(self._live_key(key), value) for key, value in raw]):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        batch = encode_batch(raw, now_ms, outbox.producer_id, outbox.producer_epoch)
        base_offset = self._write(image, batch, now_ms)
        if isinstance(base_offset, ErrorCode):
            return base_offset
        for key_bytes, value_bytes in raw:
            self._live.note(self._live_key(key_bytes), value_bytes)
            if isinstance(self._compaction, Compaction):
                self._compaction.note_written(key_bytes)
        for delta, record in enumerate(outbox.records):
            written = Written(base_offset + delta, now_ms, outbox.producer_id, outbox.producer_epoch, live=True)
            self.state.replay(record.key, record.value, written)
        return None

    def _deliver(self, now_ms: int) -> None:
        while self._pending:
            found = self._data.find(*self.key)
            high_watermark = 0 if found is None else self._acknowledged_end(found, now_ms)
            first = self._pending[0]
            if first.offset > high_watermark and first.deadline_ms > now_ms:
                return
            self._pending.popleft()
            in_time = first.offset <= high_watermark
            for call in first.on_written if in_time else ():
                call()
            for reply in first.replies:
                if not in_time:
                    reply.waiter.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                elif reply.response is None:
                    reply.waiter.refuse(reply.code)
                else:
                    reply.waiter.resolve(reply.response)

    def _acknowledged_end(self, found: ReplicatedLog, now_ms: int) -> int:
        """The offset below which records are replicated, and durable if the partition is kept."""
        return min(found.high_watermark(now_ms), self._data.durable_end(*self.key))

    def _compact(self, image: MetadataImage, now_ms: int) -> None:
        """Begin a compaction if the partition has doubled since the last one, or do its next step."""
        found = self._data.find(*self.key)
        if found is None or self._is_closed:
            return
        compaction = self._compaction
        if compaction is None:
            if found.log.size_bytes >= self._compact_at_bytes:
                snapshots = self.state.snapshots()
                self._compaction = (
                    Compaction(found.log) if snapshots is None else SnapshotCompaction(found.log, snapshots)
                )
                self._data.begin_compaction(*self.key)
        elif compaction.rewritten_end is not None:
            if self._acknowledged_end(found, now_ms) >= compaction.rewritten_end:
                self._data.delete_before(*self.key, compaction.up_to_offset, now_ms)
                self._end_compaction(found.log.size_bytes)
        elif compaction.is_given_up or not self._rewrite(image, compaction, found, now_ms):
            self._end_compaction(found.log.size_bytes)

    def _rewrite(
        self, image: MetadataImage, compaction: Compaction | SnapshotCompaction, found: ReplicatedLog, now_ms: int
    ) -> bool:
        """Write the next records of a compaction again. False: they could not be written."""
        if isinstance(compaction, SnapshotCompaction):
            snapshots = compaction.next_snapshots()
            if snapshots is None:
                compaction.rewritten_end = found.log.log_end_offset
            return not snapshots or self._append(image, Outbox(snapshots), now_ms) is None
        records = compaction.next_records()
        if records is None:
            compaction.rewritten_end = found.log.log_end_offset
        return not records or not isinstance(self._write(image, encode_batch(records, now_ms), now_ms), ErrorCode)

    def _end_compaction(self, size_bytes: int) -> None:
        self._compaction = None
        self._compact_at_bytes = max(BEGIN_AT_BYTES, 2 * size_bytes)

    def _write(self, image: MetadataImage, batch: ProducedBatch, now_ms: int) -> int | ErrorCode:
        """Append a batch; its first offset, or an error."""
        base_offset = self._data.append(image, self.topic, self.index, batch, now_ms, bounded=False)
        if isinstance(base_offset, ApiError):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._end_offset = base_offset + batch.record_count
        return base_offset

    def topics_removed(self, image: MetadataImage, names: Iterable[str], now_ms: int) -> None:
        """Drop what the state machine keeps about topics that were deleted."""
        if self.is_loaded:
            self._settle(image, self.state.topics_removed(names), now_ms)
