"""Rows of replicas that use up given quotas exactly, with as many racks per row as the quotas allow.

All replicas are laid out in one line, rack by rack and broker by broker, and the line is wound over the rows: the
replica at place t goes to row t mod rows. Nobody has more replicas than there are rows, so no row meets a broker
twice; and a rack meets as many rows as it has replicas, or all of them. Nothing is searched, so nothing can fail.
(The wrap-around rule that McNaughton found for schedules.)

What is wound up so is even but monotonous. `_mix` lets pairs of rows exchange replicas of the same column wherever
both stay what they were: valid, and as wide over racks.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from klamm.assignment.cluster_view import BoolArray, Int64Array
from klamm.assignment.random_source import RandomSource, random_words
from klamm.assignment.ranks import stable_order

MIXING_ROUNDS: Final = 6
"""Each doubles the number of places in the line that the neighbours of a replica may come from."""


def fill_rows(quotas: Int64Array, rack_of: Int64Array, rows: int, source: RandomSource) -> Int64Array:
    """Broker indexes, int64[rows, sum of quotas / rows]: broker b stands in `quotas[b]` different rows.

    It leads, in column 0, about quotas[b] / width of them: what comes of rounding and of winding is within 2.
    Precondition: no quota is above `rows`, and they add up to a multiple of it.
    """
    width = int(quotas.sum()) // rows
    # Row by row another column leads: the line begins with one rack, and not all its replicas may be in front.
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
    """The line, a broker index for each place: racks one after the other, and in each its brokers.

    Brokers are shuffled within their rack, each with its share of the places that lead. Where a row may hold two
    replicas of a rack they follow each other instead, and so stay apart when the line is wound.
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
    """int64[k]: `total` divided in proportion to the quotas, none above its own; largest remainders are rounded up."""
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
    # Column by column in memory, as they are compared; the racks are turned and exchanged along with their brokers.
    cells = np.stack((rows.T, rack_of[rows.T]), axis=1, dtype=np.int32)
    for _ in range(MIXING_ROUNDS):
        # The rows are turned by a random distance, then the first half meets the second.
        distance = source.next_int(count)
        cells = np.concatenate((cells[..., count - distance :], cells[..., : count - distance]), axis=2)
        wanted = random_words(source, pairs)
        halves = cells[..., : 2 * pairs].reshape(width, 2, 2, pairs)
        for column in range(width):
            _exchange(halves, column, (wanted >> np.uint64(column % 64)) & 1 == 1)
    rows[:] = cells[:, 0].T


def _exchange(halves: npt.NDArray[np.int32], column: int, wanted: BoolArray) -> None:
    """Swaps one column of pairs of rows, in place, where it is wanted and neither row becomes worse.

    `halves` are int32[columns, 2, 2, pairs]: brokers and their racks, of one half of the rows and of the other.
    """
    own, theirs = halves[column], halves[column, :, ::-1]
    loses, gains = np.zeros((2, 2, len(wanted)), dtype=np.bool_)
    others = [halves[other] for other in range(len(halves)) if other != column]
    for _, racks in others:
        loses |= racks == own[1]
        gains |= racks == theirs[1]
    # The rack that leaves and the rack that comes are both met elsewhere in the row, or neither is.
    ok = (loses == gains).all(axis=0) & wanted
    # Whose rack is not met is not met either.
    for brokers, _ in others if (gains & ok).any() else ():
        ok &= (brokers != theirs[0]).all(axis=0)
    swapped = np.flatnonzero(ok)
    own[..., swapped] = theirs[..., swapped]
