"""Striped placement of many partitions at once, for clusters in which every rack always has a free unfenced broker.

Then each partition uses consecutive racks of the ring, beginning one rack after the previous partition, and each rack
gives its unfenced brokers in turn. Only the shuffles are done one by one. A property test checks that placement and
random draws are the same as those of `striped`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from klamm.assignment.cluster_view import Int32Array, Int64Array
from klamm.assignment.random_source import RandomSource, next_ints
from klamm.assignment.ranks import rank_within

_MAX_CHUNK_CELLS: Final = 1 << 18  # replicas placed at a time
_DRAWN_FOR_ONLY: Final = -1
"""Marks fenced brokers: they are never placed here, so only the random numbers of their shuffle are drawn."""


class RackInBulk(NamedTuple):
    """A rack before the first partition."""

    unfenced: Sequence[int]
    """Broker ids in the order in which they are used."""
    first: int
    """The index into `unfenced` of the first broker to be used."""
    fenced: int
    """The number of fenced brokers."""


def is_regular(unfenced: Sequence[int], replication_factor: int) -> bool:
    """Whether racks with these numbers of unfenced brokers always have a free one, so that no rack is ever skipped."""
    racks, brokers = len(unfenced), sum(unfenced)
    if brokers < 2 or min(unfenced) < -(-replication_factor // racks):
        return False
    # If a rack is last used in one epoch and next used in an epoch of the same number after a shuffle, it continues its
    # turn (`_Turns.next`). With this many brokers there are never enough partitions between two uses for that.
    return brokers > 2 * (racks - replication_factor) + 1


def place_in_bulk(
    racks: Sequence[RackInBulk], ring: Sequence[int], start: int, shape: tuple[int, int], source: RandomSource
) -> Int32Array:
    """The brokers of `shape[0]` partitions with `shape[1]` replicas: int32[shape]; column 0 leads.

    `racks` are in the order in which Kafka draws random numbers for them; `ring` has indexes into `racks`; `start` is
    the position in the ring where the first partition begins. Precondition: `is_regular`.
    """
    placed = np.empty(shape, dtype=np.int32)
    shuffles = _Shuffles(racks, ring, source)
    sizes = np.array([len(rack.unfenced) for rack in racks], dtype=np.int64)
    offsets = np.cumsum(sizes) - sizes
    width = min(shape[1], len(racks))
    # Racks that the first partition uses begin with their first broker, all others with the broker after it.
    turns = np.array([rack.first + 1 for rack in racks], dtype=np.int64)
    turns[[ring[(start + place) % len(ring)] for place in range(width)]] -= 1
    columns = np.arange(shape[1])
    rows_at_once = max(1, _MAX_CHUNK_CELLS // shape[1])
    for begin in range(0, shape[0], rows_at_once):
        row = np.arange(begin, min(begin + rows_at_once, shape[0]))
        rings, members, arrangement = shuffles.arranged(row)
        asked = rings[arrangement[:, None], (start + row[:, None] + columns[:width]) % len(ring)]
        turn = turns[asked] + rank_within(asked.ravel()).reshape(asked.shape)
        turns += np.bincount(asked.ravel(), minlength=len(racks))
        if width < shape[1]:
            asked, turn = (asked[:, columns % width], turn[:, columns % width] + columns // width)
        placed[row] = members[arrangement[:, None], offsets[asked] + turn % sizes[asked]]
    return placed


class _Shuffles:
    """The ring of racks and the unfenced brokers of each rack after every shuffle. One list holds the ring, followed by
    the brokers of all racks."""

    def __init__(self, racks: Sequence[RackInBulk], ring: Sequence[int], source: RandomSource) -> None:
        self._source = source
        self._racks = len(ring)
        self._line = [*ring, *(broker_id for rack in racks for broker_id in rack.unfenced)]
        self._rows_between = len(self._line) - len(ring)
        self._done = 0
        parts, at = [(0, len(ring))], len(ring)
        for rack in racks:
            parts += [(_DRAWN_FOR_ONLY, rack.fenced), (at, len(rack.unfenced))]
            at += len(rack.unfenced)
        self._bounds = np.array([left for _, size in parts for left in range(size, 1, -1)], dtype=np.int64)
        part_of = np.array([begin for begin, size in parts for _ in range(size - 1)], dtype=np.int64)
        self._swapped = np.flatnonzero(part_of != _DRAWN_FOR_ONLY)
        self._part_of = part_of[self._swapped]
        self._places = (self._part_of + self._bounds[self._swapped] - 1).tolist()

    def arranged(self, row: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The arrangements for consecutive rows: rings, int64[k, racks], members, int64[k, brokers], and the index of
        each row's arrangement, int64[rows]."""
        arrangement = row // self._rows_between
        wanted = int(arrangement[-1]) - self._done
        draws = next_ints(self._source, self._bounds, wanted)[:, self._swapped] + self._part_of
        line = self._line
        lines = [line.copy()]
        for others in draws.tolist():
            # Java's Collections.shuffle: from the last position down, each item is swapped with one at or before it.
            for place, other in zip(self._places, others, strict=True):
                line[place], line[other] = line[other], line[place]
            lines.append(line.copy())
        arrangement -= self._done
        self._done += wanted
        table = np.array(lines, dtype=np.int64)
        return table[:, : self._racks], table[:, self._racks :], arrangement
