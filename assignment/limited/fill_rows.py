"""Makes rows that use up given quotas exactly, with as many racks per row as the quotas allow.

All replicas are listed in one line, rack by rack and broker by broker. The replica at position t of the line goes to
row t mod rows (McNaughton's wrap-around rule for schedules). No broker has more replicas than there are rows, so no row
has a broker twice. Each rack is in as many rows as it has replicas, or in all rows. There is no search, so this always
succeeds.

The rows that result are even but follow one pattern. `mix_rows` then swaps replicas between them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from klamm.assignment.cluster_view import BoolArray, Int64Array
from klamm.assignment.limited.mix_rows import ToMix, mix_rows
from klamm.assignment.random_source import RandomSource, random_words
from klamm.assignment.ranks import stable_order


class ToFill(NamedTuple):
    """The quotas of one cluster."""

    quotas: Int64Array
    """int64[n]: the number of rows that each broker is in, at most `rows`. The sum is a multiple of `rows`."""
    rack_of: Int64Array
    """int64[n]: the rack number of each broker."""
    rows: int
    source: RandomSource


def fill_rows(quotas: Int64Array, rack_of: Int64Array, rows: int, source: RandomSource) -> Int64Array:
    """Broker indexes, int64[rows, sum of quotas / rows]: broker b is in `quotas[b]` different rows.

    It leads (column 0) quotas[b] / width of them, give or take 2. Precondition: no quota is above `rows`, and the sum
    of the quotas is a multiple of `rows`.
    """
    (filled,) = fill_rows_together([ToFill(quotas, rack_of, rows, source)])
    return filled


def fill_rows_together(clusters: Sequence[ToFill]) -> list[Int64Array]:
    """The result of `fill_rows` for each of several clusters. All rows have the same width."""
    filled = [_wound(cluster) for cluster in clusters]
    mix_rows([ToMix(rows, one.rack_of, one.source) for rows, one in zip(filled, clusters, strict=True)])
    return filled


def _wound(cluster: ToFill) -> Int64Array:
    """The line of the cluster, wound around its rows."""
    quotas, rack_of, rows, source = cluster
    width = int(quotas.sum()) // rows
    # The leading column changes from row to row. Otherwise the first racks of the line would lead all rows.
    leading = np.arange(rows) % width
    leads = np.zeros((width, rows), dtype=np.bool_)
    leads[leading, np.arange(rows)] = True
    line = _dealt_rack_by_rack(quotas, rack_of, leads.ravel(), rows, source)
    columns = line.reshape(width, rows)
    wound = np.empty((rows, width), dtype=np.int64)
    for lead in range(width):
        own = columns[:, lead::width].T  # the rows that this column leads
        wound[lead::width, : width - lead] = own[:, lead:]
        wound[lead::width, width - lead :] = own[:, :lead]
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
