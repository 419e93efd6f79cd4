"""Changes the replication factor of existing rows without moving replicas (KIP-179, within the limits of KIP-578).

Growing is a flow problem, which `limited/` solves exactly. Shrinking is a choice within each row. Rows may have
placeholders (KIP-409): growing replaces them, and shrinking drops them first.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from klamm.assignment.cluster_view import BoolArray, ClusterView, Int32Array, Int64Array
from klamm.assignment.errors import CannotPlace, CannotPlaceReason
from klamm.assignment.limited.augment import even_out, fill_lacking
from klamm.assignment.limited.deal import deal_replicas
from klamm.assignment.limited.drop import Dropping
from klamm.assignment.limited.existing_rows import check_distinct, packed_left, validated_rows
from klamm.assignment.limited.quotas import rack_numbers
from klamm.assignment.limited.row_flow import RowFlow
from klamm.assignment.placement_size import validate_size
from klamm.assignment.random_source import RandomSource, Rng, random_source
from klamm.assignment.wording import counted

_HIGHEST_LOAD: Final = 1 << 40  # loads beyond it count as equal: sums over all brokers stay within 64 bits


def grow(view: ClusterView, placement: Int32Array, replication_factor: int, rng: Rng) -> Int32Array:
    """The placement with `replication_factor` replicas in each row, int32[partitions, replication_factor].

    Real replicas keep their order at the front of their row, even on brokers that are fenced or unknown to the view.
    New replicas follow them and replace placeholders. Only live brokers with headroom get replicas, and no row has a
    broker twice. `view.replica_counts` includes the placement. The result meets these goals exactly, in this order:

    1. all rows get their new replicas, if that is possible;
    2. of all ways to do so, the sum over rows of distinct racks is the largest (a fenced broker's rack counts, an
       unknown broker has none; without racks, or if some brokers have none, every broker is a rack of its own);
    3. of those, replicas per broker are the most even: the sum of the squares of held + new is the least.

    Among equal results the choice is random. Raises CannotPlace: INVALID_REPLICATION_FACTOR if a row's own brokers and
    the live ones together are too few, INVALID_PARTITIONS above `MAX_PLACED_REPLICAS`, POLICY_VIOLATION if the limits
    allow no result. Raises ValueError for a replication factor below 1 or below the real replicas of a row, a row that
    names a broker twice, or a placement that is no table of 32-bit integers.
    """
    rows = _validated(placement, replication_factor)
    real = rows >= 0
    index = view.index_of(rows)
    _check_enough_brokers(view, index, real, replication_factor)
    lacking = replication_factor - np.count_nonzero(real, axis=1)
    if (lacking < 0).any():
        at = int(np.argmin(lacking))
        raise ValueError(
            f"{counted(int((lacking < 0).sum()), 'row')} with more replicas than the replication factor "
            f"{replication_factor}, first row {at}: {rows[at].tolist()}"
        )
    grown = np.empty((len(rows), replication_factor), dtype=np.int32)
    old = np.arange(replication_factor) < (replication_factor - lacking)[:, None]
    grown[old] = rows[real]
    growing = np.flatnonzero(lacking)
    if growing.size:
        own = packed_left(np.where(index < 0, len(view), index)[growing], real[growing], len(view))
        grown[~old] = view.broker_ids[_new_replicas(view, own, lacking[growing], random_source(rng))]
    return grown


def shrink(
    view: ClusterView, placement: Int32Array, replication_factor: int, leaders: Int32Array | None = None
) -> Int32Array:
    """The placement with `replication_factor` replicas in each row, int32[partitions, replication_factor].

    The remaining replicas keep their order. A row gives up placeholders first, then replicas on brokers that are fenced
    or unknown to the view, then replicas in a rack that the row has more than once, then any other. In the last two
    groups, replicas on a live broker over its limit go before the others, until earlier drops have brought that broker
    down to the limit; `view.replica_counts` include the placement. A fenced broker never counts as over its limit. Of
    equal replicas the last in the row goes. A row's leader goes only when nothing else is left to go: `leaders`,
    int32[partitions], are broker ids, -1 for none; without them column 0 leads.

    Rows give up one replica each, in their order, then the next. Raises ValueError for a replication factor below 1
    or above the width of the placement, a leader that is not in its row, a row that names a broker twice, or a
    placement that is no table of 32-bit integers.
    """
    rows = _validated(placement, replication_factor)
    partitions, width = rows.shape
    if replication_factor > width:
        raise ValueError(f"replication factor {replication_factor} is above that of the rows, {width}")
    if replication_factor == width:
        return rows.copy()
    dropping = Dropping(view, rows, _leading(rows, leaders))
    for _ in range(width - replication_factor):
        dropping.drop_one_of_each()
    return rows[dropping.kept].reshape(partitions, replication_factor)


def _validated(placement: npt.ArrayLike, replication_factor: int) -> Int32Array:
    if replication_factor < 1:
        raise ValueError(f"a replication factor is at least 1, not {replication_factor}")
    rows = validated_rows(placement)
    check_distinct(rows)
    return rows


def _check_enough_brokers(view: ClusterView, index: Int64Array, real: BoolArray, replication_factor: int) -> None:
    live = int(view.live.sum())
    dead = _dead(view, index) & real
    most = np.count_nonzero(dead, axis=1) + live
    if (too_few := most < replication_factor).any():
        at = int(np.argmax(too_few))
        raise CannotPlace(
            CannotPlaceReason.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: "
            f"{counted(live, 'live one')}, and {counted(int(most[at]) - live, 'other')} in row {at}; "
            f"too few for {int(too_few.sum())} of {counted(len(index), 'row')}.",
        )
    validate_size(len(index), replication_factor)


def _dead(view: ClusterView, index: Int64Array) -> BoolArray:
    """Shaped like `index`: whether the broker with this index is fenced, or not in the view (-1)."""
    dead: BoolArray = np.append(view.fenced, True)[index]
    return dead


def _new_replicas(view: ClusterView, own: Int64Array, lacking: Int64Array, source: RandomSource) -> Int64Array:
    """int64[sum of lacking]: indexes of the new brokers, row by row."""
    flow = RowFlow(own, lacking, np.minimum(view.headroom, len(own)), rack_numbers(view.racks))
    held = np.minimum(view.replica_counts, _HIGHEST_LOAD)
    if int(flow.room.sum()) >= int(lacking.sum()):
        # New replicas in new racks come first: as long as all are, no flow of the same size is better.
        deal_replicas(flow, held, source, new_racks=True)
        fill_lacking(flow, max_cost=-1)
        deal_replicas(flow, held, source, new_racks=False)
    fill_lacking(flow)
    if flow.lacking.any():
        raise CannotPlace(CannotPlaceReason.POLICY_VIOLATION, _what_does_not_fit(view, flow, int(lacking.sum())))
    even_out(flow, held)
    return flow.given.T[np.arange(len(flow.given)) < lacking[:, None]]


def _what_does_not_fit(view: ClusterView, flow: RowFlow, wanted: int) -> str:
    missing = int(flow.lacking.sum())
    full = int((view.live & (view.headroom == 0)).sum())
    return (
        f"No room for {missing} of {counted(wanted, 'new replica')}, in {int(np.count_nonzero(flow.lacking))} of "
        f"{counted(len(flow.lacking), 'partition')}: max.broker.partitions={view.replica_limit} leaves "
        f"{full} of {counted(int(view.live.sum()), 'live broker')} without room, and the others together with room for "
        f"{wanted - missing} (max.partitions={view.partition_limit} is not exceeded)."
    )


def _leading(rows: Int32Array, leaders: npt.ArrayLike | None) -> BoolArray:
    """bool[partitions, replicas]: the cell of each row's leader."""
    leader = rows[:, 0] if leaders is None else np.asarray(leaders)
    if leader.shape != (len(rows),) or leader.dtype.kind not in "iu":
        raise ValueError(f"leaders are {counted(len(rows), 'broker id')}, not {leader.dtype} of shape {leader.shape}")
    leading: BoolArray = (rows == leader[:, None]) & (rows >= 0)
    if leaders is not None and (absent := (leader >= 0) & ~leading.any(axis=1)).any():
        at = int(np.argmax(absent))
        raise ValueError(f"{counted(int(absent.sum()), 'row')} without the given leader, first row {at}: {leader[at]}")
    return leading
