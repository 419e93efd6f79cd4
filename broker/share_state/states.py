"""The state machine of one partition of `__share_group_state`: the state of share partitions.

A change is written as an update of the last snapshot; every so many updates, as a new snapshot. Order of the checks and
texts: Kafka's ShareCoordinatorShard. The partition is not compacted by key, because updates are no complete values:
`snapshots` makes what replaces its older part.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from klamm.broker.coordinator.outbox import CoordinatorRecord, Outbox, Waiter, Written
from klamm.broker.groups.consumer.topics import Topics
from klamm.broker.share_state.combiner import Batch, combine
from klamm.broker.share_state.offset import (
    NO_EPOCH,
    UNINITIALIZED,
    ShareGroupOffset,
    SharePartitionKey,
    of_snapshot,
    of_update,
)
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.records.coordinator.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)

MAX_STATES: Final = 200_000
"""Share partitions of one shard. Kafka has no such limit. More get COORDINATOR_NOT_AVAILABLE."""
MAX_BATCHES: Final = 20_000
"""Batches of one write. Kafka has no such limit; a leader writes at most one for each record lock, 10,000. More get
INVALID_REQUEST."""
SNAPSHOTS_AT_ONCE: Final = 100
NEGATIVE_PARTITION: Final = "The partition id cannot be a negative number."
NOT_INITIALIZED_READ: Final = "Read operation on uninitialized share partition not allowed."
NOT_INITIALIZED_WRITE: Final = "Write operation on uninitialized share partition not allowed."
_TEXTS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch in the request is older than the epoch on the broker.",
    ErrorCode.FENCED_STATE_EPOCH: "The share coordinator rejected the request because the share-group state epoch did "
    "not match.",
}


@dataclass(frozen=True, slots=True)
class StateWrite:
    """What a leader has to write about a share partition."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[Batch, ...]


class ShareStates:
    """The share partitions of one shard (a `CoordinatorState`)."""

    def __init__(self, topics: Callable[[], Topics], updates_per_snapshot: int) -> None:
        """`updates_per_snapshot`: `share.coordinator.snapshot.update.records.per.snapshot`."""
        self.by_key: dict[SharePartitionKey, ShareGroupOffset] = {}
        self._topics = topics
        self._updates_per_snapshot = updates_per_snapshot
        self._update_counts: dict[SharePartitionKey, int] = {}
        """Updates since the last snapshot."""
        self._leader_epochs: dict[SharePartitionKey, int] = {}
        self._state_epochs: dict[SharePartitionKey, int] = {}
        """The highest epochs that a record had. An initialization lowers those of the state, not these."""

    # -- operations ------------------------------------------------------------------------------------------------

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, waiter: Waiter, now_ms: int
    ) -> Outbox:
        """InitializeShareGroupState: the response is None, or an `ApiError`."""
        known = self.by_key.get(key)
        refusal = _negative(key)
        if refusal is None and state_epoch != NO_EPOCH and self._state_epochs.get(key, state_epoch) > state_epoch:
            refusal = _error(ErrorCode.FENCED_STATE_EPOCH)
        refusal = refusal or self._unknown_topic(key)
        if refusal is None and known is None and len(self.by_key) >= MAX_STATES:
            refusal = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        out = Outbox()
        if refusal is None:
            is_uninitialized = start_offset == UNINITIALIZED
            state = ShareGroupOffset(
                snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
                state_epoch=state_epoch,
                leader_epoch=0,
                start_offset=start_offset,
                delivery_complete_count=UNINITIALIZED if is_uninitialized else 0,
                create_timestamp=now_ms,
                write_timestamp=now_ms,
            )
            _write_snapshot(key, state, out)
        out.reply(waiter, refusal or DONE)
        return out

    def read(self, key: SharePartitionKey, leader_epoch: int, waiter: Waiter, now_ms: int) -> Outbox:
        """ReadShareGroupState, which also notes the leader's epoch: the response is a `ShareGroupOffset` or an
        `ApiError`."""
        out, known = Outbox(), self.by_key.get(key)
        refusal = _negative(key)
        if refusal is None and known is None:
            refusal = ApiError(ErrorCode.INVALID_REQUEST, NOT_INITIALIZED_READ)
        if refusal is None and self._leader_epochs.get(key, leader_epoch) > leader_epoch:
            refusal = _error(ErrorCode.FENCED_LEADER_EPOCH)
        refusal = refusal or self._unknown_topic(key)
        if refusal is not None or known is None:
            out.reply(waiter, refusal)
            return out
        out.reply(waiter, known)
        if leader_epoch not in (NO_EPOCH, self._leader_epochs.get(key)):
            noted = StateWrite(known.state_epoch, leader_epoch, known.start_offset, known.delivery_complete_count, ())
            self._write(key, known, noted, leader_epoch, out, now_ms)
        return out

    def write(self, key: SharePartitionKey, written: StateWrite, waiter: Waiter, now_ms: int) -> Outbox:
        """WriteShareGroupState: the response is `DONE` or an `ApiError`."""
        out, known = Outbox(), self.by_key.get(key)
        refusal = _negative(key)
        if refusal is None and known is None:
            refusal = ApiError(ErrorCode.INVALID_REQUEST, NOT_INITIALIZED_WRITE)
        refusal = refusal or self._fenced(key, written) or self._unknown_topic(key)
        if refusal is None and len(written.batches) > MAX_BATCHES:
            refusal = ApiError(ErrorCode.INVALID_REQUEST, f"More than {MAX_BATCHES} batches.")
        if refusal is None and known is not None:
            self._write(key, known, written, known.leader_epoch, out, now_ms)
        out.reply(waiter, refusal or DONE)
        return out

    def summarize(self, key: SharePartitionKey, waiter: Waiter) -> Outbox:
        """ReadShareGroupStateSummary: the response is a `ShareGroupOffset` or an `ApiError`."""
        out = Outbox()
        refusal = _negative(key) or self._unknown_topic(key)
        out.reply(waiter, refusal or self.by_key.get(key, NOTHING_KNOWN))
        return out

    def delete(self, key: SharePartitionKey, waiter: Waiter) -> Outbox:
        """DeleteShareGroupState: the response is `DONE` or an `ApiError`."""
        out = Outbox()
        refusal = _negative(key) or self._unknown_topic(key)
        if refusal is None and key in self.by_key:
            out.write(_snapshot_key(key), None)
        out.reply(waiter, refusal or DONE)
        return out

    def _fenced(self, key: SharePartitionKey, written: StateWrite) -> ApiError | None:
        if NO_EPOCH != written.leader_epoch < self._leader_epochs.get(key, NO_EPOCH):
            return _error(ErrorCode.FENCED_LEADER_EPOCH)
        if NO_EPOCH != written.state_epoch < self._state_epochs.get(key, NO_EPOCH):
            return _error(ErrorCode.FENCED_STATE_EPOCH)
        return None

    def _unknown_topic(self, key: SharePartitionKey) -> ApiError | None:
        topic = self._topics().with_id(key.topic_id)
        if topic is None or topic.partitions <= key.partition:
            return _error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return None

    def _write(
        self,
        key: SharePartitionKey,
        known: ShareGroupOffset,
        written: StateWrite,
        leader_epoch: int,
        out: Outbox,
        now_ms: int,
    ) -> None:
        if self._update_counts.get(key, 0) < self._updates_per_snapshot:
            update = ShareUpdateValue(
                snapshot_epoch=known.snapshot_epoch,
                leader_epoch=leader_epoch,
                start_offset=written.start_offset,
                delivery_complete_count=written.delivery_complete_count,
                state_batches=[
                    StateBatch(**batch.fields) for batch in combine((), written.batches, written.start_offset)
                ],
            )
            out.write(ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition), update)
            return
        start = known.start_offset if written.start_offset == UNINITIALIZED else written.start_offset
        snapshot = ShareGroupOffset(
            known.snapshot_epoch + 1,
            known.state_epoch,
            leader_epoch,
            start,
            written.delivery_complete_count,
            combine(known.batches, written.batches, start),
            now_ms,
            now_ms,
        )
        _write_snapshot(key, snapshot, out)

    # -- replay ----------------------------------------------------------------------------------------------------

    def replay(self, key: Message, value: Message | None, written: Written) -> None:
        """Apply one record of the partition."""
        if isinstance(key, ShareSnapshotKey):
            assert value is None or isinstance(value, ShareSnapshotValue)
            self._replay_snapshot(SharePartitionKey(key.group_id, key.topic_id, key.partition), value)
        elif isinstance(key, ShareUpdateKey) and isinstance(value, ShareUpdateValue):
            place = SharePartitionKey(key.group_id, key.topic_id, key.partition)
            known = self.by_key.get(place)
            self.by_key[place] = of_update(value) if known is None else known.with_update(value)
            self._update_counts[place] = self._update_counts.get(place, 0) + 1
            self._note_epoch(self._leader_epochs, place, value.leader_epoch)

    def _replay_snapshot(self, key: SharePartitionKey, value: ShareSnapshotValue | None) -> None:
        if value is None:
            for kept in (self.by_key, self._update_counts, self._leader_epochs, self._state_epochs):
                kept.pop(key, None)
            return
        self.by_key[key] = of_snapshot(value)
        self._note_epoch(self._leader_epochs, key, value.leader_epoch)
        self._note_epoch(self._state_epochs, key, value.state_epoch)
        if self._update_counts.get(key, 0) >= self._updates_per_snapshot:
            self._update_counts[key] = 0

    @staticmethod
    def _note_epoch(epochs: dict[SharePartitionKey, int], key: SharePartitionKey, epoch: int) -> None:
        epochs[key] = max(epoch, epochs.get(key, epoch))

    def replay_end_of_transaction(self, producer_id: int, *, committed: bool) -> None:
        """There are no transactions in this topic."""

    def loaded(self, now_ms: int) -> Outbox:
        """Forget the state of topics that were deleted while no coordinator was loaded."""
        return self.topics_removed(())

    def topics_removed(self, names: Iterable[str]) -> Outbox:
        """Remove the state of topics that do not exist any more."""
        out, topics = Outbox(), self._topics()
        for key in self.by_key:
            if topics.with_id(key.topic_id) is None:
                out.write(_snapshot_key(key), None)
        return out

    def snapshots(self) -> Iterator[list[CoordinatorRecord]]:
        """A new snapshot of each share partition, some at a time, as each is when it is written. Records before the
        first of them are not needed any more when the last one is written."""
        keys = iter(list(self.by_key))
        while some := list(islice(keys, SNAPSHOTS_AT_ONCE)):
            out = Outbox()
            for key in some:
                known = self.by_key.get(key)
                if known is not None:
                    _write_snapshot(key, replace(known, snapshot_epoch=known.snapshot_epoch + 1), out)
            yield out.records

    # -- time ------------------------------------------------------------------------------------------------------

    @property
    def next_due_ms(self) -> int | None:
        """There are no timers."""
        return None

    def tick(self, now_ms: int) -> Outbox | None:
        """There are no timers."""
        return None

    def waiters(self) -> Iterable[Waiter]:
        """Requests wait for records only."""
        return ()


DONE: Final = "done"
"""The response of an operation that has no other."""
NOTHING_KNOWN: Final = ShareGroupOffset(0, 0, 0, UNINITIALIZED, UNINITIALIZED)
"""The summary of a share partition without state."""


def _snapshot_key(key: SharePartitionKey) -> ShareSnapshotKey:
    return ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)


def _write_snapshot(key: SharePartitionKey, state: ShareGroupOffset, out: Outbox) -> None:
    out.write(_snapshot_key(key), state.as_snapshot())


def _negative(key: SharePartitionKey) -> ApiError | None:
    return ApiError(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION) if key.partition < 0 else None


def _error(code: ErrorCode) -> ApiError:
    return ApiError(code, _TEXTS[code])
