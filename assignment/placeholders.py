"""Placeholders become replicas when a broker comes up (KIP-409), within the broker's limit (KIP-578).

A placeholder is a negative id in a row: a replica that could not be created yet. Which rows come first is decided
here; when to ask, and what becomes of epochs and ISRs, is the controller's. Replicas that exist do not move.
"""

import numpy as np

from klamm.assignment.cluster_view import ClusterView, Int32Array, Int64Array
from klamm.assignment.limited.existing_rows import validated_rows


def rows_to_fill(view: ClusterView, placement: Int32Array, broker_id: int) -> Int64Array:
    """int64[k]: the rows of `placement` in which the broker takes a placeholder's place, first come first.

    Rows with a placeholder that do not have the broker: those with the fewest real replicas first, then in the order
    of the rows; as many as the broker has headroom. Raises ValueError unless the broker is in the view and live, and
    the placement is a table of integers, int32[partitions, replicas].
    """
    rows = validated_rows(placement)
    (at,) = view.index_of([broker_id])
    if broker_id < 0 or at < 0 or view.fenced[at]:
        raise ValueError(f"broker {broker_id} is no live broker of the view")
    headroom = int(view.headroom[at])
    real = np.count_nonzero(rows >= 0, axis=1)
    open_rows = np.flatnonzero((real < rows.shape[1]) & ~(rows == broker_id).any(axis=1))
    # Narrow numbers sort ten times as fast; beyond 2^16 replicas in a row nobody will wait for that.
    keys = real[open_rows].astype(np.uint16 if rows.shape[1] < 1 << 16 else np.int64)
    return open_rows[np.argsort(keys, kind="stable")][:headroom]


def fill_placeholders(view: ClusterView, placement: Int32Array, broker_id: int) -> Int32Array:
    """The placement, int32[partitions, replicas], after the broker has come up; the one given stays as it was.

    In each of `rows_to_fill` the broker takes the place of the leftmost placeholder; other placeholders keep their
    ids and places. Raises ValueError as `rows_to_fill` does.
    """
    chosen = rows_to_fill(view, placement, broker_id)
    filled = validated_rows(placement).copy()
    if chosen.size:
        filled[chosen, np.argmax(filled[chosen] < 0, axis=1)] = broker_id
    return filled
