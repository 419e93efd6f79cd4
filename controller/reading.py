"""Reading that a decision needs and that takes too long for the event loop, such as uncompressing record batches.

It depends on nothing that changes, so it is done in a thread. A request is decided with what was read so far. If
something is missing, the handler raises `Unread` and nothing has changed; the request is decided again when a thread
has read it (`klamm.server.pending_answer`).
"""

from collections.abc import Callable, Hashable, Mapping, Sequence

from klamm.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """Something to read. `work` is called in a thread, and never raises."""

    key: Hashable
    work: Callable[[], object]


Readings = Mapping[Hashable, object]
"""What was read for one request, by the keys of `Reading`."""


class Unread(Exception):
    """The request cannot be decided before this was read. Nothing was changed."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        super().__init__(f"{len(readings)} things to read")
        self.readings = tuple(readings)

    def read(self) -> Readings:
        """Read it all, for a thread."""
        return {reading.key: reading.work() for reading in self.readings}
