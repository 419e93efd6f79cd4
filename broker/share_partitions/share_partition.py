"""A share partition: offsets, batches in flight, and where the next fetch begins.

Records from `start_offset` to `end_offset` are in flight: before them all deliveries are complete, behind them none has
begun. Source of the rules: `SharePartition` of Apache Kafka 4.3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil
from typing import Final, Protocol

from klamm.broker.share_partitions.in_flight import NOBODY, Batches, InFlight, InFlightBatch, RecordState
from klamm.broker.share_partitions.locks import AcquisitionLock
from klamm.broker.share_state.combiner import Batch
from klamm.broker.share_state.offset import ShareGroupOffset, SharePartitionKey
from klamm.protocol.errors import ApiError

LEAST_THROTTLE_LIMIT: Final = 2
"""The lowest delivery count at which fewer records are delivered at a time."""
_STATES: Final = frozenset(RecordState)


class Phase(Enum):
    """What a share partition can do."""

    LOADING = "loading"
    ACTIVE = "active"
    GONE = "gone"
    """Failed to load, or another broker leads."""


@dataclass(frozen=True, slots=True)
class ShareConfigs:
    """The configs in force for one group: its own, or the broker's."""

    delivery_limit: int = 5
    """`share.delivery.count.limit`: the most deliveries of a record."""
    max_locks: int = 2_000
    """`share.partition.max.record.locks`: the most records of one share partition in flight."""
    lock_duration_ms: int = 30_000
    renew_enabled: bool = True
    auto_offset_reset: str = "latest"
    read_committed: bool = False

    @property
    def throttle_limit(self) -> int:
        """From this delivery count on, fewer records are delivered at a time."""
        return max(LEAST_THROTTLE_LIMIT, ceil(self.delivery_limit / 2))


class Surroundings(Protocol):
    """What a share partition needs of its broker."""

    def configs(self) -> ShareConfigs:
        """The configs in force."""

    def now_ms(self) -> int:
        """The controller's clock."""

    def start_lock(self, member_id: str, first_offset: int, last_offset: int, delay_ms: int) -> AcquisitionLock:
        """Start an acquisition lock."""

    def write(self, batches: Sequence[Batch], written: Callable[[ApiError | None], None]) -> None:
        """Write state to the share coordinator. `written` is called with the error, if there is one."""

    def wake(self) -> None:
        """Records may have become available: fetches that wait should try again."""


@dataclass(slots=True)
class Gap:
    """Offsets among the batches that were loaded which belong to no batch: no delivery of them has begun. Counts as
    long as nothing was acquired behind `end_offset`."""

    end_offset: int
    start_offset: int


class SharePartition:
    """One share partition on the leader of its partition."""

    def __init__(self, key: SharePartitionKey, broker_id: int, leader_epoch: int, around: Surroundings) -> None:
        self.key = key
        self.broker_id = broker_id
        self.leader_epoch = leader_epoch
        self.around = around
        self.phase = Phase.LOADING
        self.batches = Batches()
        self.start_offset = 0
        self.end_offset = 0
        self.state_epoch = 0
        self.delivery_complete_count = 0
        """Records between the offsets whose delivery is complete."""
        self.find_next_fetch_offset = False
        """Whether records among the batches may be available."""
        self.gap: Gap | None = None

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def in_flight_count(self) -> int:
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    @property
    def gap_is_open(self) -> bool:
        return self.gap is not None and self.gap.end_offset == self.end_offset

    def begins_within(self, batch: InFlightBatch) -> bool:
        """The start offset has moved into a batch, or into a range of offsets."""
        return batch.first_offset < self.start_offset <= batch.last_offset

    def count_in_flight(self, first_offset: int, last_offset: int) -> int:
        """How many of these offsets are not before the start offset."""
        return max(0, last_offset - max(self.start_offset, first_offset) + 1)

    def lock(self, member_id: str, first_offset: int, last_offset: int) -> AcquisitionLock:
        """A lock of the configured duration."""
        return self.around.start_lock(member_id, first_offset, last_offset, self.around.configs().lock_duration_ms)

    def split(self, batch: InFlightBatch) -> None:
        batch.split(self.around.start_lock, self.around.now_ms())

    # -- loading ---------------------------------------------------------------------------------------------------

    def load(self, state: ShareGroupOffset, start_offset: int) -> bool:
        """Begin with what the share coordinator has; `start_offset` is where the group begins. False: the state is
        impossible."""
        self.start_offset, self.state_epoch = start_offset, state.state_epoch
        gap_start, before = -1, start_offset - 1
        for batch in state.batches:
            if batch.first_offset < start_offset or batch.last_offset < batch.first_offset:
                return False
            if batch.delivery_state not in _STATES:
                return False
            if gap_start == -1 and batch.first_offset > before + 1:
                gap_start = before + 1
            before = batch.last_offset
            whole = InFlight(RecordState(batch.delivery_state), batch.delivery_count, NOBODY)
            self.batches.put(InFlightBatch(batch.first_offset, batch.last_offset, whole))
            if whole.state.is_terminal:
                self.delivery_complete_count += batch.last_offset - batch.first_offset + 1
        self.end_offset = start_offset
        if self.batches:
            self.find_next_fetch_offset = True
            self.end_offset = self.batches.last.last_offset
            self.gap = Gap(self.end_offset, gap_start) if gap_start != -1 else None
            self.move_start_offset()
        self.phase = Phase.ACTIVE
        return True

    # -- offsets ---------------------------------------------------------------------------------------------------

    def next_fetch_offset(self) -> int:
        """Where the next fetch begins: the first available record, or behind all that are in flight."""
        is_over = not self.batches or self.start_offset > self.batches.last.last_offset
        if is_over:
            self.find_next_fetch_offset = False
            return self.end_offset
        found = self._first_available() if self.find_next_fetch_offset else None
        if found is None:
            self.find_next_fetch_offset = False
            return self.end_offset + 1
        return found

    def _first_available(self) -> int | None:
        gap_start = self.gap.start_offset if self.gap is not None and self.gap_is_open else None
        for batch in self.batches:
            if gap_start is not None:
                if batch.first_offset > gap_start:
                    return gap_start
                gap_start = max(batch.last_offset + 1, gap_start)
            for first, _, state in batch.states():
                if state.is_free:
                    return first
        return None

    def can_acquire(self) -> bool:
        """Whether a fetch may get records, as far as it depends on what is in flight."""
        if self.next_fetch_offset() != self.end_offset + 1:
            return True
        return self.in_flight_count < self.around.configs().max_locks

    def move_gap(self, offset: int) -> None:
        """Records before `offset` were acquired."""
        if self.gap is None:
            return
        if self.gap_is_open and offset <= self.gap.end_offset:
            self.gap.start_offset = offset
        else:
            self.gap = None

    def move_start_offset(self) -> bool:
        """Let the start offset pass records whose delivery is complete, and forget whole batches of them. Whether
        anything was done."""
        if not self._can_move():
            return False
        last_done, done = self._find_done()
        if last_done == -1:
            return False
        if last_done == self.batches.last.last_offset:
            self.start_offset = self.end_offset = last_done + 1
            self.batches.clear()
            self.delivery_complete_count = 0
            return True
        batch = self.batches.floor(last_done)
        assert batch is not None, "the offset is in a batch"
        if last_done == batch.last_offset:
            following = self.batches.higher(last_done)
            assert following is not None, "it is not the last one"
            self.start_offset = max(self.start_offset, following.first_offset)
            if self.gap is not None and self.gap_is_open:
                self.start_offset = min(self.gap.start_offset, self.start_offset)
            removed = self.batches.remove_before(batch.first_offset + 1)
        else:
            self.start_offset = max(self.start_offset, last_done + 1)
            removed = self.batches.remove_before(batch.first_offset)
        self.delivery_complete_count -= done
        for gone in removed:
            for _, _, state in gone.states():
                state.unlock()
        return True

    def _can_move(self) -> bool:
        if not self.batches:
            return False
        batch = self.batches.floor(self.start_offset)
        if batch is None:
            return False  # a gap is at the beginning
        state = batch.whole if batch.whole is not None else batch.offsets.get(self.start_offset)
        return state is not None and not state.is_changing and state.state.is_terminal

    def _find_done(self) -> tuple[int, int]:
        """The last offset up to which all deliveries are complete (-1: none), and how many of them count."""
        last, count = -1, 0
        for batch in self.batches:
            if self.gap is not None and self.gap_is_open and batch.last_offset >= self.gap.start_offset:
                return last, count
            for first_offset, last_offset, state in batch.states():
                if state.is_changing or not state.state.is_terminal:
                    return last, count
                last = last_offset
                count += self.count_in_flight(first_offset, last_offset)
        return last, count

    def close(self) -> None:
        """Another broker leads, or the group does not exist any more."""
        self.phase = Phase.GONE
        for batch in self.batches:
            for _, _, state in batch.states():
                state.unlock()
