"""Which part of what was not synced a disk has stored when the power goes: the fates that tests go through.

`every_fate` takes what is pending apart. Each change alone is stored, and each change alone is lost: so every pair of
changes is seen in either order, and a missing fsync between two steps is found whichever the second step is. `LOST` and
`KEPT` are the ends: a disk that had stored nothing, and a process that was killed while the machine went on.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from tests.disk.history import DiskState, Fate, Pending, Unsynced, whole

SUBSETS_UP_TO = 3
"""Of so few changes every subset is tried."""


def torn(synced: bytes, written: bytes) -> bytes:
    """Half of the new bytes are there."""
    if len(written) <= len(synced):
        return written
    return written[: (len(synced) + len(written) + 1) // 2]


def zeroed(synced: bytes, written: bytes) -> bytes:
    """The file has its new size, and zeros where the new bytes belong."""
    return synced[: len(written)] + bytes(max(0, len(written) - len(synced)))


def lost(state: DiskState) -> Fate:
    """Nothing is stored of what was not synced."""
    return Fate(frozenset())


def kept(state: DiskState) -> Fate:
    """Everything is stored, as after a process was killed."""
    return Fate(frozenset(state.pending))


def every_fate(state: DiskState) -> Iterator[Fate]:
    """Fates that a test of durability goes through at one point of a history."""
    pending = state.pending
    subsets = _all_subsets(pending) if len(pending) <= SUBSETS_UP_TO else _telling_subsets(pending)
    yield from (Fate(frozenset(stored)) for stored in subsets)
    entries = [change for change in pending if not isinstance(change, Unsynced)]
    for stored in (pending,) if len(entries) == len(pending) else (pending, entries):
        for spoil in (whole, torn, zeroed):
            yield Fate(frozenset(stored), spoil)
    for file in (change for change in pending if isinstance(change, Unsynced)):
        for spoil in (torn, zeroed):
            yield Fate(frozenset([*entries, file]), spoil)


def _all_subsets(pending: Sequence[Pending]) -> Iterator[Sequence[Pending]]:
    for size in range(len(pending) + 1):
        yield from combinations(pending, size)


def _telling_subsets(pending: Sequence[Pending]) -> Iterator[Sequence[Pending]]:
    """None, all, each change alone, all but one, and what was done before or after each point."""
    for number in range(len(pending)):
        yield [pending[number]]
        yield [*pending[:number], *pending[number + 1 :]]
        yield pending[:number]
        yield pending[number:]
