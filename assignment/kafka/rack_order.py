"""Brokers in the order in which KIP-36 visits them: racks alternate, so that neighbours have different racks.

Racks sort as Java's strings do, by UTF-16 code units; within a rack, ids ascend. A rack without further brokers is
skipped, so the end of the order has brokers of the largest racks only.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from klamm.assignment.cluster_view import ClusterView
from klamm.assignment.wording import counted

IndexArray = npt.NDArray[np.int64]


def rack_alternated_order(view: ClusterView) -> tuple[IndexArray, IndexArray]:
    """int64[n] twice: indexes into `view.broker_ids` in rack-alternated order, and the number of each one's rack.

    Rack numbers count from 0 in the order of the racks' names. Raises ValueError if a broker has no rack.
    """
    rack_of = number_racks(_with_rack(view))
    by_rack = np.lexsort((view.broker_ids, rack_of))
    sizes = np.bincount(rack_of)
    first_of_rack = np.cumsum(sizes) - sizes
    round_of = np.arange(len(view)) - first_of_rack[rack_of[by_rack]]
    # Round i has the i-th broker of each rack that has so many.
    order = by_rack[np.lexsort((rack_of[by_rack], round_of))]
    return order, rack_of[order]


def number_racks(racks: Sequence[str]) -> IndexArray:
    """int64[n]: the number of each rack, counted from 0 in the order of the racks' names."""
    number_of = {name: number for number, name in enumerate(sorted(set(racks), key=utf16_units))}
    return np.array([number_of[rack] for rack in racks], dtype=np.int64)


def _with_rack(view: ClusterView) -> list[str]:
    racks = [rack for rack in view.racks if rack is not None]
    if len(racks) != len(view):
        raise ValueError(f"no rack for {len(view) - len(racks)} of {counted(len(view), 'broker')}")
    return racks


def utf16_units(rack: str) -> bytes:
    """The string as UTF-16 in big-endian order. These bytes sort as Java sorts strings; lone surrogates are allowed."""
    return rack.encode("utf-16-be", "surrogatepass")
