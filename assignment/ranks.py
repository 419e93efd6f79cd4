"""Order and rank among small whole numbers, which sort fast: brokers and racks by their index."""

import numpy as np

from klamm.assignment.cluster_view import Int64Array


def rank_within(groups: Int64Array) -> Int64Array:
    """int64[k]: for each element, how many earlier elements have the same group. Groups are numbered from 0."""
    ascending = stable_order(groups)
    sizes = np.bincount(groups)
    rank = np.empty(len(groups), dtype=np.int64)
    rank[ascending] = np.arange(len(groups)) - (np.cumsum(sizes) - sizes)[groups[ascending]]
    return rank


def stable_order(groups: Int64Array) -> Int64Array:
    """`np.argsort(groups, kind="stable")` of numbers from 0, ten times as fast where 16 bits hold them."""
    narrow = groups.astype(np.uint16) if len(groups) and int(groups.max()) < 1 << 16 else groups
    return np.argsort(narrow, kind="stable")
