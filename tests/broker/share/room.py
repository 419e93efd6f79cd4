"""One share partition without a broker: a test decides what the log has, when the share coordinator answers, and how
time passes. Locks are real ones."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from klamm.broker.share_partitions.acknowledgement import Acknowledged, acknowledge
from klamm.broker.share_partitions.acquisition import Acquisition, LogBatch, Wanted
from klamm.broker.share_partitions.in_flight import NOBODY, RecordState
from klamm.broker.share_partitions.locks import AcquisitionLock, Locks
from klamm.broker.share_partitions.releases import expire_lock, follow_log_start, release_member
from klamm.broker.share_partitions.share_partition import ShareConfigs, SharePartition
from klamm.broker.share_state.combiner import Batch
from klamm.broker.share_state.offset import ShareGroupOffset, SharePartitionKey
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.uuid import ZERO_UUID

LOCK_MS = 1_000
EPOCH = 3
LETTERS = {RecordState.AVAILABLE: ".", RecordState.ACKNOWLEDGED: "+", RecordState.ARCHIVED: "x"}
FAILED = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Room:
    """The surroundings of a share partition that was loaded from `batches`."""

    def __init__(self, *batches: tuple[int, int, int, int], start: int = 0, loads: bool = True, **configs: Any) -> None:
        self.now = 5_000
        self.values = replace(ShareConfigs(lock_duration_ms=LOCK_MS), **configs)
        self.locks = Locks()
        self.writes: list[tuple[Sequence[Batch], Callable[[ApiError | None], None]]] = []
        self.wakes = 0
        self.codes: list[ErrorCode] = []
        """What became of acknowledgements and releases, in the order in which that was known."""
        self.count = 0
        """How many records the last fetch counted."""
        self.partition = SharePartition(SharePartitionKey("g", ZERO_UUID, 0), 1, 7, self)
        state = ShareGroupOffset(1, EPOCH, 7, start, 0, tuple(Batch(*one) for one in batches))
        assert self.partition.load(state, start) is loads

    # -- what the share partition needs ----------------------------------------------------------------------------

    def configs(self) -> ShareConfigs:
        return self.values

    def now_ms(self) -> int:
        return self.now

    def start_lock(self, member_id: str, first_offset: int, last_offset: int, delay_ms: int) -> AcquisitionLock:
        return self.locks.start(self.partition, member_id, first_offset, last_offset, self.now + delay_ms)

    def write(self, batches: Sequence[Batch], written: Callable[[ApiError | None], None]) -> None:
        self.writes.append((batches, written))

    def wake(self) -> None:
        self.wakes += 1

    # -- what happens to it ----------------------------------------------------------------------------------------

    def fetch(
        self,
        member_id: str,
        *log: tuple[int, int],
        at: int | None = None,
        most: int = 100,
        size: int = 100,
        strict: bool = False,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> list[tuple[int, int, int]]:
        """What a member acquires when these batches of the log were read: first and last offset, delivery count."""
        wanted = Wanted(member_id, most, size, strict)
        acquisition = Acquisition(self.partition, wanted, [LogBatch(*one) for one in log])
        offset = self.partition.next_fetch_offset() if at is None else at
        found, self.count = acquisition.acquire(offset, [LogBatch(*one) for one in aborted])
        return [(one.first_offset, one.last_offset, one.delivery_count) for one in found]

    def begin(self, member_id: str, *acks: tuple[int, int, Sequence[int]]) -> None:
        """A member acknowledges; the share coordinator does not answer yet."""
        acknowledge(self.partition, member_id, [Acknowledged(*one) for one in acks], self._done)

    def ack(self, member_id: str, *acks: tuple[int, int, Sequence[int]]) -> ErrorCode:
        """A member acknowledges, and the share coordinator has it."""
        self.begin(member_id, *acks)
        self.answer_all()
        return self.codes[-1]

    def ack_later(self, member_id: str, *acks: tuple[int, int, Sequence[int]]) -> ErrorCode:
        """A member acknowledges, and the share coordinator has it before what was written earlier."""
        self.begin(member_id, *acks)
        self.writes.insert(0, self.writes.pop())
        self.answer()
        return self.codes[-1]

    def release(self, member_id: str) -> None:
        release_member(self.partition, member_id, self._done)

    def answer(self, error: ApiError | None = None) -> list[tuple[int, int, int, int]]:
        """The share coordinator answers the first write that waits. Returns what was written."""
        batches, written = self.writes.pop(0)
        written(error)
        return [(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in batches]

    def answer_all(self) -> None:
        while self.writes:
            self.answer()

    def pass_time(self, milliseconds: int) -> None:
        self.now += milliseconds
        self.locks.expire(self.now, expire_lock)

    def delete_records(self, before_offset: int) -> None:
        follow_log_start(self.partition, before_offset)

    def _done(self, error: ApiError | None) -> None:
        self.codes.append(ErrorCode.NONE if error is None else error.code)

    def has_gap(self) -> bool:
        """Whether offsets among the batches that were loaded have no batch."""
        return self.partition.gap is not None

    def gap_is_open(self) -> bool:
        """Whether this counts."""
        return self.partition.gap_is_open

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def shown(self) -> str:
        """One word for each record in flight, from the start offset on: who has it (`.`: it is available, `+`:
        accepted, `x`: archived), and how often it was delivered; `_` for an offset without a state."""
        partition, words = self.partition, dict[int, str]()
        for batch in partition.batches:
            for first, last, state in batch.states():
                letter = LETTERS.get(state.state) or state.member_id
                assert state.member_id == NOBODY or state.state is RecordState.ACQUIRED or state.is_changing
                words |= dict.fromkeys(range(first, last + 1), f"{letter}{state.delivery_count}")
        last = max(words, default=partition.start_offset - 1)
        return " ".join(words.get(offset, "_") for offset in range(partition.start_offset, last + 1))

    @property
    def offsets(self) -> tuple[int, int, int, int]:
        """Start offset, end offset, next fetch offset, and the complete deliveries between start and end."""
        partition = self.partition
        return (
            partition.start_offset,
            partition.end_offset,
            partition.next_fetch_offset(),
            partition.delivery_complete_count,
        )

    @property
    def ends(self) -> list[tuple[int, int, int]]:
        """First and last offset of each lock, and how long it lasts in ms."""
        locks = self.locks._by_serial.values()
        return sorted((lock.first_offset, lock.last_offset, lock.due_ms - self.now) for lock in locks)

    def check(self) -> None:
        """What is true whenever no write waits. Raises AssertionError."""
        partition = self.partition
        behind, done, locked = -1, 0, 0
        for batch in partition.batches:
            assert behind < batch.first_offset <= batch.last_offset, "batches do not overlap, and are in order"
            behind = batch.last_offset
            for first, last, state in batch.states():
                assert not state.is_changing
                if state.state is RecordState.ACQUIRED:
                    locked += 1
                    assert state.lock is not None, f"{first} to {last} never expire"
                    assert (state.lock.member_id, state.lock.first_offset, state.lock.last_offset) == (
                        state.member_id,
                        first,
                        last,
                    )
                else:
                    assert state.lock is None
                if state.state.is_terminal:
                    done += partition.count_in_flight(first, last)
        assert partition.delivery_complete_count == done
        assert len(self.locks) == locked, "each lock is that of records that a member has"
