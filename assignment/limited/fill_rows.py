"""Makes rows that use up given quotas exactly, with as many racks per row as the quotas allow.

All replicas are listed in one line, rack by rack and broker by broker. The replica at position t of the line goes to
row t mod rows (McNaughton's wrap-around rule for schedules). No broker has more replicas than there are rows, so no row
has a broker twice. Each rack is in as many rows as it has replicas, or in all rows. There is no search, so this always
succeeds.

The rows that result are even but follow one pattern. `_mix` then swaps replicas of the same column between pairs of
rows wherever both rows stay valid and keep their number of racks.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from klamm.assignment.cluster_view import BoolArray, Int64Array
from klamm.assignment.random_source import RandomSource, random_words
from klamm.assignment.ranks import stable_order

MIXING_ROUNDS: Final = 6
"""Each round doubles the number of positions in the line that the other replicas of a row may come from."""


def fill_rows(quotas: Int64Array, rack_of: Int64Array, rows: int, source: RandomSource) -> Int64Array:
    """Broker indexes, int64[rows, sum of quotas / rows]: broker b is in `quotas[b]` different rows.

    It leads (column 0) quotas[b] / width of them, give or take 2. Precondition: no quota is above `rows`, and the sum
    of the quotas is a multiple of `rows`.
    """
    width = int(quotas.sum()) // rows
    # The leading column changes from row to row. Otherwise the first racks of the line would lead all rows.
    leading = np.arange(rows) % width
    leads = np.zeros((width, rows), dtype=np.bool_)
    leads[leading, np.arange(rows)] = True
    line = _dealt_rack_by_rack(quotas, rack_of, leads.ravel(), rows, source)
    wound = line.reshape(width, rows).T
    wound = np.take_along_axis(wound, (leading[:, None] + np.arange(width)) % width, axis=1)
    _mix(wound, rack_of, source)
    return wound


def _dealt_rack_by_rack(
    quotas: Int64Array, rack_of: Int64Array, leads: BoolArray, rows: int, source: RandomSource
) -> Int64Array:
    """The line: int64[positions] of broker indexes, one rack after the other.

    Within a rack, brokers are shuffled, and each has its share of the positions that lead. If a rack has more replicas
    than there are rows, each of its brokers stays in consecutive positions instead, so that no row gets a broker twice.
    """
    by_rack = np.argsort(rack_of, kind="stable")
    line = np.repeat(by_rack, quotas[by_rack])
    in_rack = np.bincount(rack_of, weights=quotas).astype(np.int64)
    keys = (random_words(source, len(line)) >> np.uint64(48)).astype(np.int64)
    ends = np.cumsum(in_rack)
    for rack in np.flatnonzero((in_rack <= rows) & (in_rack > 0)).tolist():
        part = slice(ends[rack] - in_rack[rack], ends[rack])
        brokers = np.flatnonzero(rack_of == rack)
        shares = _proportional(quotas[brokers], int(leads[part].sum()))
        for wanted, count in ((True, shares), (False, quotas[brokers] - shares)):
            places = part.start + np.flatnonzero(leads[part] == wanted)
            line[places[stable_order(keys[places])]] = np.repeat(brokers, count)
    return line


def _proportional(quotas: Int64Array, total: int) -> Int64Array:
    """int64[k]: `total` divided in proportion to the quotas. The largest remainders are rounded up."""
    exact = quotas * total
    shares: Int64Array = exact // quotas.sum()
    left = total - int(shares.sum())
    shares[np.argsort(-(exact % quotas.sum()), kind="stable")[:left]] += 1
    return shares


def _mix(rows: Int64Array, rack_of: Int64Array, source: RandomSource) -> None:
    count, width = rows.shape
    pairs = count // 2
    if not pairs or width == 1:
        return
    # Columns are contiguous in memory, because they are compared column by column. Racks move with their brokers.
    cells = np.stack((rows.T, rack_of[rows.T]), axis=1, dtype=np.int32)
    for _ in range(MIXING_ROUNDS):
        # The rows are rotated by a random distance, then the first half is paired with the second half.
        distance = source.next_int(count)
        cells = np.concatenate((cells[..., count - distance :], cells[..., : count - distance]), axis=2)
        wanted = random_words(source, pairs)
        halves = cells[..., : 2 * pairs].reshape(width, 2, 2, pairs)
        for column in range(width):
            _exchange(halves, column, (wanted >> np.uint64(column % 64)) & 1 == 1)
    rows[:] = cells[:, 0].T


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
    swapped = np.flatnonzero(ok)
    own[..., swapped] = theirs[..., swapped]
