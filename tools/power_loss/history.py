"""What was done to a directory, operation by operation, and what the disk may hold of it after a loss of power.

A `DiskState` has two sides. The one side is what was synced: the bytes of a file after an fsync of the file, the
entries of a directory after an fsync of the directory. Only these are sure to survive. The other side is pending: a
disk may have stored any part of it, in any order. A `Fate` says which part, and `picture` is the directory that a
machine finds when it starts again.

This module knows neither real files nor the system: `tools.power_loss.disk` records the operations,
`tools.power_loss.fates` has the fates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Node: TypeAlias = int
"""A file or a directory, whatever its name is."""
ROOT: Final = 0
Picture: TypeAlias = Mapping[str, bytes | None]
"""A directory: what is in each file, by its path below the root. None: a directory."""


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes at a position of a file."""

    file: Node
    position: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Truncated:
    """A file was cut to a size."""

    file: Node
    size: int


@dataclass(frozen=True, slots=True)
class Created:
    """A name for a new file or directory."""

    folder: Node
    name: str
    node: Node
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class Removed:
    """A name was removed."""

    folder: Node
    name: str


@dataclass(frozen=True, slots=True)
class Renamed:
    """A file has another name in the same directory; a file that had this name before is gone."""

    folder: Node
    old_name: str
    name: str
    node: Node


@dataclass(frozen=True, slots=True)
class Synced:
    """An fsync or fdatasync of a file or a directory returned. It covers the operations before number `begun_at`."""

    node: Node
    begun_at: int


ContentChange: TypeAlias = Written | Truncated
EntryChange: TypeAlias = Created | Removed | Renamed
Operation: TypeAlias = ContentChange | EntryChange | Synced


@dataclass(frozen=True, slots=True)
class Unsynced:
    """A file whose bytes were changed since they were synced."""

    file: Node


Pending: TypeAlias = EntryChange | Unsynced
"""What a disk may have stored or not."""
Spoil: TypeAlias = Callable[[bytes, bytes], bytes]
"""The bytes of a file after a loss of power, from those that were synced and those that were written."""


def whole(synced: bytes, written: bytes) -> bytes:
    """The disk has stored everything that was written."""
    return written


@dataclass(frozen=True, slots=True)
class Fate:
    """What a disk has stored of what is pending. The bytes of a file that is not among `stored` are those synced."""

    stored: frozenset[Pending]
    spoil: Spoil = whole


@dataclass(slots=True)
class _Content:
    synced: bytes = b""
    pending: list[tuple[int, ContentChange]] = field(default_factory=list)

    @property
    def written(self) -> bytes:
        return _content_after(self.synced, [change for _, change in self.pending])


@dataclass(slots=True)
class _Entries:
    synced: dict[str, Node] = field(default_factory=dict)
    pending: list[tuple[int, EntryChange]] = field(default_factory=list)


class DiskState:
    """A directory between two operations: what is synced of it, and what is pending."""

    def __init__(self) -> None:
        self._count = 0
        self._files: dict[Node, _Content] = {}
        self._folders: dict[Node, _Entries] = {ROOT: _Entries()}

    def apply(self, operation: Operation) -> None:
        """Apply one operation."""
        number, self._count = self._count, self._count + 1
        match operation:
            case Written() | Truncated():
                self._files[operation.file].pending.append((number, operation))
            case Synced():
                self._sync(operation)
            case _:
                if isinstance(operation, Created):
                    self._add(operation.node, is_folder=operation.is_folder)
                self._folders[operation.folder].pending.append((number, operation))

    def _add(self, node: Node, *, is_folder: bool) -> None:
        if is_folder:
            self._folders[node] = _Entries()
        else:
            self._files[node] = _Content()

    def _sync(self, operation: Synced) -> None:
        if operation.node in self._files:
            content = self._files[operation.node]
            covered = [change for number, change in content.pending if number < operation.begun_at]
            content.synced = _content_after(content.synced, covered)
            content.pending = content.pending[len(covered) :]
        else:
            entries = self._folders[operation.node]
            changes = [change for number, change in entries.pending if number < operation.begun_at]
            entries.synced = _entries_after(entries.synced, changes)
            entries.pending = entries.pending[len(changes) :]

    @property
    def pending(self) -> Sequence[Pending]:
        """What a power failure may take, in the order of the operations; files with changed bytes are last."""
        numbered = [change for entries in self._folders.values() for change in entries.pending]
        changes: list[Pending] = [change for _, change in sorted(numbered, key=lambda one: one[0])]
        return [*changes, *self.pending_files]

    @property
    def pending_files(self) -> Sequence[Unsynced]:
        """The files with unsynced bytes."""
        return [Unsynced(file) for file, content in self._files.items() if content.pending]

    def unsynced_bytes(self, file: Node) -> int:
        """How many bytes were written to a file since it was synced."""
        return sum(len(change.content) for _, change in self._files[file].pending if isinstance(change, Written))

    def picture(self, fate: Fate) -> Picture:
        """The directory that a machine finds after a loss of power."""
        found: dict[str, bytes | None] = {}
        self._draw(ROOT, "", fate, found)
        return found

    def _draw(self, folder: Node, path: str, fate: Fate, found: dict[str, bytes | None]) -> None:
        entries = self._folders[folder]
        stored = [change for _, change in entries.pending if change in fate.stored]
        for name, node in sorted(_entries_after(entries.synced, stored).items()):
            if node in self._folders:
                found[path + name] = None
                self._draw(node, f"{path}{name}/", fate, found)
            else:
                content = self._files[node]
                is_stored = Unsynced(node) in fate.stored
                found[path + name] = fate.spoil(content.synced, content.written) if is_stored else content.synced


def _content_after(content: bytes, changes: Sequence[ContentChange]) -> bytes:
    after = bytearray(content)
    for change in changes:
        if isinstance(change, Truncated):
            del after[change.size :]
        else:
            after[change.position : change.position + len(change.content)] = change.content
    return bytes(after)


def _entries_after(entries: Mapping[str, Node], changes: Sequence[EntryChange]) -> dict[str, Node]:
    after = dict(entries)
    for change in changes:
        match change:
            case Created():
                after[change.name] = change.node
            case Renamed():
                if after.get(change.old_name) == change.node:
                    del after[change.old_name]
                after[change.name] = change.node
            case Removed():
                after.pop(change.name, None)
    return after
