"""The batches of one log, whole and in order: their bytes, in memory or in the file, and an index of them as arrays.

A batch is found by bisection in an array, from `first` on: the entries before it are of batches that were removed, and
are deleted from time to time. What offsets mean is the business of `partition_log`.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from klamm.broker.data.record_file import MAX_PIECES
from klamm.broker.data.record_room import ENTRY_BYTES, RecordRoom

_GIVEN_BACK_AT: Final = 512
"""At least this many removed batches have entries in the arrays before the entries are deleted."""
_IN_MEMORY: Final = -1


class StoredBatch(NamedTuple):
    """A batch that replaces others."""

    records: bytes
    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    appended_ms: int


class StoredBatches:
    """The batches with an index of `first` to before `behind`."""

    __slots__ = (
        "_bytes",
        "_filed_behind",
        "_positions",
        "_room",
        "_spill_from",
        "_spills",
        "appended_ms",
        "base_offsets",
        "begin",
        "ends",
        "first",
        "last_offsets",
        "max_timestamps_ms",
    )

    def __init__(self, room: RecordRoom, *, spills: bool = True) -> None:
        """`spills`: whether batches may go to the file."""
        self._room = room
        self._spills = spills
        self.first = 0
        self.base_offsets = array("q")
        self.last_offsets = array("q")
        self.max_timestamps_ms = array("q")
        self.appended_ms = array("q")
        self.ends = array("q")
        """Where each batch ends, in bytes ever written."""
        self.begin = 0
        """Where the first batch begins, in bytes ever written."""
        self._bytes: list[bytes | None] = []
        self._positions = array("q")
        """Where each batch is in the file; -1: it is in memory."""
        self._spill_from = 0
        """All batches before this index are in the file."""
        self._filed_behind = 0
        """All batches from this index on are in memory."""

    @property
    def behind(self) -> int:
        """The index after the newest batch."""
        return len(self._bytes)

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches."""
        return (self.ends[-1] if self.ends else self.begin) - self.begin

    def start_of(self, index: int) -> int:
        """Where a batch begins, in bytes ever written."""
        return self.ends[index - 1] if index > self.first else self.begin

    def append(self, records: bytes, offsets: tuple[int, int], max_timestamp_ms: int, now_ms: int) -> None:
        """Add a batch with its first and last offset. Its bytes are in memory, whatever room there is."""
        self.ends.append(self.begin + self.size_bytes + len(records))
        self._bytes.append(records)
        self._positions.append(_IN_MEMORY)
        self.base_offsets.append(offsets[0])
        self.last_offsets.append(offsets[1])
        self.max_timestamps_ms.append(max_timestamp_ms)
        self.appended_ms.append(now_ms)
        self._room.hold(len(records) + ENTRY_BYTES, self if self._spills else None)

    def read(self, index: int) -> bytes:
        """The bytes of one batch. Raises RecordFileError."""
        return self._bytes[index] or self._read_filed(index, index + 1)

    def join(self, first: int, behind: int) -> bytes:
        """The bytes of some batches, one after the other. Raises RecordFileError."""
        found: list[bytes] = []
        index = first
        while index < behind:
            records = self._bytes[index]
            if records is not None:
                found.append(records)
                index += 1
                continue
            run = self._end_of_run(index, behind)
            found.append(self._read_filed(index, run))
            index = run
        return found[0] if len(found) == 1 else b"".join(found)

    def filed_bytes(self, first: int, behind: int) -> int:
        """At least the bytes of these batches that are in the file."""
        behind = min(behind, self._filed_behind)
        return self.ends[behind - 1] - self.start_of(first) if behind > first else 0

    def remove_before(self, index: int) -> None:
        """Remove the batches before an index."""
        if index <= self.first:
            return
        self._release(self.first, index)
        self.begin = self.ends[index - 1]
        self._bytes[self.first : index] = [None] * (index - self.first)
        self.first = index
        if self.first >= _GIVEN_BACK_AT and 2 * self.first >= len(self._bytes):
            for entries in self._arrays:
                del entries[: self.first]
            del self._bytes[: self.first]
            self._spill_from = max(0, self._spill_from - self.first)
            self._filed_behind = max(0, self._filed_behind - self.first)
            self.first = 0

    def remove_from(self, index: int) -> None:
        """Remove the batches from an index on."""
        if index >= self.behind:
            return
        self._release(index, self.behind)
        for entries in self._arrays:
            del entries[index:]
        del self._bytes[index:]
        self._spill_from = min(self._spill_from, index)
        self._filed_behind = min(self._filed_behind, index)

    def replace(self, first: int, behind: int, written: Sequence[StoredBatch]) -> None:
        """Replace some batches by batches of the same offsets, or fewer. What is written is in memory."""
        shift = sum(len(one.records) for one in written) - (self.ends[behind - 1] - self.start_of(first))
        self._release(first, behind)
        ends = self.start_of(first) + np.cumsum([len(one.records) for one in written], dtype=np.int64)
        later = np.array(self.ends[behind:]) + shift
        del self.ends[first:]
        self.ends.frombytes(np.concatenate((ends, later)).astype(np.int64).tobytes())
        self._bytes[first:behind] = [one.records for one in written]
        self._positions[first:behind] = array("q", [_IN_MEMORY] * len(written))
        self.base_offsets[first:behind] = array("q", [one.base_offset for one in written])
        self.last_offsets[first:behind] = array("q", [one.last_offset for one in written])
        self.max_timestamps_ms[first:behind] = array("q", [one.max_timestamp_ms for one in written])
        self.appended_ms[first:behind] = array("q", [one.appended_ms for one in written])
        self._spill_from = min(self._spill_from, first)
        self._filed_behind = max(0, self._filed_behind + len(written) - (behind - first))
        size = sum(len(one.records) + ENTRY_BYTES for one in written)
        self._room.hold(size, self if self._spills else None)

    @property
    def has_some_in_memory(self) -> bool:
        """Whether batches are left to write to the file."""
        return self._next_in_memory() < self.behind

    def spill(self, most_bytes: int) -> bool:
        """Write the oldest batches in memory to the file, one at least. Returns False if the file takes none."""
        first = self._next_in_memory()
        if first == self.behind:
            return False
        behind = min(bisect_right(self.ends, self.start_of(first) + most_bytes, first), first + MAX_PIECES)
        pieces: list[bytes] = []
        for records in self._bytes[first : max(behind, first + 1)]:
            if records is None:
                break
            pieces.append(records)
        position = self._room.file.write(pieces)
        while position is None and len(pieces) > 1:  # the room may be enough for some of them
            pieces = pieces[: len(pieces) // 2]
            position = self._room.file.write(pieces)
        if position is None:
            return False
        for index, records in enumerate(pieces, first):
            self._positions[index] = position
            position += len(records)
        behind = first + len(pieces)
        self._bytes[first:behind] = [None] * len(pieces)
        self._spill_from = behind
        self._filed_behind = max(self._filed_behind, behind)
        self._room.release(sum(map(len, pieces)))
        return True

    @property
    def _arrays(self) -> "tuple[array[int], ...]":
        return (
            self.base_offsets,
            self.last_offsets,
            self.max_timestamps_ms,
            self.appended_ms,
            self.ends,
            self._positions,
        )

    def _next_in_memory(self) -> int:
        """The index of the oldest batch in memory; `behind` if there is none."""
        index = max(self._spill_from, self.first)
        while index < self.behind and self._bytes[index] is None:
            index += 1
        self._spill_from = index
        return index

    def _end_of_run(self, index: int, behind: int) -> int:
        """The index up to which batches follow one another in the file."""
        offset_in_file = self._positions[index] - self.start_of(index)
        index += 1
        while index < behind and self._positions[index] - self.ends[index - 1] == offset_in_file:
            index += 1
        return index

    def _read_filed(self, first: int, behind: int) -> bytes:
        return self._room.file.read(self._positions[first], self.ends[behind - 1] - self.start_of(first))

    def _release(self, first: int, behind: int) -> None:
        """Give up the memory and the parts of the file that some batches have."""
        sizes = np.diff(np.array(self.ends[first:behind]), prepend=self.start_of(first))
        positions = np.array(self._positions[first:behind])
        filed = positions != _IN_MEMORY
        self._room.release(int(sizes[~filed].sum()) + ENTRY_BYTES * (behind - first))
        positions, sizes = positions[filed], sizes[filed]
        if len(positions):
            begins = np.flatnonzero(np.r_[True, positions[1:] != positions[:-1] + sizes[:-1]])
            for position, size in zip(positions[begins].tolist(), np.add.reduceat(sizes, begins).tolist(), strict=True):
                self._room.file.free(position, size)
        if first == self.first and behind == self.behind:
            self._room.forget(self)
