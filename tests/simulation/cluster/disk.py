"""The disk of a simulated machine, whose power goes: what was synced is there afterwards, of the rest any part.

The server works in a real directory, and `tools.power_loss` records what it does there. A power cut is a picture of
the directory as the next start may find it, taken while the old process knows of nothing. Whatever that process still
writes goes into a directory that no start finds. Of bytes that were not synced any number is there, the last of them
perhaps zeros, from the beginning of a sector on: disks store sectors as a whole. A new name, or one that was given to
another file, is there or not. Removed files are gone at once.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from tools.power_loss.disk import Disk as RecordedDisk
from tools.power_loss.disk import lay_down
from tools.power_loss.history import Fate, Removed, Unsynced

SECTOR_BYTES = 512


class Disk:
    """Directories of one cluster, one after the other: `data_dir` is the one of now."""

    def __init__(self, root: Path, chance: Random) -> None:
        self._root = root
        self._chance = chance
        self._lives = 0
        self.data_dir = root / "0"
        self.data_dir.mkdir(parents=True)
        self.on_cut: Callable[[], None] = lambda: None
        self.syncs = 0
        self._cut_at_sync: int | None = None
        self._recorded = RecordedDisk(self.data_dir)
        self._watching = ExitStack()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """As long as this lasts, fsync and fdatasync end here."""
        with self._watching:
            self._watch()
            yield

    def _watch(self) -> None:
        self._recorded.on_sync = self._count_sync
        self._watching.enter_context(self._recorded.watched())

    def _count_sync(self) -> None:
        self.syncs += 1
        if self._cut_at_sync is not None and self.syncs >= self._cut_at_sync:
            self.cut_power()

    def cut_power_soon(self, syncs: int) -> None:
        """At one of the next syncs, instead of it."""
        self._cut_at_sync = self.syncs + syncs

    def keep_power(self) -> None:
        """No power cut comes, though one was to come soon."""
        self._cut_at_sync = None

    def cut_power(self) -> None:
        """From now on `data_dir` is what the next start finds."""
        self._cut_at_sync = None
        picture = self._recorded.state.picture(self._fate())
        self._lives += 1
        self.data_dir = self._root / str(self._lives)
        lay_down(self.data_dir, picture)
        self._watching.close()
        self._recorded = RecordedDisk(self.data_dir)
        self._watch()
        self.on_cut()

    def _fate(self) -> Fate:
        pending = self._recorded.state.pending
        stored = [one for one in pending if isinstance(one, Unsynced | Removed) or self._chance.random() < 0.5]
        return Fate(frozenset(stored), self._what_is_left)

    def _what_is_left(self, synced: bytes, written: bytes) -> bytes:
        safe = min(len(synced), len(written))
        kept = self._chance.choice((safe, safe, len(written), self._chance.randint(safe, len(written))))
        if self._chance.random() < 0.3:
            zeros = self._chance.randint(safe, kept)
            zeros = max(safe, zeros - zeros % SECTOR_BYTES)
            return written[:zeros] + bytes(kept - zeros)
        return written[:kept]
