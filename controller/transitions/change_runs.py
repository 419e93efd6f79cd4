"""Turns partition changes of one shape into columns (runs), and helper queries on the rows of a partition table.

What changes is decided elsewhere (`leadership`, `elections`). All rows of a run change the same fields, so rows are
first put into groups of one shape.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from klamm.controller.log_records import Record
from klamm.controller.metadata.columns import PADDING, ColumnTable, Ints
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import NO_LEADER_CHANGE, NO_RECOVERY_CHANGE
from klamm.protocol.columns import Columns
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.protocol.uuid import Uuid

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]
RUN_LENGTH: Final = 16
"""The fewest changes of one shape that are logged and replayed faster as one run of columns than one by one."""
_LISTS: Final = (
    "isr",
    "replicas",
    "adding_replicas",
    "removing_replicas",
    "eligible_leader_replicas",
    "last_known_elr",
)
_lists_of = attrgetter(*_LISTS)
_Shape = tuple[int | bool, ...]


def run_of_changes(
    image: MetadataImage, table: ColumnTable, rows: Rows, values: dict[str, object]
) -> Columns[PartitionChangeRecord]:
    """Changes of some rows of a table. A value in `values` is a column with an entry for each row, or one for all
    rows."""
    topics = image.topics_by_row
    topic_ids = b"".join([topics[row].topic_id for row in table.topic_row[rows].tolist()])
    return Columns(
        PartitionChangeRecord,
        len(rows),
        {
            "partition_id": table.partition_index[rows],
            "topic_id": np.frombuffer(topic_ids, dtype=np.uint8).reshape(-1, 16),
            **values,
        },
    )


def groups(*shapes: NDArray[np.generic]) -> Iterator[Rows]:
    """Positions of the rows that share one shape, group by group, each ascending."""
    if not len(shapes[0]):
        return
    # One number encodes the shape of a row: the values that are compared are small and not negative.
    key = np.zeros(len(shapes[0]), dtype=np.int64)
    for shape in shapes:
        key = key * (int(shape.max()) + 1) + shape.astype(np.int64)
    _, group_of = np.unique(key, return_inverse=True)
    order = np.argsort(group_of, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(group_of[order])) + 1)


def in_lists(values: Ints, lists: Ints) -> Mask:
    """For each value of a row, whether the list of the same row contains it; no list contains padding."""
    found: Mask = (values[:, :, None] == lists[:, None, :]).any(axis=2)
    found &= values != PADDING
    return found


def in_runs(changes: Iterable[PartitionChangeRecord]) -> Iterator[Record]:
    """The same changes, which concern different partitions: `RUN_LENGTH` or more of one shape in a row become
    columns."""
    for shape, alike in groupby(changes, key=_shape):
        run = list(alike)
        if len(run) < RUN_LENGTH:
            yield from run
            continue
        values: dict[str, object] = {
            "partition_id": np.array([change.partition_id for change in run], dtype=np.int32),
            "topic_id": _uuids([change.topic_id for change in run]),
        }
        names_leader, recovery_state, directories, *lengths = shape
        if names_leader:
            values["leader"] = np.array([change.leader for change in run], dtype=np.int32)
        if recovery_state != NO_RECOVERY_CHANGE:
            values["leader_recovery_state"] = recovery_state
        if directories >= 0:
            named = [directory for change in run for directory in change.directories or ()]
            values["directories"] = _uuids(named).reshape(len(run), directories, 16)
        for name, length in zip(_LISTS, lengths, strict=True):
            if length >= 0:
                lists = [getattr(change, name) for change in run]
                values[name] = np.array(lists, dtype=np.int32).reshape(len(run), length)
        yield Columns(PartitionChangeRecord, len(run), values)


def _uuids(uuids: Iterable[Uuid]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(uuids), np.uint8).reshape(-1, 16)


def _shape(change: PartitionChangeRecord) -> _Shape:
    """Whether the change names a leader, which recovery state, and the length of each list; -1: the field is not
    set."""
    directories = change.directories
    return (
        change.leader != NO_LEADER_CHANGE,
        change.leader_recovery_state,
        -1 if directories is None else len(directories),
        *[-1 if one is None else len(one) for one in _lists_of(change)],
    )
