"""A disk whose power may go: what was synced is there afterwards, of the rest any part.

The server works in a real directory with the real code; only the calls that make something durable end here, and are
remembered. A power cut is a picture of the directory as the next start may find it, taken while the old process knows
of nothing; whatever that one still writes goes into a directory that nobody looks at any more. Of bytes that were not
synced any number is there, the last of them perhaps zeros; a new name, or one that was given to another file, is there
or not. Removed files are gone at once. Files only grow, or are replaced by a rename, as all of those in a data
directory.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random

SMALL_BYTES = 65_536
"""Files that are replaced are smaller than that: what they held when they were synced is kept."""
LOCK_FILE = ".lock"


class Disk:
    """Directories of one cluster, one after the other: `data_dir` is the one of now."""

    def __init__(self, root: Path, chance: Random) -> None:
        self._root = root
        self._chance = chance
        self._lives = 0
        self.data_dir = root / "0"
        self.on_cut: Callable[[], None] = lambda: None
        self.syncs = 0
        self._cut_at_sync: int | None = None
        self._forget()

    def _forget(self) -> None:
        self._synced: dict[int, int] = {}
        self._contents: dict[int, bytes] = {}
        self._entries: dict[Path, dict[str, int]] = {}

    def sync(self, fd: int) -> None:
        """In place of fsync and fdatasync."""
        self.syncs += 1
        if self._cut_at_sync is not None and self.syncs >= self._cut_at_sync:
            self.cut_power()
        path, found = Path(f"/proc/self/fd/{fd}").readlink(), os.fstat(fd)
        if not path.is_relative_to(self.data_dir):
            return
        if stat.S_ISDIR(found.st_mode):
            self._sync_entries(path)
        else:
            self._synced[found.st_ino] = found.st_size
            if found.st_size <= SMALL_BYTES and path.suffix != ".log":
                self._contents[found.st_ino] = path.read_bytes()

    def _sync_entries(self, folder: Path) -> None:
        self._entries[folder] = {entry.name: entry.inode() for entry in os.scandir(folder) if entry.is_file()}
        there = {inode for entries in self._entries.values() for inode in entries.values()}
        for known in (self._synced, self._contents):
            for inode in known.keys() - there:  # or another file may get its number
                del known[inode]

    def cut_power_soon(self, syncs: int) -> None:
        """At one of the next syncs, instead of it."""
        self._cut_at_sync = self.syncs + syncs

    def keep_power(self) -> None:
        """Whatever was to come, it does not."""
        self._cut_at_sync = None

    def cut_power(self) -> None:
        """From now on `data_dir` is what the next start finds."""
        self._cut_at_sync = None
        old, self._lives = self.data_dir, self._lives + 1
        new = self._root / str(self._lives)
        new.mkdir()
        for folder in sorted([old, *(path for path in old.rglob("*") if path.is_dir())]) if old.exists() else []:
            (new / folder.relative_to(old)).mkdir(exist_ok=True)
            self._copy(folder, new / folder.relative_to(old))
        self.data_dir = new
        self._forget()
        for folder in sorted([new, *(path for path in new.rglob("*") if path.is_dir())]):
            self._entries[folder] = {}
            for path in sorted(folder.iterdir()):
                if path.is_file():
                    self._synced[path.stat().st_ino] = path.stat().st_size
                    if path.stat().st_size <= SMALL_BYTES:
                        self._contents[path.stat().st_ino] = path.read_bytes()
            self._sync_entries(folder)
        self.on_cut()

    def _copy(self, old: Path, new: Path) -> None:
        now = {path.name: path.stat().st_ino for path in old.iterdir() if path.is_file()}
        durable = self._entries.get(old, {})
        for name in sorted(now):
            if name == LOCK_FILE:
                continue
            before = durable.get(name)
            if before != now[name] and self._chance.random() < 0.5:
                if before is not None:
                    (new / name).write_bytes(self._contents[before])
                continue
            (new / name).write_bytes(self._what_is_left(old / name, now[name]))

    def _what_is_left(self, path: Path, inode: int) -> bytes:
        content = path.read_bytes()
        safe = min(self._synced.get(inode, 0), len(content))
        kept = self._chance.choice((safe, safe, len(content), self._chance.randint(safe, len(content))))
        if self._chance.random() < 0.3:
            zeros = self._chance.randint(safe, kept)
            return content[:zeros] + bytes(kept - zeros)
        return content[:kept]
