"""Swaps replicas between rows at random, so that rows do not follow a pattern.

Replicas of the same column are swapped between pairs of rows wherever both rows stay valid and keep their number of
racks. The rows of several clusters are mixed together, because each call of NumPy has a fixed cost; rows of different
clusters are never paired.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from klamm.assignment.cluster_view import BoolArray, Int64Array
from klamm.assignment.random_source import HALF_SEED, RandomSource, next_ints, scrambled

MIXING_ROUNDS: Final = 6
"""Each round doubles the number of positions in the line that the other replicas of a row may come from."""


class ToMix(NamedTuple):
    """The rows of one cluster."""

    rows: Int64Array
    """int64[rows, width]: broker indexes."""
    rack_of: Int64Array
    """int64[brokers]: the rack number of each broker."""
    source: RandomSource


def mix_rows(clusters: Sequence[ToMix]) -> None:
    """Mix the rows of each cluster in place. All rows have the same width."""
    clusters = [one for one in clusters if len(one.rows) > 1 and one.rows.shape[1] > 1]
    if not clusters:
        return
    # Columns are contiguous in memory, because they are compared column by column. Racks move with their brokers.
    cells = np.concatenate(
        [np.stack((rows.T, rack_of[rows.T]), axis=1, dtype=np.int32) for rows, rack_of, _ in clusters], axis=2
    )
    counts = np.array([len(one.rows) for one in clusters])
    pairing = _Pairing(counts)
    pairs, width = len(pairing.pair), len(cells)
    # In each round: a distance, and the two halves of a seed.
    drawn = [next_ints(one.source, np.array((len(one.rows), HALF_SEED, HALF_SEED)), MIXING_ROUNDS) for one in clusters]
    distances, high, low = np.stack(drawn, axis=2).transpose(1, 0, 2)
    seeds = (high << 31 | low).astype(np.uint64)
    for distance, seed in zip(distances, seeds, strict=True):
        # The rows are rotated by a random distance, then the first half is paired with the second half.
        cells = cells.take(pairing.rotated(distance), axis=2)
        wanted = scrambled(pairing.pair, np.repeat(seed, counts // 2))
        halves = cells[..., : 2 * pairs].reshape(width, 2, 2, pairs)
        for column in range(width):
            _exchange(halves, column, (wanted >> np.uint64(column % 64)) & 1 == 1)
    mixed = cells[:, 0].take(pairing.at, axis=1).T
    for one, part in zip(clusters, np.split(mixed, np.cumsum(counts)[:-1]), strict=True):
        one.rows[:] = part


class _Pairing:
    """The order of the cells after a rotation: the first halves of the rows of all clusters, then the second halves,
    then the last row of each cluster with an odd number of rows."""

    def __init__(self, counts: Int64Array) -> None:
        pairs, numbers = counts // 2, np.arange(len(counts))
        odd = numbers[counts % 2 == 1]
        sizes = np.concatenate((pairs, pairs, np.ones(len(odd), dtype=np.int64)))
        begins = np.concatenate((np.zeros_like(pairs), pairs, counts[odd] - 1))
        self._cluster = np.repeat(np.concatenate((numbers, numbers, odd)), sizes)
        self._row = _counted(sizes) + np.repeat(begins, sizes)
        self._rows = counts[self._cluster]
        self._first = (np.cumsum(counts) - counts)[self._cluster]
        self._ordered = np.empty(len(self._row), dtype=np.int64)
        self._ordered[self._first + self._row] = np.arange(len(self._row))
        self.pair = (_counted(pairs) + 1).astype(np.uint64)
        """uint64[pairs]: the number of each pair within its cluster, from 1."""
        self.at = np.arange(len(self._row))
        """int64[rows]: the places of the rows of all clusters after the last rotation."""

    def rotated(self, distance: Int64Array) -> Int64Array:
        """int64[rows]: for each place, the place from which its row comes if the rows of each cluster are rotated by a
        distance below their number, int64[clusters]."""
        row = self._row - distance.take(self._cluster)
        row += np.where(row < 0, self._rows, 0)
        row += self._first
        came_from: Int64Array = self.at.take(row)
        self.at = self._ordered
        return came_from


def _counted(sizes: Int64Array) -> Int64Array:
    """int64[sum of sizes]: the numbers from 0 to below each of the sizes, one size after the other."""
    ends = np.cumsum(sizes)
    return np.arange(int(ends[-1])) - np.repeat(ends - sizes, sizes)


def _exchange(halves: npt.NDArray[np.int32], column: int, wanted: BoolArray) -> None:
    """Swap one column of pairs of rows, in place, where it is wanted and neither row becomes worse.

    `halves` is int32[columns, 2, 2, pairs]: brokers and racks (axis 1) of the two halves of the rows (axis 2).
    """
    own, theirs = halves[column], halves[column, :, ::-1]
    loses, gains = np.zeros((2, 2, len(wanted)), dtype=np.bool_)
    others = [halves[other] for other in range(len(halves)) if other != column]
    for _, racks in others:
        loses |= racks == own[1]
        gains |= racks == theirs[1]
    # The leaving rack and the arriving rack are both elsewhere in the row, or neither is.
    ok = (loses == gains).all(axis=0) & wanted
    # A broker whose rack is not in the row is not in the row either, so brokers are compared only in other cases.
    for brokers, _ in others if (gains & ok).any() else ():
        ok &= (brokers != theirs[0]).all(axis=0)
    own ^= ((own[:, 0] ^ own[:, 1]) * ok)[:, None]
