"""Reads a log that is made of parts as bytes: whole batches, only what is durable, and where leader epochs end.

A part is a sequence of consecutive batches with an index, in a file or in memory.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from klamm.controller.leader_epochs import NO_EPOCH, LeaderEpochs
from klamm.controller.log.batch_index import BatchIndex, Extent
from klamm.controller.log.errors import LogError
from klamm.controller.metadata_log_reader import EpochEnd, NeedsThread, OffsetNotInLog, SnapshotId, SnapshotPart


class Part(Protocol):
    """Consecutive batches."""

    @property
    def base_offset(self) -> int: ...

    @property
    def index(self) -> BatchIndex:
        """Where the batches lie. Raises LogError."""
        ...

    def read(self, found: Extent) -> bytes:
        """The bytes of those batches. Raises LogError."""
        ...


class PartedLog(Protocol):
    """What a `PartsReader` needs of the log. Each attribute may change while another thread reads it."""

    @property
    def start_offset(self) -> int: ...

    @property
    def durable_offset(self) -> int: ...

    def parts(self) -> Sequence[Part]:
        """In the order of offsets, without a hole, from the one that holds `start_offset` on."""
        ...


class PartsReader:
    """The methods of a `MetadataLogReader` that read the log; those about snapshots are added elsewhere."""

    def __init__(self, log: PartedLog) -> None:
        self._parted = log

    @property
    def start_offset(self) -> int:
        return self._parted.start_offset

    @property
    def end_offset(self) -> int:
        return self._parted.durable_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        end_offset = self._parted.durable_offset
        if not self._parted.start_offset <= offset <= end_offset:
            raise OffsetNotInLog(f"offset {offset} is not in the log of {self._parted.start_offset} to {end_offset}")
        data, failure = b"", None
        try:
            data = b"".join(self._pieces(offset, end_offset, max_bytes))
        except LogError as error:
            failure = error
        if offset < self._parted.start_offset:  # a snapshot has replaced the part since
            raise OffsetNotInLog(f"offset {offset} is below the start, {self._parted.start_offset}") from failure
        if failure is not None:
            raise failure
        return data

    def _pieces(self, offset: int, end_offset: int, max_bytes: int) -> Iterator[bytes]:
        left, is_first = max_bytes, True
        for part in _from_offset(self._parted.parts(), offset):
            found = self._index_of(part).find(offset, end_offset, left, at_least_one=is_first)
            if found.size_bytes:
                yield self._bytes_of(part, found)
                left, is_first = left - found.size_bytes, False
            if found.next_offset is not None:
                return  # the next batch of this part is too large for the limit, or not durable

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        start_offset, end_offset = self._parted.start_offset, self._parted.durable_offset
        begun: list[tuple[int, int]] = []
        # The newest part first: followers ask for the newest epochs, and older parts may still have to be indexed.
        for part in reversed(self._parted.parts()):
            known = self._index_of(part).epochs
            begun[:0] = [(one, first_offset) for one, first_offset in known if first_offset < end_offset]
            if begun and begun[0][0] <= epoch:
                break
        epochs = LeaderEpochs()
        for one, first_offset in begun:
            epochs.begin(one, max(first_offset, start_offset))
        found, end = epochs.end_offset(epoch, end_offset)
        return EpochEnd(epochs.latest, end_offset) if found == NO_EPOCH else EpochEnd(found, end)

    def _index_of(self, part: Part) -> BatchIndex:
        return part.index

    def _bytes_of(self, part: Part, found: Extent) -> bytes:
        return part.read(found)


class EventLoopReading:
    """Returns no records, so that large responses keep to their turns. Mixed into a `PartsReader`."""

    def _bytes_of(self, _part: Part, _found: Extent) -> bytes:
        raise NeedsThread

    def read_snapshot(self, _snapshot: SnapshotId, _position: int, _max_bytes: int) -> SnapshotPart:
        raise NeedsThread


def _from_offset(parts: Sequence[Part], offset: int) -> Sequence[Part]:
    """The parts from the one on that holds `offset`."""
    first = 0
    while first + 1 < len(parts) and parts[first + 1].base_offset <= offset:
        first += 1
    return parts[first:]
