"""Brokers in the order in which KIP-36 visits them: racks in turn, so that neighbours differ in rack.

Racks sort as Java's strings do, by UTF-16 code units; within a rack, ids ascend. A rack that has run out of
brokers is skipped from then on, so the tail of the order belongs to the largest racks.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from klamm.assignment.cluster_view import ClusterView
from klamm.assignment.wording import counted

IndexArray = npt.NDArray[np.int64]


def rack_alternated_order(view: ClusterView) -> tuple[IndexArray, IndexArray]:
    """Indexes into `view.broker_ids` in rack-alternated order, and beside each the number of its rack.

    Rack numbers count from 0 in the order of the racks' names. Every broker must have a rack (ValueError).
    """
    rack_of = number_racks(_with_rack(view))
    by_rack = np.lexsort((view.broker_ids, rack_of))
    sizes = np.bincount(rack_of)
    first_of_rack = np.cumsum(sizes) - sizes
    round_of = np.arange(len(view)) - first_of_rack[rack_of[by_rack]]
    # One broker of each rack that has one left makes a round; rounds follow each other.
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
    """Bytes that sort as Java sorts the string."""
    # Big-endian bytes compare as the code units do; a lone surrogate is a code unit like any other.
    return rack.encode("utf-16-be", "surrogatepass")
