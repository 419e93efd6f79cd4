"""Replay of partition records in bulk: runs of new partitions and runs of changes, as column operations."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.metadata.columns import PADDING, ColumnTable, Ints
from controller.metadata.image import MetadataImage, Topic
from controller.metadata.partition import NO_LEADER_CHANGE, RECOVERED
from controller.metadata.partition_table import NOTHING_ASIDE, NewRows, PartitionKey, PartitionTable
from protocol.columns import Columns, is_column
from protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from protocol.uuid import Uuid

FEW_PARTITIONS = 3
"""Up to here partitions are appended faster one by one than as columns."""


class ReplayError(Exception):
    """A record that contradicts the image: the log holds what must never be in it."""


def replay_new_partitions(image: MetadataImage, records: Sequence[PartitionRecord]) -> None:
    """Append partitions that came one by one: few as they came, many in stretches of equal shape."""
    if len(records) <= FEW_PARTITIONS:
        for record in records:
            _append_one(image, record)
        return
    for (topic_id, *_), alike in groupby(records, key=_shape):
        stretch = list(alike)
        first = stretch[0]
        topic = _topic(image, topic_id)
        _expect_next(image, topic, [record.partition_id for record in stretch])
        number = image.partitions.directory_ids.number
        new = NewRows(
            replicas=_matrix([record.replicas for record in stretch]),
            isr=_matrix([record.isr for record in stretch]),
            directories=_matrix([[number(directory) for directory in record.directories] for record in stretch]),
            leader=np.array([record.leader for record in stretch], dtype=np.int32),
            leader_epoch=np.array([record.leader_epoch for record in stretch], dtype=np.int32),
            partition_epoch=np.array([record.partition_epoch for record in stretch], dtype=np.int32),
            leader_recovery_state=first.leader_recovery_state,
        )
        if new.directories.shape[1] == 0:
            new = new._replace(directories=np.zeros_like(new.replicas))
        image.partitions.append(topic.row, new)
        image.usage.add(topic.name, new.replicas)
        if any(_has_aside(record) for record in stretch):
            _keep_aside(image.partitions, topic, stretch)


def _append_one(image: MetadataImage, record: PartitionRecord) -> None:
    topic = _topic(image, record.topic_id)
    _expect_next(image, topic, [record.partition_id])
    image.partitions.append_one(topic.row, record)
    image.usage.add_one(topic.name, record.replicas)


def _shape(record: PartitionRecord) -> tuple[Uuid, int, int, int, int]:
    return (
        record.topic_id,
        len(record.replicas),
        len(record.isr),
        len(record.directories),
        record.leader_recovery_state,
    )


def _matrix(rows: Sequence[Sequence[int]]) -> Ints:
    return np.array(rows, dtype=np.int32).reshape(len(rows), len(rows[0]))


def _has_aside(record: PartitionRecord) -> bool:
    return bool(
        record.adding_replicas or record.removing_replicas or record.eligible_leader_replicas or record.last_known_elr
    )


def _keep_aside(partitions: PartitionTable, topic: Topic, records: Sequence[PartitionRecord]) -> None:
    for record in records:
        key = PartitionKey(topic.row, record.partition_id)
        if record.adding_replicas or record.removing_replicas:
            partitions.reassigning[key] = (tuple(record.adding_replicas), tuple(record.removing_replicas))
        if record.eligible_leader_replicas or record.last_known_elr:
            partitions.elr[key] = (tuple(record.eligible_leader_replicas or ()), tuple(record.last_known_elr or ()))
        table, row = partitions.locate(*key)
        table.aside[row] = key in partitions.reassigning or key in partitions.elr


def replay_new_run(image: MetadataImage, run: Columns[PartitionRecord]) -> None:
    """Append a run of new partitions of one topic. A run carries no reassignment and no eligible leader replicas."""
    values = run.values
    topic = _topic(image, values["topic_id"])
    _expect_next(image, topic, values["partition_id"])
    replicas: Ints = values["replicas"]
    image.partitions.append(
        topic.row,
        NewRows(
            replicas=replicas,
            isr=values["isr"],
            directories=_directory_numbers(image.partitions, values["directories"]),
            leader=values["leader"],
            leader_epoch=values["leader_epoch"],
            partition_epoch=values["partition_epoch"],
            leader_recovery_state=values.get("leader_recovery_state", RECOVERED),
        ),
    )
    image.usage.add(topic.name, replicas)


def _directory_numbers(partitions: PartitionTable, directories: NDArray[np.uint8]) -> Ints:
    """The numbers of n × k directory ids given as bytes. Few are distinct: one look at each is enough."""
    rows, replica_count, _ = directories.shape
    as_pairs = np.ascontiguousarray(directories).reshape(-1, 16).view(np.uint64).reshape(-1, 2)
    # Two different ids that mix to one number would be told apart by nothing: compare with the found ids below.
    mixed = as_pairs[:, 0] * np.uint64(0x9E3779B97F4A7C15) ^ as_pairs[:, 1]
    _, first, inverse = np.unique(mixed, return_index=True, return_inverse=True)
    found = as_pairs[first]
    if not np.array_equal(found[inverse], as_pairs):
        found, inverse = np.unique(as_pairs, axis=0, return_inverse=True)
    numbers: Ints = np.array([partitions.directory_ids.number(Uuid(pair.tobytes())) for pair in found], dtype=np.int32)
    placed: Ints = numbers[inverse.reshape(-1)]
    return placed.reshape(rows, replica_count)


def replay_change_run(image: MetadataImage, run: Columns[PartitionChangeRecord]) -> None:
    """Merge a run of changes, each of another partition. One that names replicas has to name their directories."""
    names_replicas = "replicas" in run.values
    if names_replicas:
        stretches = ((topic.row, run.values["partition_id"][rows].tolist()) for topic, rows in _stretches(image, run))
        image.partitions.make_room(stretches, run.values["replicas"].shape[1])
    if names_replicas or "leader" in run.values:
        image.catch_up_changes += 1
    if names_replicas or "removing_replicas" in run.values:
        image.room_changes += 1
    for table, rows, positions in _rows_by_table(image, run):
        values = {name: value[positions] if is_column(value) else value for name, value in run.values.items()}
        if names_replicas:
            _merge_replicas(image, table, rows, values)
        _merge_rows(table, rows, values)
        for aside, names in (
            (image.partitions.elr, ("eligible_leader_replicas", "last_known_elr")),
            (image.partitions.reassigning, ("adding_replicas", "removing_replicas")),
        ):
            if not values.keys().isdisjoint(names):
                _merge_aside(image.partitions, aside, table, rows, [values.get(name) for name in names])


def _merge_replicas(
    image: MetadataImage, table: ColumnTable, rows: NDArray[np.int64], values: Mapping[str, Any]
) -> None:
    if "directories" not in values:
        raise ReplayError("a run of changes names replicas without their directories")
    replicas: Ints = values["replicas"]
    width = replicas.shape[1]
    unlimited = np.isin(table.topic_row[rows], image.unlimited_rows())
    for limited, some in ((True, ~unlimited), (False, unlimited)):
        image.usage.exchange(table.replicas[rows[some]], replicas[some], limited=limited)
    table.replica_count[rows] = width
    for column, given in (
        (table.replicas, replicas),
        (table.directories, _directory_numbers(image.partitions, values["directories"])),
    ):
        column[rows, :width] = given
        column[rows, width:] = PADDING


def _merge_rows(table: ColumnTable, rows: NDArray[np.int64], values: Mapping[str, Any]) -> None:
    table.partition_epoch[rows] += 1
    isr = values.get("isr")
    if isr is not None:
        width = isr.shape[1]
        table.isr[rows, :width] = isr
        table.isr[rows, width:] = PADDING
        table.isr_count[rows] = width
    leader = values.get("leader", NO_LEADER_CHANGE)
    if isinstance(leader, np.ndarray) or leader != NO_LEADER_CHANGE:
        table.leader[rows] = leader
        table.leader_epoch[rows] += 1
    if "leader_recovery_state" in values:
        table.leader_recovery_state[rows] = values["leader_recovery_state"]


def _merge_aside(
    partitions: PartitionTable,
    aside: dict[PartitionKey, tuple[tuple[int, ...], tuple[int, ...]]],
    table: ColumnTable,
    rows: NDArray[np.int64],
    columns: Sequence[Ints | None],
) -> None:
    """What partitions have beside their rows, two lists each; a list that has no column stays as it is."""
    keys = map(PartitionKey, table.topic_row[rows].tolist(), table.partition_index[rows].tolist())
    one, other = (repeat(None) if column is None else map(tuple, column.tolist()) for column in columns)
    for row, key, first, second in zip(rows.tolist(), keys, one, other, strict=False):
        was = aside.get(key, NOTHING_ASIDE)
        now = was[0] if first is None else first, was[1] if second is None else second
        if any(now):
            aside[key] = now
        else:
            aside.pop(key, None)
        table.aside[row] = key in partitions.reassigning or key in partitions.elr


def _stretches(image: MetadataImage, run: Columns[PartitionChangeRecord]) -> Iterator[tuple[Topic, slice]]:
    """The topics that a run names, and which of its rows are theirs."""
    topic_ids = np.ascontiguousarray(run.values["topic_id"]).view("V16").reshape(-1)
    starts = np.flatnonzero(np.concatenate(([True], topic_ids[1:] != topic_ids[:-1])))
    ends = np.append(starts[1:], len(topic_ids))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield _topic(image, Uuid(topic_ids[start].tobytes())), slice(start, end)


def _rows_by_table(
    image: MetadataImage, run: Columns[PartitionChangeRecord]
) -> Iterator[tuple[ColumnTable, NDArray[np.int64], NDArray[np.int64]]]:
    """For each table: the rows that the run names, and their positions in the run."""
    indexes: Ints = run.values["partition_id"]
    pieces: dict[int, tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]] = {}
    for topic, stretch in _stretches(image, run):
        wanted = indexes[stretch]
        found = 0
        for owned, table in image.partitions.topic_ranges(topic.row):
            inside = np.flatnonzero((wanted >= owned.first_index) & (wanted < owned.first_index + owned.length))
            if len(inside):
                rows, positions = pieces.setdefault(table.width, ([], []))
                rows.append(wanted[inside].astype(np.int64) - owned.first_index + owned.first_row)
                positions.append(inside + stretch.start)
                found += len(inside)
        if found != len(wanted):
            raise ReplayError(f"topic {topic.name} lacks a partition that a change names")
    for width, (rows, positions) in pieces.items():
        yield image.partitions.tables[width], np.concatenate(rows), np.concatenate(positions)


def _topic(image: MetadataImage, topic_id: Uuid) -> Topic:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        raise ReplayError(f"no topic with id {topic_id} for a partition")
    return topic


def _expect_next(image: MetadataImage, topic: Topic, partition_ids: Sequence[int] | Ints) -> None:
    first = image.partition_count(topic)
    expected = range(first, first + len(partition_ids))
    given = partition_ids.tolist() if isinstance(partition_ids, np.ndarray) else partition_ids
    if list(given) != list(expected):
        raise ReplayError(f"partitions of topic {topic.name} do not follow the {first} that it has")
