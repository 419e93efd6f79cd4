"""The end of a log in files: its end offset, and the segments that are open for writing or not yet durable."""

from pathlib import Path
from typing import NamedTuple


class OpenSegment(NamedTuple):
    base_offset: int
    path: Path
    fd: int


class Tail(NamedTuple):
    """The end of the log, and the open segments: those not yet durable, and last the one being written."""

    end_offset: int
    segments: tuple[OpenSegment, ...]

    def not_durable(self, durable_offset: int) -> list[OpenSegment]:
        ends = [*(segment.base_offset for segment in self.segments), self.end_offset][1:]
        return [segment for segment, end in zip(self.segments, ends, strict=True) if end > durable_offset]
