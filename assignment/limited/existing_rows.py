"""Checks existing placements: their shape, their broker ids, and which cells hold a replica.

A placement is int32[partitions, replicas] of broker ids; negative ids are placeholders (KIP-409). Brokers need not be
known or live, because existing rows may have replicas on brokers that are gone.
"""

import numpy as np
import numpy.typing as npt

from klamm.assignment.cluster_view import BoolArray, Int32Array, Int64Array
from klamm.assignment.wording import counted, first_few

_INT32 = np.iinfo(np.int32)


def validated_rows(placement: npt.ArrayLike) -> Int32Array:
    """The placement as int32[partitions, replicas]: the same array where it is one already.

    Raises ValueError unless it is a table of integers that fit into 32 bits.
    """
    rows = np.asarray(placement)
    if rows.ndim != 2 or rows.dtype.kind not in "iu":
        raise ValueError(
            f"a placement is a table of broker ids, one row for each partition, not {rows.dtype} of shape {rows.shape}"
        )
    if rows.dtype == np.int32:
        return rows
    outside = rows[(rows < _INT32.min) | (rows > _INT32.max)]
    if outside.size:
        raise ValueError(f"{counted(outside.size, 'broker id')} beyond 32 bits: {first_few(outside)}")
    return rows.astype(np.int32)


def check_distinct(rows: Int32Array) -> None:
    """Raise ValueError where a row names a broker twice; placeholders are no brokers."""
    ordered = np.sort(rows, axis=1)
    twice = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    if twice.any():
        at = int(np.argmax(twice))
        raise ValueError(f"{counted(int(twice.sum()), 'row')} with a broker twice, first row {at}: {rows[at].tolist()}")


def packed_left(values: Int64Array, wanted: BoolArray, filler: int) -> Int64Array:
    """int64[rows, most wanted]: the wanted cells of each row in their order, from the left, then `filler`."""
    counts = np.count_nonzero(wanted, axis=1)
    packed = np.full((len(values), int(counts.max(initial=0))), filler, dtype=np.int64)
    # Both masks are read row by row, and have equally many cells in each.
    packed[np.arange(packed.shape[1]) < counts[:, None]] = values[wanted]
    return packed
