"""Where the segments of a log begin.

As in Kafka, retention deletes whole segments, and compaction leaves out the newest one, the active segment. A new
segment begins as in Kafka's LogSegment.shouldRoll.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator

from klamm.broker.data.record_batches import NO_TIMESTAMP
from klamm.quick_dataclasses import dataclass


@dataclass(slots=True)
class Segment:
    """One segment. Times are in ms."""

    base_offset: int
    """Its records have this offset or a higher one."""
    created_ms: int
    first_timestamp_ms: int | None = None
    """The largest timestamp of its first batch; None: it has none yet."""

    def age_ms(self, max_timestamp_ms: int, now_ms: int) -> int:
        """Its age for a batch that would be appended: by timestamps, or by the clock if its first batch has none."""
        if self.first_timestamp_ms is not None and self.first_timestamp_ms != NO_TIMESTAMP:
            return max_timestamp_ms - self.first_timestamp_ms
        return now_ms - self.created_ms


class Segments:
    """The segments of one log, the oldest first."""

    __slots__ = ("_segments",)

    def __init__(self, start_offset: int) -> None:
        self._segments = [Segment(start_offset, 0)]

    @property
    def active(self) -> Segment:
        """The newest segment."""
        return self._segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def closed(self, offset: int = 0) -> Iterator[tuple[int, int]]:
        """The first offset of each segment but the active one, and that of the next, from the segment with `offset` on.
        The segments must not change meanwhile."""
        for index in range(self._index(offset), len(self._segments) - 1):
            yield self._segments[index].base_offset, self._segments[index + 1].base_offset

    def bounds(self, log_end_offset: int) -> Iterator[tuple[int, int]]:
        """The same of all segments; the last one ends with the log."""
        yield from self.closed()
        yield self.active.base_offset, log_end_offset

    def created_ms(self, base_offset: int) -> int:
        """When a segment was begun."""
        return self._segments[self._index(base_offset)].created_ms

    def note_batch(self, max_timestamp_ms: int, now_ms: int) -> None:
        """A batch was appended to the active segment."""
        active = self.active
        if active.first_timestamp_ms is None:
            active.first_timestamp_ms = max_timestamp_ms
            active.created_ms = active.created_ms or now_ms

    def begin(self, base_offset: int, now_ms: int) -> None:
        """Begin a segment, which is active from now on. An active segment without batches is replaced."""
        if self.active.base_offset >= base_offset:
            self._segments.pop()
        self._segments.append(Segment(base_offset, now_ms))

    def begin_at(self, offset: int) -> None:
        """The log, which is empty, goes on at an offset."""
        self._segments = [Segment(offset, self.active.created_ms)]

    def cut_end(self, offset: int) -> None:
        """The log ends at an offset now."""
        kept = self._segments[: self._index(offset) + 1]
        if kept[0].base_offset > offset:
            kept = [Segment(offset, kept[0].created_ms)]
        if kept[-1].base_offset == offset:
            kept[-1].first_timestamp_ms = None
        self._segments = kept

    def cut_start(self, offset: int) -> None:
        """The log begins at an offset now: segments with lower offsets alone are gone."""
        del self._segments[: self._index(offset)]

    def merge(self, base_offsets: Collection[int]) -> None:
        """Let these segments be parts of those before them."""
        first, *others = self._segments
        self._segments = [first, *(each for each in others if each.base_offset not in base_offsets)]

    def _index(self, offset: int) -> int:
        """The index of the segment with an offset; 0 if the offset is below all."""
        return max(0, bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1)
