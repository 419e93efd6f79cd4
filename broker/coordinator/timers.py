"""Timers by key, on the controller's clock. Nothing runs by itself: the owner asks which timers are due."""

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT")


class Timers(Generic[KeyT]):
    """One time (ms) for each key. To set a timer again costs no heap operation if its time becomes later."""

    def __init__(self) -> None:
        self._due: dict[KeyT, int] = {}
        self._queued: dict[KeyT, int] = {}
        """By key: the time of its valid entry in the heap, which may be earlier than its due time."""
        self._heap: list[tuple[int, int, KeyT]] = []
        self._serial = 0

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: KeyT, due_ms: int) -> None:
        """Set the timer of this key, in place of its former one."""
        self._due[key] = due_ms
        queued_ms = self._queued.get(key)
        if queued_ms is None or due_ms < queued_ms:
            self._push(key, due_ms)

    def cancel(self, key: KeyT) -> None:
        """Remove the timer of this key, if there is one."""
        if self._due.pop(key, None) is not None and len(self._heap) > 2 * len(self._due) + 64:
            self._heap = [entry for entry in self._heap if self._is_valid(entry)]
            heapify(self._heap)
            self._queued = {key: at_ms for at_ms, _, key in self._heap}

    @property
    def next_due_ms(self) -> int | None:
        """The time of the next timer, or earlier if that timer was set again; None: there is no timer."""
        while self._heap and not self._is_valid(self._heap[0]):
            self._drop_first()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> KeyT | None:
        """Remove a timer whose time has come and return its key. None: no timer is due."""
        while (at_ms := self.next_due_ms) is not None and at_ms <= now_ms:
            key = self._drop_first()
            due_ms = self._due[key]
            if due_ms <= now_ms:
                del self._due[key]
                return key
            self._push(key, due_ms)
        return None

    def _push(self, key: KeyT, at_ms: int) -> None:
        self._serial += 1
        self._queued[key] = at_ms
        heappush(self._heap, (at_ms, self._serial, key))

    def _is_valid(self, entry: tuple[int, int, KeyT]) -> bool:
        at_ms, _, key = entry
        return key in self._due and self._queued.get(key) == at_ms

    def _drop_first(self) -> KeyT:
        at_ms, _, key = heappop(self._heap)
        if self._queued.get(key) == at_ms:
            del self._queued[key]
        return key
