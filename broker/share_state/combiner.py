"""How batches of delivery state are combined: `PersisterStateBatchCombiner` of Apache Kafka 4.3.

The result is in the order of offsets, without overlaps, and neighbours of the same state and count are one batch. Where
batches overlap, the one with the higher delivery count wins, then the one with the higher state, then the newer one.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final, NamedTuple

NO_START: Final = -1


class Batch(NamedTuple):
    """Records `first_offset` to `last_offset`, which share a state (`DeliveryState`) and a delivery count."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int

    @property
    def fields(self) -> dict[str, int]:
        """By the names that messages and records have for them."""
        return self._asdict()

    @property
    def rank(self) -> tuple[int, int]:
        return self.delivery_count, self.delivery_state


def combine(so_far: Iterable[Batch], newer: Iterable[Batch], start_offset: int) -> tuple[Batch, ...]:
    """All batches as one list, without what lies before `start_offset` (-1: nothing is left out)."""
    pending: list[Batch] = []
    for batch in dict.fromkeys((*so_far, *newer)):
        if start_offset == NO_START or batch.first_offset >= start_offset:
            heappush(pending, batch)
        elif batch.last_offset >= start_offset:
            heappush(pending, batch._replace(first_offset=start_offset))
    done: list[Batch] = []
    while pending:
        batch = heappop(pending)
        if not done:
            done.append(batch)
            continue
        last = done[-1]
        if batch.first_offset > last.last_offset:
            if batch.first_offset == last.last_offset + 1 and batch.rank == last.rank:
                done[-1] = last._replace(last_offset=batch.last_offset)
            else:
                done.append(batch)
            continue
        done.pop()
        for part in _resolved(last, batch):
            heappush(pending, part)
    return tuple(done)


def _resolved(first: Batch, second: Batch) -> list[Batch]:
    """Two overlapping batches as batches that do not overlap; `second` does not begin before `first`."""
    if first.rank == second.rank:
        return [first._replace(last_offset=max(first.last_offset, second.last_offset))]
    if second.rank < first.rank:
        rest = [second._replace(first_offset=first.last_offset + 1)] if second.last_offset > first.last_offset else []
        return [first, *rest]
    parts = [second]
    if first.first_offset < second.first_offset:
        parts.append(first._replace(last_offset=second.first_offset - 1))
    if first.last_offset > second.last_offset:
        parts.append(first._replace(first_offset=second.last_offset + 1))
    return parts
