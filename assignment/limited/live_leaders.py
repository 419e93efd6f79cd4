"""Gives every row a live broker, which leads, if rows have fenced and live brokers.

`fill_rows` does not know which brokers may lead. If it leaves a row without a live broker, another row has two or more,
because there are at least as many live replicas as rows. The two rows exchange a live broker for a fenced one. There is
always a fenced one for which the two rows together do not lose a rack.
"""

import numpy as np

from klamm.assignment.cluster_view import BoolArray, Int64Array
from klamm.assignment.limited.leaders import balance_leaders, leaders_first
from klamm.assignment.wording import counted


def with_live_leaders(rows: Int64Array, live: BoolArray, rack_of: Int64Array) -> Int64Array:
    """The rows, int64[partitions, replication_factor], each led by one of its live brokers; leaders are as even as
    possible.

    Rows hold indexes into `live`, bool[n], and `rack_of`, int64[n]. Every broker keeps its number of replicas, and the
    sum of racks per row does not decrease. Raises ValueError if there are fewer live replicas than rows.
    """
    rows = rows.copy()
    while (poor := np.flatnonzero(~live[rows].any(axis=1))).size:
        rich = np.flatnonzero(live[rows].sum(axis=1) > 1)
        if not rich.size:
            raise ValueError(f"{counted(int(live[rows].sum()), 'live replica')} in {counted(len(rows), 'row')}")
        pairs = min(len(poor), len(rich))
        _give_one_live(rows, rich[:pairs], poor[:pairs], live, rack_of)
    leader = balance_leaders(np.where(live[rows], rows, -1), len(live))[:, 0]
    return leaders_first(rows, leader)


def _give_one_live(rows: Int64Array, rich: Int64Array, poor: Int64Array, live: BoolArray, rack_of: Int64Array) -> None:
    """Each rich row gives a live broker to the poor row beside it and gets a fenced one in exchange."""
    given = np.argmax(live[rows[rich]], axis=1)
    comes = rows[rich, given]
    worth = np.empty((len(poor), rows.shape[1]), dtype=np.int64)
    for column in range(rows.shape[1]):
        goes = rows[poor, column]
        gained = _is_new(rows[poor], column, comes, rack_of) - _is_new(rows[poor], column, goes, rack_of)
        worth[:, column] = gained + _is_new(rows[rich], given, goes, rack_of)
        worth[(rows[rich] == goes[:, None]).any(axis=1), column] = -2  # the rich row has it already
    taken = np.argmax(worth, axis=1)
    rows[rich, given] = rows[poor, taken]
    rows[poor, taken] = comes


def _is_new(rows: Int64Array, column: int | Int64Array, brokers: Int64Array, rack_of: Int64Array) -> Int64Array:
    """int64[k]: 1 if the row, without the cell in `column`, lacks the rack of the broker, else 0."""
    same = rack_of[rows] == rack_of[brokers][:, None]
    same[np.arange(len(rows)), column] = False
    new: Int64Array = 1 - same.any(axis=1).astype(np.int64)
    return new
