"""Reassignments of many partitions at once, as column operations.

Only plain reassignments begin here: the partition has a live leader and no entry in a sparse table, and its target is
valid and adds replicas, or only changes their order. None of these can complete at once, and no leader or ISR changes.
All others take the one-by-one path of `klamm.controller.transitions.partition_change`, which is also the reference: a
property test compares the results of both.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from klamm.controller.log_records import Record
from klamm.controller.metadata.broker_set import BrokerSet
from klamm.controller.metadata.columns import PADDING, ColumnTable, Ints
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.live_replicas import LiveReplicas
from klamm.controller.metadata.partition_table import PartitionKey
from klamm.controller.transitions.change_runs import Mask, Rows, groups, in_lists, run_of_changes

_BEYOND = 1 << 40
"""Added to the key of placeholders, so that they sort after all broker ids; entries that are not kept sort after
them."""


def plan_plain_reassignments(
    image: MetadataImage, targets: Mapping[PartitionKey, Sequence[int]], *, allow_replication_factor_change: bool
) -> tuple[list[Record], set[PartitionKey]]:
    """The records that begin those of the reassignments that are plain, and the keys of these partitions. Limits are
    not checked. A partition that has its target already is among the keys, without a record."""
    live = LiveReplicas(image, image.live_brokers())
    registered = BrokerSet(image.brokers)
    records: list[Record] = []
    plain: set[PartitionKey] = set()
    for table, keys, rows in image.partitions.locate_many(targets):
        lengths = np.array([len(targets[key]) for key in keys])
        for group in groups(lengths):
            wanted = np.array([targets[keys[position]] for position in group.tolist()], dtype=np.int32)
            moves = _Moves(table, rows[group], wanted)
            fine = moves.plain(live, registered)
            if not allow_replication_factor_change:
                fine &= table.replica_count[moves.rows] == wanted.shape[1]
            plain.update(keys[position] for position in group[fine].tolist())
            records += moves.records(image, fine)
    return records, plain


class _Moves:
    """Rows of one table, and a target for each, int32[n, k]."""

    def __init__(self, table: ColumnTable, rows: Rows, wanted: Ints) -> None:
        self.table, self.rows, self._wanted = table, rows, wanted
        self._present = table.replicas[rows]
        self._is_new = ~in_lists(wanted, self._present)
        self._goes = ~in_lists(self._present, wanted) & (self._present != PADDING)

    def plain(self, live: LiveReplicas, registered: BrokerSet) -> Mask:
        """Which rows have a plain reassignment."""
        table, rows, wanted = self.table, self.rows, self._wanted
        if not wanted.shape[1]:
            return np.zeros(len(rows), dtype=np.bool_)
        leads = live.holds(table, rows) & (self._present == table.leader[rows][:, None])
        in_order = np.sort(wanted, axis=1)
        fine: Mask = ~table.sparse[rows] & leads.any(axis=1) & registered.holds(wanted).all(axis=1)
        fine &= (in_order[:, 1:] != in_order[:, :-1]).all(axis=1)
        fine &= self._is_new.any(axis=1) | ~self._goes.any(axis=1)
        return fine

    def records(self, image: MetadataImage, fine: Mask) -> list[Record]:
        """The changes of some rows, in runs of one shape."""
        added, removed = self._is_new.sum(axis=1), self._goes.sum(axis=1)
        todo = np.flatnonzero(fine & ~self._unchanged())
        return [self._run(image, todo[group]) for group in groups(added[todo], removed[todo])]

    def _unchanged(self) -> Mask:
        """Which rows have their target already. Valid only for rows that add replicas or change the order."""
        present = self._present[:, : self._wanted.shape[1]]
        if present.shape != self._wanted.shape:
            return np.zeros(len(self.rows), dtype=np.bool_)
        unchanged: Mask = (present == self._wanted).all(axis=1)
        return unchanged

    def _run(self, image: MetadataImage, at: Rows) -> Record:
        adding = _sorted(self._wanted[at], self._is_new[at])
        removing = _sorted(self._present[at], self._goes[at])
        replicas = np.concatenate((self._wanted[at], removing), axis=1)
        directories = self._directories(image, at, replicas)
        values: dict[str, object] = {
            "replicas": replicas,
            **({"directories": directories} if directories.any() else {}),
        }
        if adding.shape[1]:
            values["adding_replicas"] = adding
        if removing.shape[1]:
            values["removing_replicas"] = removing
        return run_of_changes(image, self.table, self.rows[at], values)

    def _directories(self, image: MetadataImage, at: Rows, replicas: Ints) -> NDArray[np.uint8]:
        equal = replicas[:, :, None] == self._present[at][:, None, :]
        known = np.frombuffer(b"".join(image.partitions.directory_ids.ids), dtype=np.uint8).reshape(-1, 16)
        numbers = np.take_along_axis(self.table.directories[self.rows[at]], equal.argmax(axis=2), axis=1)
        directories = known[numbers]
        is_new = ~equal.any(axis=2)
        for broker_id in sorted(set(replicas[is_new].tolist())):
            default = np.frombuffer(image.brokers[broker_id].default_directory, dtype=np.uint8)
            directories[is_new & (replicas == broker_id)] = default
        return directories


def _sorted(ids: Ints, kept: Mask) -> Ints:
    """The kept ids of each row, the same number in each row: ascending, placeholders last, -1 before -2."""
    keys = np.where(ids < 0, _BEYOND - ids.astype(np.int64), ids)
    keys = np.sort(np.where(kept, keys, 2 * _BEYOND), axis=1)[:, : int(kept[0].sum())]
    return np.where(keys < _BEYOND, keys, _BEYOND - keys).astype(np.int32)


__all__ = ["plan_plain_reassignments"]
