"""Record batches beyond the memory budget, in one file without a name: the system removes it when the process ends in
any way, also by SIGKILL.

The file is made at the first write, in the first folder that takes it. Space that batches no longer use is used again,
the largest hole first, and given back to the system at the end of the file. A process that forks while the file is open
shares it with its child, so servers that are forks of a warm process make theirs after the fork. Only the event loop
calls this module.
"""

import errno
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Final
from weakref import finalize

MAX_PIECES: Final = 1_000
"""The most pieces of one system call; Linux takes 1,024."""
_GIVEN_BACK_BYTES: Final = 16 * 1024 * 1024
"""The file is shortened when at least this much of its end is unused, or all of it."""
_STALE_HOLES: Final = 1_000
LARGE_TEMPORARY_FILES: Final = Path("/var/tmp")
"""By the Filesystem Hierarchy Standard a disk, whereas /tmp may be memory."""


class RecordFileError(Exception):
    """The file cannot be read. The text is one line with the reason."""


def temporary_folders() -> tuple[Path, ...]:
    """Where the file of a cluster without a data directory may be: TMPDIR if it is set, else a disk if there is one."""
    chosen = Path(tempfile.gettempdir())
    return (chosen,) if os.environ.get("TMPDIR") else (LARGE_TEMPORARY_FILES, chosen)


def _new_file(folder: Path) -> int:
    """The descriptor of a new file without a name. Children of this process do not inherit it unless they are forks."""
    with tempfile.TemporaryFile(buffering=0, prefix="klamm-records-", dir=folder) as file:
        return os.dup(file.fileno())


class RecordFile:
    """The file. Positions and sizes are in bytes."""

    def __init__(
        self, max_bytes: int, folders: Sequence[Path] | None = None, warn: Callable[[str], None] = lambda _reason: None
    ) -> None:
        """`folders`: the first that takes the file has it; None: the temporary ones. `warn` is called with each new
        reason why the file may not grow."""
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self.refusal = ""
        """Why the last `write` was refused: one clause for users. Empty if it was not."""
        self._folders = folders
        self._warn = warn
        self._warned: set[str] = set()
        self._descriptor: int | None = None
        self._closing: finalize[[int], RecordFile] | None = None
        self._end = 0
        self._size = 0
        self._holes: dict[int, int] = {}
        """The sizes of the unused parts before `_end`, by position. No two of them touch."""
        self._hole_at_end: dict[int, int] = {}
        """The position of each hole, by its end."""
        self._largest: list[tuple[int, int]] = []
        """A heap of (-size, position), which also has holes that are gone."""

    def has_room(self, size: int) -> bool:
        """Whether the budget allows a piece of this size."""
        return self._end + size <= self.max_bytes or self._largest_hole() >= size

    def write(self, pieces: Sequence[bytes]) -> int | None:
        """Write the pieces, at most `MAX_PIECES`, one after the other. Returns the position of the first; None: there
        is no room, and `refusal` has the reason."""
        size = sum(map(len, pieces))
        position = self._allocate(size)
        if position is None:
            self._refuse(f"--data-file-bytes allows {self.max_bytes} bytes of records in files")
            return None
        self.used_bytes += size
        try:
            self._write_at(position, pieces, size)
        except OSError as error:
            self.free(position, size)
            self._refuse(f"the file for records cannot grow: {error.strerror or error}")
            return None
        self.refusal = ""
        return position

    def read(self, position: int, size: int) -> bytes:
        """The bytes at a position. Raises RecordFileError."""
        assert self._descriptor is not None, "only written bytes are read"
        try:
            found = os.pread(self._descriptor, size, position)
            while len(found) < size:  # a signal may end a read early
                more = os.pread(self._descriptor, size - len(found), position + len(found))
                if not more:
                    raise RecordFileError(f"the file for records ends {size - len(found)} bytes early")
                found += more
        except OSError as error:
            raise RecordFileError(f"the file for records cannot be read: {error.strerror or error}") from error
        return found

    def free(self, position: int, size: int) -> None:
        """Give up the bytes at a position."""
        self.used_bytes -= size
        following = self._holes.get(position + size)
        if following is not None:
            self._take_hole(position + size)
            size += following
        before = self._hole_at_end.get(position)
        if before is not None:
            size += self._take_hole(before)
            position = before
        if position + size < self._end:
            self._add_hole(position, size)
            return
        self._end = position
        if self._descriptor is not None and (self._size - self._end >= _GIVEN_BACK_BYTES or not self._end):
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._end)
                self._size = self._end

    def close(self) -> None:
        """Remove the file. Without a call, it ends with this object."""
        if self._closing is not None:
            self._closing()
            self._closing = self._descriptor = None

    def _write_at(self, position: int, pieces: Sequence[bytes], size: int) -> None:
        descriptor = self._open() if self._descriptor is None else self._descriptor
        written = os.pwritev(descriptor, pieces, position)
        if written < size:  # the disk is almost full, or a signal came
            rest = memoryview(b"".join(pieces))
            while written < size:
                more = os.pwrite(descriptor, rest[written:], position + written)
                if not more:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                written += more
        self._size = max(self._size, position + size)

    def _open(self) -> int:
        """Make the file. Raises OSError of the last folder if none takes it."""
        *others, last = temporary_folders() if self._folders is None else self._folders
        descriptor = None
        for folder in others:
            with suppress(OSError):
                descriptor = _new_file(folder)
                break
        self._descriptor = descriptor = _new_file(last) if descriptor is None else descriptor
        self._closing = finalize(self, os.close, descriptor)
        return descriptor

    def _refuse(self, reason: str) -> None:
        self.refusal = reason
        if reason not in self._warned:
            self._warned.add(reason)
            self._warn(reason)

    def _allocate(self, size: int) -> int | None:
        if self._largest_hole() >= size:
            position = self._largest[0][1]
            rest = self._take_hole(position) - size
            if rest:
                self._add_hole(position + size, rest)
            return position
        if self._end + size > self.max_bytes:
            return None
        self._end += size
        return self._end - size

    def _largest_hole(self) -> int:
        while self._largest:
            negative, position = self._largest[0]
            if self._holes.get(position) == -negative:
                return -negative
            heappop(self._largest)
        return 0

    def _add_hole(self, position: int, size: int) -> None:
        self._holes[position] = size
        self._hole_at_end[position + size] = position
        heappush(self._largest, (-size, position))
        if len(self._largest) > 2 * len(self._holes) + _STALE_HOLES:
            self._largest = [(-size, position) for position, size in self._holes.items()]
            heapify(self._largest)

    def _take_hole(self, position: int) -> int:
        """Returns its size."""
        size = self._holes.pop(position)
        del self._hole_at_end[position + size]
        return size
