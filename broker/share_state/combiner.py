"""How batches of delivery state are combined: `PersisterStateBatchCombiner` of Apache Kafka 4.3.

The result is in the order of offsets, without overlaps, and neighbours of the same state and count are one batch. Where
batches overlap, the one with the higher delivery count wins, then the one with the higher state, then the newer one.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
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
    def has_records(self) -> bool:
        return self.first_offset <= self.last_offset

    @property
    def rank(self) -> tuple[int, int]:
        return self.delivery_count, self.delivery_state


def joined(batches: Iterable[Batch]) -> tuple[Batch, ...]:
    """Neighbours of one rank as one batch, where they follow each other."""
    found: list[Batch] = []
    for batch in batches:
        if found and found[-1].last_offset + 1 == batch.first_offset and found[-1].rank == batch.rank:
            found[-1] = found[-1]._replace(last_offset=batch.last_offset)
        else:
            found.append(batch)
    return tuple(found)


def combine(so_far: Iterable[Batch], newer: Iterable[Batch], start_offset: int) -> tuple[Batch, ...]:
    """All batches as one list, without what lies before `start_offset` (-1: nothing is left out)."""
    batches: list[Batch] = []
    for batch in dict.fromkeys((*so_far, *newer)):
        if start_offset == NO_START or batch.first_offset >= start_offset:
            batches.append(batch)
        elif batch.last_offset >= start_offset:
            batches.append(batch._replace(first_offset=start_offset))
    done = _without_overlaps(sorted(batch for batch in batches if batch.has_records))
    # As in Kafka, a batch that ends before it begins is kept, unless another one has its first offset.
    absurd = [batch for batch in batches if not batch.has_records and not _has(done, batch.first_offset)]
    return tuple(sorted((*done, *absurd)) if absurd else done)


def _without_overlaps(batches: Sequence[Batch]) -> list[Batch]:
    """Of batches in the order of their offsets. Goes from one end of a batch to the next, so that the time grows with
    the number of batches, however they overlap."""
    edges = sorted({edge for batch in batches for edge in (batch.first_offset, batch.last_offset + 1)})
    done: list[Batch] = []
    active: list[tuple[int, int, int]] = []
    """What begins before the present edge, the highest rank first: negative count and state, and the last offset."""
    begun = 0
    for edge, next_edge in pairwise(edges):
        while begun < len(batches) and batches[begun].first_offset == edge:
            batch = batches[begun]
            heappush(active, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            begun += 1
        while active and active[0][2] < edge:
            heappop(active)
        if active:
            count, state, _ = active[0]
            done.append(Batch(edge, next_edge - 1, -state, -count))
    return list(joined(done))


def _has(batches: Sequence[Batch], offset: int) -> bool:
    """Whether one of the batches, which are in order, has an offset."""
    at = bisect_right(batches, offset, key=lambda batch: batch.first_offset) - 1
    return at >= 0 and batches[at].last_offset >= offset
