"""Which part of what was not synced a disk has stored when the power goes: every telling fate, or one by chance.

`every_fate` takes what is pending apart. Each change alone is stored, and each change alone is lost: so every pair of
changes is seen in either order, and a missing fsync between two steps is found whichever the second step is. `lost` and
`kept` are the ends: a disk that had stored nothing, and a process that was killed while the machine went on.
`random_fate` decides for each page of a file and for each directory entry by itself.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random
from typing import Final

from tools.power_loss.history import DiskState, Fate, Pending, Spoil, Unsynced, whole

PAGE_BYTES: Final = 4096
"""A system writes files to the disk in pieces of this size, in any order."""
SECTOR_BYTES: Final = 512
"""A disk writes this many bytes at once, or none of them."""

SUBSETS_UP_TO = 3
"""Of this number of changes or fewer every subset is tried."""


def torn(synced: bytes, written: bytes) -> bytes:
    """Half of the new bytes are stored."""
    if len(written) <= len(synced):
        return written
    return written[: (len(synced) + len(written) + 1) // 2]


def zeroed(synced: bytes, written: bytes) -> bytes:
    """The file has its new size, and zeros where the new bytes belong."""
    return synced[: len(written)] + bytes(max(0, len(written) - len(synced)))


def lost(state: DiskState) -> Fate:
    """Nothing that was not synced is stored."""
    return Fate(frozenset())


def kept(state: DiskState) -> Fate:
    """Everything is stored, as after the kill of a process."""
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
    """None, all, each change alone, all but one, and the changes before or after each point."""
    for number in range(len(pending)):
        yield [pending[number]]
        yield [*pending[:number], *pending[number + 1 :]]
        yield pending[:number]
        yield pending[number:]


def random_fate(state: DiskState, random: Random) -> Fate:
    """Any part of the pending changes, page by page and entry by entry. Often nearly everything or nearly nothing,
    because a hole is most revealing where everything else is stored."""
    share = random.choice((0.1, 0.5, 0.9, 0.98))
    return Fate(
        frozenset(change for change in state.pending if random.random() < share or isinstance(change, Unsynced)),
        random_pages(random, share),
    )


def random_pages(random: Random, stored_share: float) -> Spoil:
    """For each page, with this probability, the new bytes; otherwise those that were synced (zeros where there were
    none), or new sectors before old ones. The size of the file is the old or the new one, or ends with a page between
    them."""

    def spoil(synced: bytes, written: bytes) -> bytes:
        least, most = sorted((len(synced), len(written)))
        between = range(least + -least % PAGE_BYTES, most, PAGE_BYTES)
        size = random.choice((len(written), len(written), len(synced), random.choice(between or (most,))))
        found = bytearray()
        for start in range(0, size, PAGE_BYTES):
            new, old = (content[start : start + PAGE_BYTES].ljust(PAGE_BYTES, b"\0") for content in (written, synced))
            if random.random() < stored_share:
                found += new
            else:
                torn_at = SECTOR_BYTES * random.choice((0, 0, random.randrange(PAGE_BYTES // SECTOR_BYTES)))
                found += new[:torn_at] + old[torn_at:]
        return bytes(found[:size])

    return spoil
