"""Records become available again, or are archived: a lock expired, a session ended, the log start offset moved."""

from collections.abc import Callable, Iterable

from klamm.broker.share_partitions.in_flight import NOBODY, InFlight, InFlightBatch, RecordState
from klamm.broker.share_partitions.locks import AcquisitionLock
from klamm.broker.share_partitions.share_partition import SharePartition
from klamm.broker.share_state.combiner import Batch
from klamm.protocol.errors import ApiError, ErrorCode

Done = Callable[[ApiError | None], None]


class Changes:
    """Transitions that are begun together, written together and completed together."""

    def __init__(self, partition: SharePartition) -> None:
        self._partition = partition
        self._begun: list[tuple[InFlight, Batch]] = []

    def begin(self, first_offset: int, last_offset: int, state: InFlight, to: RecordState) -> bool:
        """Begin a transition of some records. False: it is not allowed."""
        if not state.begin(to, self._partition.around.configs().delivery_limit):
            return False
        self._begun.append((state, Batch(first_offset, last_offset, int(state.state), state.delivery_count)))
        return True

    def roll_back(self) -> None:
        """Take back all of them."""
        partition = self._partition
        for state, batch in self._begun:
            state.complete(commit=False)
            partition.find_next_fetch_offset |= state.state is RecordState.AVAILABLE
            if RecordState(batch.delivery_state).is_terminal and not state.state.is_terminal:
                lost = partition.count_in_flight(batch.first_offset, batch.last_offset)
                partition.delivery_complete_count -= lost

    def write(self, done: Done) -> None:
        """Write all of them to the share coordinator, then complete them and call `done`."""
        if not self._begun:
            done(None)
            return

        def written(error: ApiError | None) -> None:
            partition = self._partition
            if error is not None:
                self.roll_back()
            else:
                for state, _ in self._begun:
                    state.complete(commit=True)
                    partition.find_next_fetch_offset |= state.state is RecordState.AVAILABLE
                partition.move_start_offset()
            done(error)
            partition.around.wake()

        self._partition.around.write([batch for _, batch in self._begun], written)


def release_member(partition: SharePartition, member_id: str, done: Done) -> None:
    """A member's session has ended: what it has acquired becomes available."""
    changes = Changes(partition)
    for batch in partition.batches:
        whole = batch.whole
        if (
            whole is not None
            and whole.state is RecordState.ACQUIRED
            and whole.member_id == member_id
            and partition.begins_within(batch)
        ):
            partition.split(batch)
        for first, last, state in batch.states():
            if state.member_id not in (member_id, NOBODY) or state.state is not RecordState.ACQUIRED:
                continue
            to = RecordState.ARCHIVED if last < partition.start_offset else RecordState.AVAILABLE
            if not changes.begin(first, last, state, to):
                changes.roll_back()
                done(ApiError(ErrorCode.INVALID_RECORD_STATE, "Unable to release acquired records for the batch"))
                return
            if state.state.is_terminal:
                partition.delivery_complete_count += partition.count_in_flight(first, last)
    changes.write(done)


def expire_lock(lock: AcquisitionLock) -> None:
    """The time of a lock is over. What a transition holds becomes available when that fails."""
    partition: SharePartition = lock.partition
    if partition.batches.floor(lock.first_offset) is None:
        return
    limit = partition.around.configs().delivery_limit
    written: list[Batch] = []
    for batch in partition.batches.around(lock.first_offset, lock.last_offset):
        if batch.whole is not None and batch.whole.state is RecordState.ACQUIRED and partition.begins_within(batch):
            partition.split(batch)
        for first, last, state in batch.states():
            is_outside = batch.whole is None and not lock.first_offset <= first <= lock.last_offset
            if is_outside or state.state is not RecordState.ACQUIRED or state.lock not in (lock, None):
                continue
            to = RecordState.ARCHIVED if last < partition.start_offset else RecordState.AVAILABLE
            if not state.move(to, limit):
                continue
            becomes = RecordState(state.state)
            written.append(Batch(first, last, int(becomes), state.delivery_count))
            state.unlock()
            if becomes is RecordState.AVAILABLE:
                partition.find_next_fetch_offset = True
            else:
                partition.delivery_complete_count += partition.count_in_flight(first, last)
    if written:
        partition.around.write(written, lambda _: _after_expiry(partition))
        partition.around.wake()


def _after_expiry(partition: SharePartition) -> None:
    if partition.move_start_offset():
        partition.around.wake()


def archive_between(
    partition: SharePartition,
    batches: Iterable[InFlightBatch],
    first_offset: int,
    end_offset: int,
    initial: RecordState,
    *,
    counts: bool,
) -> bool:
    """Archive the records of these offsets that are in a state. `counts`: they are deliveries that are complete.
    Whether there were any."""
    found = False
    for batch in batches:
        if batch.first_offset >= end_offset:
            break
        if (
            batch.whole is not None
            and batch.whole.state is initial
            and not batch.is_within(first_offset, end_offset - 1)
        ):
            partition.split(batch)
        for first, last, state in batch.states():
            is_outside = batch.whole is None and not first_offset <= first < end_offset
            if is_outside or state.state is not initial:
                continue
            state.archive()
            found = True
            if counts:
                partition.delivery_complete_count += last - first + 1
    return found


def archive_stale(partition: SharePartition, fetch_offset: int, base_offset: int) -> None:
    """The log has no records from the fetch offset up to the first batch that was read: they were compacted away, or
    are of transactions that nobody sees."""
    if not partition.batches or fetch_offset >= base_offset:
        return
    among = partition.batches.around(fetch_offset, base_offset - 1)
    if archive_between(partition, among, fetch_offset, base_offset, RecordState.AVAILABLE, counts=True):
        partition.find_next_fetch_offset = True


def follow_log_start(partition: SharePartition, log_start_offset: int) -> None:
    """Records before the log start offset are not there any more."""
    if log_start_offset <= partition.start_offset:
        return
    if not partition.batches:
        partition.start_offset = partition.end_offset = log_start_offset
        partition.delivery_complete_count = 0
        return
    removed = _count_done(partition, log_start_offset)
    if archive_between(
        partition, partition.batches, partition.start_offset, log_start_offset, RecordState.AVAILABLE, counts=False
    ):
        partition.find_next_fetch_offset = True
    partition.start_offset = log_start_offset
    partition.delivery_complete_count -= removed
    partition.end_offset = max(partition.end_offset, log_start_offset)


def _count_done(partition: SharePartition, before_offset: int) -> int:
    """The complete deliveries from the start offset up to another one."""
    return sum(
        max(0, min(last, before_offset - 1) - max(first, partition.start_offset) + 1)
        for batch in partition.batches
        for first, last, state in batch.states()
        if state.state.is_terminal
    )
