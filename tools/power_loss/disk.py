"""A disk that forgets: a real directory whose operations are recorded, so that the power can be lost at any of them.

The code under test is the real one, and so is the directory. Python announces each operation on files by an audit
event before it happens; fsync and fdatasync, which have none, end here. At each of them the directory is compared with
what it was, and the differences are the operations of a `DiskState`: so bytes are seen however they were written. What
is synced is not synced for real. The lock file is left alone: a process that dies lets go of it in any case.
"""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from klamm.controller.log import segment_log
from klamm.controller.log.data_dir import LOCK_FILE
from tools.power_loss.history import (
    ROOT,
    Created,
    DiskState,
    Node,
    Operation,
    Picture,
    Removed,
    Renamed,
    Synced,
    Truncated,
    Written,
)

SMALL_BYTES = 65_536
"""A file of this size or less is read each time; of a larger one the size or the modification time shows that it
differs."""
_EVENTS = frozenset({"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"})


class Killed(BaseException):
    """The process is dead from this point on."""


class Disk:
    """The directory `folder`. Its content at the beginning is durable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.operations: list[Operation] = []
        self._state = DiskState()
        self.steps = 0
        """The number of operations that were begun, including those that fail: `kill_before` counts these."""
        self.on_sync: Callable[[], None] = lambda: None
        """Called when a sync has begun. The sync does not cover what is done in this call."""
        self._alive_steps: int | None = None
        self._known: dict[Node, dict[str, Node]] = {ROOT: {}}
        self._node_of = {folder.stat().st_ino: ROOT}
        self._contents: dict[Node, tuple[os.stat_result, bytes]] = {}
        self._nodes = 1
        self.look()
        for node in range(self._nodes):
            self._record(Synced(node, len(self.operations)))
        self._begun_at = len(self.operations)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Record the operations on the directory inside of the block."""
        _watch(self)
        try:
            with patch("os.fsync", self.sync), patch.object(segment_log, "_sync_data", self.sync):
                yield
        finally:
            _WATCHED.remove(self)
            self.look()

    def kill_before(self, step: int) -> None:
        """Let the process die before the operation of this number, counted from now on: this one, and any later
        operation, raises `Killed`."""
        self._alive_steps = self.steps + step

    def revive(self) -> None:
        """Another process starts."""
        self._alive_steps = None

    def sync(self, fd: int) -> None:
        """Called in place of fsync and fdatasync."""
        if not Path(f"/proc/self/fd/{fd}").readlink().is_relative_to(self.folder):
            return
        self.step()
        node, begun_at = self._node_of.get(os.fstat(fd).st_ino), len(self.operations)
        self.on_sync()
        self.look()
        if node is not None:  # otherwise a file without a name
            self._record(Synced(node, begun_at))

    def step(self) -> None:
        """An operation is about to begin."""
        self.look()
        self.steps += 1
        if self._alive_steps is not None and self.steps > self._alive_steps:
            raise Killed

    @property
    def state(self) -> DiskState:
        """The present state. It changes with the disk."""
        self.look()
        return self._state

    @property
    def now(self) -> int:
        """The number of recorded operations: a point of the history."""
        self.look()
        return len(self.operations)

    def states(self) -> Iterator[tuple[int, DiskState]]:
        """The disk before each operation and after the last one, by the point of the history. It is one object, which
        changes."""
        state = DiskState()
        for point, operation in enumerate(self.operations):
            if point >= self._begun_at:
                yield point, state
            state.apply(operation)
        yield len(self.operations), state

    def look(self) -> None:
        """Record what was done since the last call."""
        # From the top: a new directory is known before its content is read.
        folders = [(ROOT, self.folder)]
        while folders:
            folder, path = folders.pop()
            with os.scandir(path) as entries:
                found = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
            self._compare_entries(folder, found)
            for name in sorted(found):
                node = self._known[folder][name]
                if stat.S_ISDIR(found[name].st_mode):
                    folders.append((node, path / name))
                else:
                    self._compare_content(node, path / name, found[name])

    def _compare_entries(self, folder: Node, found: dict[str, os.stat_result]) -> None:
        before = self._known[folder]
        gone = {node: name for name, node in before.items() if name not in found}
        after: dict[str, Node] = {}
        for name, status in sorted(found.items()):
            node = self._node_of.get(status.st_ino)
            if node is not None and before.get(name) == node:
                after[name] = node
            elif node is not None and node in gone:
                self._record(Renamed(folder, gone.pop(node), name, node))
                after[name] = node
            else:
                after[name] = self._add(folder, name, status)
        for name in gone.values():
            self._record(Removed(folder, name))
        self._known[folder] = after
        self._forget(set(before.values()) - set(after.values()), {status.st_ino for status in found.values()})

    def _add(self, folder: Node, name: str, status: os.stat_result) -> Node:
        node, self._nodes = self._nodes, self._nodes + 1
        self._node_of[status.st_ino] = node
        is_folder = stat.S_ISDIR(status.st_mode)
        if is_folder:
            self._known[node] = {}
        self._record(Created(folder, name, node, is_folder))
        return node

    def _forget(self, nodes: set[Node], used: set[int]) -> None:
        """The system reuses the numbers of removed files."""
        for inode in [inode for inode, node in self._node_of.items() if node in nodes]:
            if inode not in used:
                del self._node_of[inode]

    def _compare_content(self, node: Node, path: Path, status: os.stat_result) -> None:
        known, before = self._contents.get(node, (None, b""))
        if known is not None and status.st_size > SMALL_BYTES and _is_same(known, status):
            return
        now = path.read_bytes()
        self._contents[node] = status, now
        if now == before:
            return
        same = _common_length(before, now)
        if len(now) < len(before):
            self._record(Truncated(node, len(now)))
        if same < len(now):
            self._record(Written(node, same, now[same:]))

    def _record(self, operation: Operation) -> None:
        self.operations.append(operation)
        self._state.apply(operation)


def _is_same(before: os.stat_result, now: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (now.st_size, now.st_mtime_ns, now.st_ctime_ns)


def _common_length(one: bytes, other: bytes) -> int:
    """The number of equal bytes at the beginning."""
    least = min(len(one), len(other))
    if one[:least] == other[:least]:
        return least
    return next(number for number in range(least) if one[number] != other[number])


def lay_down(folder: Path, picture: Picture) -> None:
    """Make `folder` with the content that a machine finds after a power failure."""
    folder.mkdir(parents=True)
    for name, content in picture.items():  # a directory comes before what is in it
        if content is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content)


_WATCHED: list[Disk] = []
_is_hooked = False


def _watch(disk: Disk) -> None:
    global _is_hooked  # noqa: PLW0603 - a hook cannot be removed, and one is enough
    if not _is_hooked:
        sys.addaudithook(_audit)
        _is_hooked = True
    _WATCHED.append(disk)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _WATCHED or event not in _EVENTS:
        return
    if event == "open" and not arguments[2] & (os.O_CREAT | os.O_TRUNC):
        return  # neither creates nor truncates a file
    path = _path_of(arguments[0])
    for disk in tuple(_WATCHED):  # a power cut, on the way, changes which ones are watched
        if path.is_relative_to(disk.folder) and path.name != LOCK_FILE:
            disk.step()


def _path_of(argument: Any) -> Path:
    return Path(f"/proc/self/fd/{argument}").readlink() if isinstance(argument, int) else Path(os.fsdecode(argument))
