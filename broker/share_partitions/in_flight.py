"""The state of records in flight, and batches of them in the order of their offsets.

A batch has one state for all its records until they differ; then each offset has its own. Source of the rules:
`InFlightState` and `InFlightBatch` of Apache Kafka 4.3.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final, TypeAlias

from klamm.broker.share_partitions.locks import AcquisitionLock

NOBODY: Final = ""
"""In place of a member id: no member has the records."""


class RecordState(IntEnum):
    """As in records and requests. 3, ARCHIVING, is not used by Apache Kafka 4.3."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """The delivery is complete."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


_NEXT: Final = {
    RecordState.AVAILABLE: frozenset({RecordState.ACQUIRED}),
    RecordState.ACQUIRED: frozenset({RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED}),
    RecordState.ACKNOWLEDGED: frozenset[RecordState](),
    RecordState.ARCHIVED: frozenset[RecordState](),
}
NewLock: TypeAlias = Callable[[str, int, int, int], AcquisitionLock]
"""Starts a lock: the member, first and last offset, and how long it lasts in ms."""


class InFlight:
    """The state that some records share."""

    __slots__ = ("_before", "_is_archived", "delivery_count", "lock", "member_id", "state")

    def __init__(
        self, state: RecordState, delivery_count: int, member_id: str = NOBODY, lock: AcquisitionLock | None = None
    ) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock = lock
        """The acquisition lock; None: there is none, or that of the batch."""
        self._before: tuple[RecordState, str, int] | None = None
        """State and member before the transition that is not complete, and the delivery limit. None: there is none."""
        self._is_archived = False

    @property
    def is_changing(self) -> bool:
        """A transition is not complete."""
        return self._before is not None

    @property
    def is_free(self) -> bool:
        """May be acquired."""
        return self.state is RecordState.AVAILABLE and self._before is None

    def move(self, to: RecordState, limit: int, member_id: str = NOBODY) -> bool:
        """Go to another state, if that is allowed now. What would become available at the delivery limit is
        archived. What is acquired is delivered once more."""
        if self._before is not None:
            return False
        if to is RecordState.AVAILABLE and self.delivery_count >= limit:
            to = RecordState.ARCHIVED
        if to not in _NEXT[self.state]:
            return False
        self.state, self.member_id = to, member_id
        if to is RecordState.ACQUIRED:
            self.delivery_count += 1
        return True

    def begin(self, to: RecordState, limit: int) -> bool:
        """Begin a transition, which `complete` ends. The lock goes on meanwhile."""
        before = self.state, self.member_id, limit
        if not self.move(to, limit):
            return False
        self._before = before
        return True

    def complete(self, *, commit: bool) -> None:
        """End the transition. Without `commit` the state is the one before; if the lock has expired meanwhile, the
        records are available or, at the delivery limit, archived."""
        assert self._before is not None, "a transition has begun"
        (state, member_id, limit), self._before = self._before, None
        if commit or self._is_archived:
            self.unlock()
        elif self.lock is not None and self.lock.has_expired:
            self.state = RecordState.ARCHIVED if self.delivery_count >= limit else RecordState.AVAILABLE
            self.member_id = NOBODY
            self.unlock()
        else:
            self.state, self.member_id = state, member_id

    def archive(self) -> None:
        """The records are not in the log any more, or not to be delivered. A transition that is not complete ends in
        this state, too."""
        self._is_archived = True
        self.state, self.member_id = RecordState.ARCHIVED, NOBODY
        self.unlock()

    def unlock(self) -> None:
        """Stop the lock."""
        if self.lock is not None:
            self.lock.cancel()
            self.lock = None


class InFlightBatch:
    """Records `first_offset` to `last_offset`."""

    __slots__ = ("first_offset", "last_offset", "offsets", "whole")

    def __init__(self, first_offset: int, last_offset: int, whole: InFlight) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.whole: InFlight | None = whole
        """The state of all records; None: each has its own."""
        self.offsets: dict[int, InFlight] = {}
        """The states by offset, in ascending order, if each record has its own."""

    @property
    def count(self) -> int:
        return self.last_offset - self.first_offset + 1

    def states(self) -> Iterator[tuple[int, int, InFlight]]:
        """First and last offset of each state."""
        if self.whole is not None:
            yield self.first_offset, self.last_offset, self.whole
        for offset, state in self.offsets.items():
            yield offset, offset, state

    def is_within(self, first_offset: int, last_offset: int) -> bool:
        return self.first_offset >= first_offset and self.last_offset <= last_offset

    def split(self, new_lock: NewLock, now_ms: int) -> None:
        """From now on each record has its own state, and a lock for the rest of the batch's time."""
        whole = self.whole
        if whole is None:
            return
        left_ms = None if whole.lock is None else whole.lock.due_ms - now_ms
        for offset in range(self.first_offset, self.last_offset + 1):
            lock = None if left_ms is None else new_lock(whole.member_id, offset, offset, left_ms)
            self.offsets[offset] = InFlight(whole.state, whole.delivery_count, whole.member_id, lock)
        whole.unlock()
        self.whole = None

    def split_at(self, last_acquired: int, new_lock: NewLock, delay_ms: int) -> None:
        """From now on each record has its own state: those up to `last_acquired` are acquired, the others available."""
        whole = self.whole
        assert whole is not None, "the batch is new"
        for offset in range(self.first_offset, self.last_offset + 1):
            if offset <= last_acquired:
                lock = new_lock(whole.member_id, offset, offset, delay_ms)
                self.offsets[offset] = InFlight(whole.state, whole.delivery_count, whole.member_id, lock)
            else:
                self.offsets[offset] = InFlight(RecordState.AVAILABLE, whole.delivery_count - 1)
        self.whole = None


class Batches:
    """Batches that do not overlap, in the order of their offsets."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._by_first: dict[int, InFlightBatch] = {}

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __len__(self) -> int:
        return len(self._firsts)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return (self._by_first[first] for first in list(self._firsts))

    @property
    def first(self) -> InFlightBatch:
        return self._by_first[self._firsts[0]]

    @property
    def last(self) -> InFlightBatch:
        return self._by_first[self._firsts[-1]]

    @property
    def state_count(self) -> int:
        """How many states the records have together."""
        return sum(len(batch.offsets) or 1 for batch in self._by_first.values())

    def put(self, batch: InFlightBatch) -> None:
        if batch.first_offset not in self._by_first:
            insort(self._firsts, batch.first_offset)
        self._by_first[batch.first_offset] = batch

    def floor(self, offset: int) -> InFlightBatch | None:
        """The last batch that begins at or before `offset`."""
        index = bisect_right(self._firsts, offset) - 1
        return self._by_first[self._firsts[index]] if index >= 0 else None

    def higher(self, offset: int) -> InFlightBatch | None:
        """The first batch that begins behind `offset`."""
        index = bisect_right(self._firsts, offset)
        return self._by_first[self._firsts[index]] if index < len(self._firsts) else None

    def between(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """The batches that begin at these offsets, the last one included."""
        low, high = bisect_left(self._firsts, first_offset), bisect_right(self._firsts, last_offset)
        return [self._by_first[first] for first in self._firsts[low:high]]

    def around(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """The batches that may hold these offsets: those that begin there, and the one before."""
        floor = self.floor(first_offset)
        return self.between(first_offset if floor is None else floor.first_offset, last_offset)

    def remove_before(self, offset: int) -> list[InFlightBatch]:
        """Remove the batches that begin before `offset`, and return them."""
        index = bisect_left(self._firsts, offset)
        removed, self._firsts = self._firsts[:index], self._firsts[index:]
        return [self._by_first.pop(first) for first in removed]

    def clear(self) -> None:
        self._firsts.clear()
        self._by_first.clear()
