"""How even a placement is, counted the same way for every placer: from the replicas alone, when the clock has stopped.

Brokers that a limit has kept small cannot be as full as the others: with limits, only brokers that have room left are
compared, and what brokers held before counts.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from bench.placement_rows import Spread
from klamm.assignment import ClusterView

Counts = npt.NDArray[np.int64]


def spread_of(view: ClusterView, placement: npt.NDArray[Any], held: Counts) -> Spread:
    """The spread of a placement int[partitions, replication_factor] without placeholders.

    `held` int64[n] is what the brokers of the view have besides it.
    """
    at = view.index_of(placement)
    replicas = held + np.bincount(at.ravel(), minlength=len(view))
    leaders = np.bincount(at[:, 0], minlength=len(view))
    open_ones = replicas < view.replica_limit
    compared = open_ones if open_ones.any() else np.ones(len(view), dtype=np.bool_)
    per_broker = {"replicas_per_broker": np.ptp(replicas[compared]), "leaders_per_broker": np.ptp(leaders[compared])}
    if any(rack is None for rack in view.racks):
        return Spread(**{name: int(number) for name, number in per_broker.items()})
    racks, rack_of = np.unique(np.array(view.racks), return_inverse=True)
    per_rack = {
        "replicas_per_rack": np.ptp(np.bincount(rack_of, weights=replicas)),
        "leaders_per_rack": np.ptp(np.bincount(rack_of, weights=leaders)),
        "racks_missed": _racks_missed(rack_of[at], len(racks)),
    }
    return Spread(**{name: int(number) for name, number in (per_broker | per_rack).items()})


def _racks_missed(racks_of_rows: npt.NDArray[Any], racks: int) -> int:
    ascending = np.sort(racks_of_rows, axis=1)
    distinct = 1 + np.count_nonzero(np.diff(ascending, axis=1), axis=1)
    return int((min(racks, racks_of_rows.shape[1]) - distinct).sum())


def beyond_limits(view: ClusterView, placement: npt.NDArray[Any], held: Counts) -> int:
    """Replicas above the room that the limits left on each broker."""
    placed = np.bincount(view.index_of(placement[placement >= 0]), minlength=len(view))
    return int(np.maximum(placed - np.maximum(view.replica_limit - held, 0), 0).sum())


def count_moves(before: npt.NDArray[Any], after: npt.NDArray[Any]) -> int:
    """Replicas on brokers on which their row had none; both int[partitions, any width]."""
    new = np.ones(after.shape, dtype=np.bool_)
    for column in before.T:
        new &= after != column[:, None]
    return int(new.sum())


def less_even_in(ours: Spread, theirs: Spread) -> list[str]:
    """The numbers of Klamm that are larger than the peer's, in words."""
    return [
        name.replace("_", " ")
        for name in Spread.__dataclass_fields__
        if (getattr(ours, name) or 0) > (getattr(theirs, name) or 0)
    ]
