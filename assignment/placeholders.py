"""Replaces placeholders with a broker that has come up (KIP-409), within the broker's limit (KIP-578).

A placeholder is a negative id in a row: a replica that could not be created yet. This module decides which rows are
filled first. The controller decides when, and changes epochs and ISRs. Existing replicas do not move.
"""

import numpy as np

from klamm.assignment.cluster_view import ClusterView, Int32Array, Int64Array
from klamm.assignment.limited.existing_rows import validated_rows


def rows_to_fill(view: ClusterView, placement: Int32Array, broker_id: int) -> Int64Array:
    """int64[k]: the rows of `placement` in which the broker replaces a placeholder, in order of precedence.

    These rows have a placeholder and do not have the broker. Rows with the fewest real replicas come first, then lower
    row indexes; there are at most as many as the broker's headroom. Raises ValueError unless the broker is in the view
    and live, and the placement is a table of integers, int32[partitions, replicas].
    """
    rows = validated_rows(placement)
    (at,) = view.index_of([broker_id])
    if broker_id < 0 or at < 0 or view.fenced[at]:
        raise ValueError(f"broker {broker_id} is not a live broker of the view")
    headroom = int(view.headroom[at])
    real = np.count_nonzero(rows >= 0, axis=1)
    open_rows = np.flatnonzero((real < rows.shape[1]) & ~(rows == broker_id).any(axis=1))
    # 16-bit numbers sort ten times as fast. Rows of 2^16 or more replicas do not occur in practice.
    keys = real[open_rows].astype(np.uint16 if rows.shape[1] < 1 << 16 else np.int64)
    return open_rows[np.argsort(keys, kind="stable")][:headroom]


def fill_placeholders(view: ClusterView, placement: Int32Array, broker_id: int) -> Int32Array:
    """The placement, int32[partitions, replicas], after the broker has come up. The argument is not changed.

    In each of `rows_to_fill` the broker replaces the leftmost placeholder; other placeholders keep their
    ids and places. Raises ValueError as `rows_to_fill` does.
    """
    chosen = rows_to_fill(view, placement, broker_id)
    filled = validated_rows(placement).copy()
    if chosen.size:
        filled[chosen, np.argmax(filled[chosen] < 0, axis=1)] = broker_id
    return filled
