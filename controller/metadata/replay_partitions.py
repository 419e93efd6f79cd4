"""Replay of partition records in bulk: runs of new partitions and runs of changes, as column operations."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from controller.metadata.columns import PADDING, ColumnTable, Ints
from controller.metadata.image import MetadataImage, Topic
from controller.metadata.partition import NO_LEADER_CHANGE, RECOVERED
from controller.metadata.partition_table import NewRows, PartitionKey, PartitionTable
from protocol.columns import Columns
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
    """Merge a run of changes that name replicas of the same number, ISR, leader, recovery state or eligible leader
    replicas, nothing else."""
    for table, rows, positions in _rows_by_table(image, run):
        if "replicas" in run.values:
            _merge_replicas(image, table, rows, positions, run)
        _merge_rows(image.partitions, table, rows, positions, run)


def _merge_replicas(
    image: MetadataImage,
    table: ColumnTable,
    rows: NDArray[np.int64],
    positions: NDArray[np.int64],
    run: Columns[PartitionChangeRecord],
) -> None:
    replicas: Ints = run.values["replicas"][positions]
    width = replicas.shape[1]
    if (table.replica_count[rows] != width).any():
        raise ReplayError("a run of changes alters the number of replicas")
    for topic_row in np.unique(table.topic_row[rows]).tolist():
        own = table.topic_row[rows] == topic_row
        name = image.topics_by_row[topic_row].name
        image.usage.remove(name, table.replicas[rows[own]])
        image.usage.add(name, replicas[own])
    image.catch_up_changes += 1
    table.replicas[rows, :width] = replicas
    table.directories[rows, :width] = _directory_numbers(image.partitions, run.values["directories"])[positions]


def _merge_rows(
    partitions: PartitionTable,
    table: ColumnTable,
    rows: NDArray[np.int64],
    positions: NDArray[np.int64],
    run: Columns[PartitionChangeRecord],
) -> None:
    values = run.values
    table.partition_epoch[rows] += 1
    isr = values.get("isr")
    if isr is not None:
        width = isr.shape[1]
        table.isr[rows, :width] = isr[positions]
        table.isr[rows, width:] = PADDING
        table.isr_count[rows] = width
    leader = values.get("leader", NO_LEADER_CHANGE)
    if isinstance(leader, np.ndarray) or leader != NO_LEADER_CHANGE:
        table.leader[rows] = leader[positions] if isinstance(leader, np.ndarray) else leader
        table.leader_epoch[rows] += 1
    if "leader_recovery_state" in values:
        table.leader_recovery_state[rows] = values["leader_recovery_state"]
    if "eligible_leader_replicas" in values or "last_known_elr" in values:
        _merge_elr(partitions, table, rows, positions, run)


def _merge_elr(
    partitions: PartitionTable,
    table: ColumnTable,
    rows: NDArray[np.int64],
    positions: NDArray[np.int64],
    run: Columns[PartitionChangeRecord],
) -> None:
    named, last_known = (run.values.get(name) for name in ("eligible_leader_replicas", "last_known_elr"))
    for row, position in zip(rows.tolist(), positions.tolist(), strict=True):
        key = PartitionKey(int(table.topic_row[row]), int(table.partition_index[row]))
        elr, last_known_elr = partitions.elr.get(key, ((), ()))
        if named is not None:
            elr = tuple(named[position].tolist())
        if last_known is not None:
            last_known_elr = tuple(last_known[position].tolist())
        if elr or last_known_elr:
            partitions.elr[key] = (elr, last_known_elr)
            table.aside[row] = True
        else:
            partitions.elr.pop(key, None)
            table.aside[row] = key in partitions.reassigning


def _rows_by_table(
    image: MetadataImage, run: Columns[PartitionChangeRecord]
) -> Iterator[tuple[ColumnTable, NDArray[np.int64], NDArray[np.int64]]]:
    """For each table: the rows that the run names, and their positions in the run."""
    topic_ids = np.ascontiguousarray(run.values["topic_id"]).view("V16").reshape(-1)
    indexes: Ints = run.values["partition_id"]
    starts = np.flatnonzero(np.concatenate(([True], topic_ids[1:] != topic_ids[:-1])))
    ends = np.append(starts[1:], len(topic_ids))
    pieces: dict[int, tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]] = {}
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        topic = _topic(image, Uuid(topic_ids[start].tobytes()))
        wanted = indexes[start:end]
        found = 0
        for owned, table in image.partitions.topic_ranges(topic.row):
            inside = np.flatnonzero((wanted >= owned.first_index) & (wanted < owned.first_index + owned.length))
            if len(inside):
                rows, positions = pieces.setdefault(table.width, ([], []))
                rows.append(wanted[inside].astype(np.int64) - owned.first_index + owned.first_row)
                positions.append(inside + start)
                found += len(inside)
        if found != end - start:
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
