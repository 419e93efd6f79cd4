"""Acquisition locks on the controller's clock: a record that is acquired returns when its lock expires.

Nothing runs by itself: the owner asks which locks have expired.
"""

from collections.abc import Callable
from typing import Any, Final

from klamm.broker.coordinator.timers import Timers

EXPIRED_AT_ONCE: Final = 1_000
"""Locks that one call of `expire` ends, about 5 ms of work."""


class AcquisitionLock:
    """The lock of one member on records of one share partition."""

    __slots__ = ("_locks", "_serial", "due_ms", "first_offset", "has_expired", "last_offset", "member_id", "partition")

    def __init__(
        self,
        locks: "Locks",
        serial: int,
        partition: Any,
        member_id: str,
        offsets: tuple[int, int],
        due_ms: int,
    ) -> None:
        self._locks = locks
        self._serial = serial
        self.partition = partition
        """The `SharePartition`, which knows of locks."""
        self.member_id = member_id
        self.first_offset, self.last_offset = offsets
        self.due_ms = due_ms
        self.has_expired = False

    def cancel(self) -> None:
        """The lock does not expire any more."""
        self._locks.forget(self._serial)


class Locks:
    """All locks of one process."""

    def __init__(self) -> None:
        self._timers: Timers[int] = Timers()
        self._by_serial: dict[int, AcquisitionLock] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._by_serial)

    def start(
        self, partition: Any, member_id: str, first_offset: int, last_offset: int, due_ms: int
    ) -> AcquisitionLock:
        """A new lock."""
        self._serial += 1
        lock = AcquisitionLock(self, self._serial, partition, member_id, (first_offset, last_offset), due_ms)
        self._by_serial[self._serial] = lock
        self._timers.set(self._serial, due_ms)
        return lock

    def forget(self, serial: int) -> None:
        if self._by_serial.pop(serial, None) is not None:
            self._timers.cancel(serial)

    @property
    def next_due_ms(self) -> int | None:
        """When a lock may expire next."""
        return self._timers.next_due_ms

    def expire(self, now_ms: int, expired: Callable[[AcquisitionLock], None]) -> None:
        """Call `expired` with each lock whose time is over, some at a time."""
        for _ in range(EXPIRED_AT_ONCE):
            serial = self._timers.pop_due(now_ms)
            if serial is None:
                return
            lock = self._by_serial.pop(serial)
            lock.has_expired = True
            expired(lock)
