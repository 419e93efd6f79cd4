"""Replay of partition records in bulk: runs of new partitions and runs of changes, as column operations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from klamm.controller.metadata.columns import MAX_REPLICAS_PER_PARTITION, PADDING, ColumnTable, Ints, among, width_class
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.kind import ReplayError
from klamm.controller.metadata.partition import NO_LEADER_CHANGE, NO_RECOVERY_CHANGE, RECOVERED, RECOVERING, merge
from klamm.controller.metadata.partition_table import NO_LISTS, NewRows, PartitionKey, PartitionTable
from klamm.controller.metadata.topic import Topic
from klamm.controller.metadata.topic_table import TopicTable
from klamm.controller.metadata.usage import UNLIMITED_TOPICS
from klamm.protocol.columns import Columns, Ragged, is_column
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.uuid import Uuid

_TOPIC_ID = attrgetter("topic_id")
_SPARSE_FIELDS = ("adding_replicas", "removing_replicas", "eligible_leader_replicas", "last_known_elr")
FEW_PARTITIONS = 8
"""Up to this many partitions are appended faster one by one than as columns (measured: about equal at 10)."""


def replay_new_partitions(topics: TopicTable, records: Sequence[PartitionRecord], delta: Delta) -> None:
    """Append partitions from single records: few one by one, many in groups of equal shape."""
    for _, alike in groupby(records, key=_shape):
        group = list(alike)
        _refuse_sizes(*_shape(group[0])[:3])
        if len(group) <= FEW_PARTITIONS:
            for record in group:
                _append_one(topics, record, delta)
            continue
        owners = [(find_topic(topics, topic_id), len(list(own))) for topic_id, own in groupby(group, key=_TOPIC_ID)]
        number = topics.partitions.directory_ids.number
        replicas = _matrix([record.replicas for record in group])
        directories = _matrix([[number(directory) for directory in record.directories] for record in group])
        _append(
            topics,
            owners,
            NewRows(
                partition_index=np.array([record.partition_id for record in group]),
                replicas=replicas,
                isr=_matrix([record.isr for record in group]),
                directories=directories if directories.shape[1] else np.zeros_like(replicas),
                leader=np.array([record.leader for record in group]),
                leader_epoch=np.array([record.leader_epoch for record in group]),
                partition_epoch=np.array([record.partition_epoch for record in group]),
                leader_recovery_state=group[0].leader_recovery_state,
            ),
            delta,
        )
        _set_sparse_entries(topics, [record for record in group if _has_sparse_fields(record)])


def _append_one(topics: TopicTable, record: PartitionRecord, delta: Delta) -> None:
    topic = find_topic(topics, record.topic_id)
    if record.partition_id != topics.partition_count(topic):
        raise _not_the_next(topics, topic)
    topics.partitions.append_one(topic.row, record)
    topics.usage.add_one(topic.name, record.replicas)
    delta.new_partitions.add(topic.row, record.partition_id)


def _append(topics: TopicTable, owners: Sequence[tuple[Topic, int]], new: NewRows, delta: Delta) -> None:
    """Append partitions. `owners` are pairs of a topic and a number of partitions."""
    rows = [(topic.row, count) for topic, count in owners]
    wrong = new.partition_index != topics.partitions.next_indexes(rows)
    if wrong.any():
        ends = np.cumsum([count for _, count in owners])
        raise _not_the_next(topics, owners[int(np.searchsorted(ends, wrong.argmax(), side="right"))][0])
    delta.new_partitions.add_run(topics.partitions.append(rows, new), new.partition_index)
    limited = [topic.name not in UNLIMITED_TOPICS for topic, _ in owners]
    if all(limited):
        topics.usage.add(new.replicas, limited=True)
        return
    counted = np.repeat(limited, [count for _, count in owners])
    topics.usage.add(new.replicas[counted], limited=True)
    topics.usage.add(new.replicas[~counted], limited=False)


def _not_the_next(topics: TopicTable, topic: Topic) -> ReplayError:
    count = topics.partition_count(topic)
    return ReplayError(f"partitions of topic {topic.name} do not follow the {count} that it has")


def _refuse_sizes(replicas: int, isr: int, directories: int, width: int = 0) -> None:
    """ReplayError if the table has no room for lists of these lengths, which no controller writes. `width` is that of
    the table in which the partition is; 0: it is new."""
    if replicas > MAX_REPLICAS_PER_PARTITION:
        raise ReplayError(f"a partition has {replicas} replicas, and {MAX_REPLICAS_PER_PARTITION} are possible")
    width = max(width, width_class(replicas))
    if isr > width:
        raise ReplayError(f"a partition has an ISR of {isr} and {replicas} replicas")
    if directories > width:
        raise ReplayError(f"a partition has {replicas} replicas in {directories} directories")


def _shape(record: PartitionRecord) -> tuple[int, int, int, int]:
    return len(record.replicas), len(record.isr), len(record.directories), record.leader_recovery_state


def _matrix(rows: Sequence[Sequence[int]]) -> Ints:
    return np.array(rows, dtype=np.int32).reshape(len(rows), len(rows[0]))


def _has_sparse_fields(record: PartitionRecord) -> bool:
    return bool(
        record.adding_replicas or record.removing_replicas or record.eligible_leader_replicas or record.last_known_elr
    )


def _set_sparse_entries(topics: TopicTable, records: Iterable[PartitionRecord]) -> None:
    partitions = topics.partitions
    for record in records:
        key = PartitionKey(find_topic(topics, record.topic_id).row, record.partition_id)
        if record.adding_replicas or record.removing_replicas:
            partitions.reassigning[key] = (tuple(record.adding_replicas), tuple(record.removing_replicas))
        if record.eligible_leader_replicas or record.last_known_elr:
            partitions.elr[key] = (tuple(record.eligible_leader_replicas or ()), tuple(record.last_known_elr or ()))
        table, row = partitions.locate(*key)
        table.sparse[row] = True


def replay_new_run(topics: TopicTable, run: Columns[PartitionRecord], delta: Delta) -> None:
    """Append a run of new partitions, of one or several topics."""
    values = run.values
    replicas, directories = values["replicas"], values.get("directories")
    if not _is_table(replicas, directories):
        replay_new_partitions(topics, list(run), delta)
        return
    isr, isr_count = _padded(values["isr"])
    _refuse_sizes(replicas.shape[1], int(np.max(isr_count)), 0)
    _append(
        topics,
        [(topic, rows.stop - rows.start) for topic, rows in _topic_slices(topics, run)],
        NewRows(
            partition_index=values["partition_id"],
            replicas=replicas,
            isr=isr,
            isr_count=isr_count,
            directories=_directory_numbers(topics.partitions, replicas, directories),
            leader=values["leader"],
            leader_epoch=values["leader_epoch"],
            partition_epoch=values["partition_epoch"],
            leader_recovery_state=values.get("leader_recovery_state", RECOVERED),
        ),
        delta,
    )
    _set_sparse_entries(topics, _with_sparse_fields(values))


def _is_table(replicas: Any, directories: Any) -> bool:
    """Whether all partitions have the same number of replicas, and as many directories, or none."""
    if isinstance(replicas, Ragged) or isinstance(directories, Ragged):
        return False
    return directories is None or bool(directories.shape[1] in (0, replicas.shape[1]))


def _padded(lists: Any) -> tuple[Ints, Any]:
    """Lists of ids as a padded table, and their lengths: one number for all, or an array."""
    if not isinstance(lists, Ragged):
        return lists, lists.shape[1]
    kept = np.arange(lists.rows.shape[1]) < lists.lengths[:, None]
    return np.where(kept, lists.rows, np.int32(PADDING)), lists.lengths


def _with_sparse_fields(values: Mapping[str, Any]) -> Columns[PartitionRecord]:
    """The new partitions that need an entry in a sparse table."""
    partition_ids: Ints = values["partition_id"]
    sparse_lists = {name: values[name] for name in _SPARSE_FIELDS if name in values}
    some = np.zeros(len(partition_ids), dtype=bool)
    for lists in sparse_lists.values():
        some |= _padded(lists)[1] > 0
    given = {name: values[name] for name in ("topic_id", "partition_id", *sparse_lists)}
    kept = {name: value[some] if is_column(value) else value for name, value in given.items()}
    return Columns(PartitionRecord, int(some.sum()), kept)


def _directory_numbers(partitions: PartitionTable, replicas: Ints, directories: NDArray[np.uint8] | None) -> Ints:
    """The numbers of n × k directory ids given as bytes. Few of them are different, and each is looked up once."""
    if directories is None or directories.shape[1] == 0:
        return np.zeros_like(replicas)  # old records have no directories
    rows, replica_count, _ = directories.shape
    as_pairs = np.ascontiguousarray(directories).reshape(-1, 16).view(np.uint64).reshape(-1, 2)
    # Two different ids could be mixed to the same number, so they are compared with the found ids below.
    mixed = as_pairs[:, 0] * np.uint64(0x9E3779B97F4A7C15) ^ as_pairs[:, 1]
    _, first, inverse = np.unique(mixed, return_index=True, return_inverse=True)
    found = as_pairs[first]
    if not np.array_equal(found[inverse], as_pairs):
        found, inverse = np.unique(as_pairs, axis=0, return_inverse=True)
    numbers: Ints = np.array([partitions.directory_ids.number(Uuid(pair.tobytes())) for pair in found], dtype=np.int32)
    placed: Ints = numbers[inverse.reshape(-1)]
    return placed.reshape(rows, replica_count)


def replay_change(topics: TopicTable, record: PartitionChangeRecord, delta: Delta) -> None:
    """Merge one change."""
    topic = find_topic(topics, record.topic_id)
    try:
        partition = topics.partitions.read(topic.row, record.partition_id)
    except KeyError:
        raise ReplayError(f"topic {topic.name} has no partition {record.partition_id} to change") from None
    changed = merge(partition, record)
    width = topics.partitions.locate(topic.row, record.partition_id)[0].width
    _refuse_sizes(len(changed.replicas), len(changed.isr), len(changed.directories), width)
    topics.partitions.write(topic.row, record.partition_id, changed)
    topics.note_change(topic.row)
    if changed.replicas != partition.replicas:
        topics.usage.change(topic.name, partition.replicas, changed.replicas)
        delta.has_new_replicas = True
    if changed.leader != partition.leader:
        delta.has_new_leaders = True
        delta.elections += changed.leader >= 0
        delta.unclean_elections += changed.leader >= 0 and record.leader_recovery_state == RECOVERING
    delta.isr_shrinks += len(changed.isr) < len(partition.isr)
    delta.isr_expansions += len(changed.isr) > len(partition.isr)
    if record.replicas is not None or record.removing_replicas is not None:
        delta.names_replicas = True
    delta.changed_partitions.add(topic.row, record.partition_id)


def replay_change_run(topics: TopicTable, run: Columns[PartitionChangeRecord], delta: Delta) -> None:
    """Merge a run of changes; one by one if their shapes differ, or if two concern one partition."""
    slices = list(_topic_slices(topics, run)) if _is_mergeable(run.values) else []
    located = _locate(topics, run, slices) if slices else []
    # np.unique imports numpy.ma, which would delay the first change by some 10 ms.
    if not located or any((np.diff(np.sort(rows)) == 0).any() for _, rows, _ in located):
        for record in run:
            replay_change(topics, record, delta)
        return
    for topic, _ in slices:
        topics.note_change(topic.row)
    names_replicas = "replicas" in run.values
    delta.has_new_replicas |= names_replicas
    delta.has_new_leaders |= "leader" in run.values
    delta.names_replicas |= names_replicas or "removing_replicas" in run.values
    for table, rows, positions in located:
        delta.changed_partitions.add_run(table.topic_row[rows], table.partition_index[rows])
        values = {name: value[positions] if is_column(value) else value for name, value in run.values.items()}
        if names_replicas:
            _merge_replicas(topics, table, rows, values)
        _merge_rows(table, rows, values, delta)
        for sparse, names in (
            (topics.partitions.elr, ("eligible_leader_replicas", "last_known_elr")),
            (topics.partitions.reassigning, ("adding_replicas", "removing_replicas")),
        ):
            if not values.keys().isdisjoint(names):
                _merge_sparse(topics.partitions, sparse, table, rows, [values.get(name) for name in names])


def _is_mergeable(values: Mapping[str, Any]) -> bool:
    """Whether all changes have lists of one length (except ISRs), and both replicas and directories or neither."""
    if any(isinstance(values.get(name), Ragged) for name in ("replicas", "directories", *_SPARSE_FIELDS)):
        return False
    replicas, directories = values.get("replicas"), values.get("directories")
    if replicas is None or directories is None:
        return replicas is directories
    return bool(replicas.shape == directories.shape[:2])


def _merge_replicas(topics: TopicTable, table: ColumnTable, rows: NDArray[np.int64], values: Mapping[str, Any]) -> None:
    replicas: Ints = values["replicas"]
    width = replicas.shape[1]
    unlimited = among(table.topic_row[rows], topics.unlimited_rows())
    for limited, some in ((True, ~unlimited), (False, unlimited)):
        topics.usage.exchange(table.replicas[rows[some]], replicas[some], limited=limited)
    table.replica_count[rows] = width
    for column, given in (
        (table.replicas, replicas),
        (table.directories, _directory_numbers(topics.partitions, replicas, values["directories"])),
    ):
        column[rows, :width] = given
        column[rows, width:] = PADDING


def _merge_rows(table: ColumnTable, rows: NDArray[np.int64], values: Mapping[str, Any], delta: Delta) -> None:
    table.partition_epoch[rows] += 1
    if "isr" in values:
        isr, isr_count = _padded(values["isr"])
        if np.max(isr_count) > table.width:
            raise ReplayError(f"a change names an ISR of {np.max(isr_count)} for {table.width} replicas")
        width = min(isr.shape[1], table.width)
        table.isr[rows, :width] = isr[:, :width]
        table.isr[rows, width:] = PADDING
        delta.isr_shrinks += int((isr_count < table.isr_count[rows]).sum())
        delta.isr_expansions += int((isr_count > table.isr_count[rows]).sum())
        table.isr_count[rows] = isr_count
    leader = np.broadcast_to(values.get("leader", NO_LEADER_CHANGE), rows.shape)
    led = leader != NO_LEADER_CHANGE
    elected = (leader >= 0) & (leader != table.leader[rows])
    table.leader[rows[led]] = leader[led]
    table.leader_epoch[rows[led]] += 1
    recovery = np.broadcast_to(values.get("leader_recovery_state", NO_RECOVERY_CHANGE), rows.shape)
    changed = recovery != NO_RECOVERY_CHANGE
    delta.elections += int(elected.sum())
    delta.unclean_elections += int((elected & (recovery == RECOVERING)).sum())
    table.leader_recovery_state[rows[changed]] = recovery[changed]


def _merge_sparse(
    partitions: PartitionTable,
    sparse: dict[PartitionKey, tuple[tuple[int, ...], tuple[int, ...]]],
    table: ColumnTable,
    rows: NDArray[np.int64],
    columns: Sequence[Ints | None],
) -> None:
    """Write the two lists of partitions in a sparse table; a list without a column stays unchanged."""
    keys = map(PartitionKey, table.topic_row[rows].tolist(), table.partition_index[rows].tolist())
    one, other = (repeat(None) if column is None else map(tuple, column.tolist()) for column in columns)
    for row, key, first, second in zip(rows.tolist(), keys, one, other, strict=False):
        was = sparse.get(key, NO_LISTS)
        now = was[0] if first is None else first, was[1] if second is None else second
        if any(now):
            sparse[key] = now
        else:
            sparse.pop(key, None)
        table.sparse[row] = key in partitions.reassigning or key in partitions.elr


def _topic_slices(topics: TopicTable, run: Columns[Any]) -> Iterator[tuple[Topic, slice]]:
    """The topics of a run, each with its rows of the run."""
    topic_id = run.values["topic_id"]
    if not is_column(topic_id):
        yield find_topic(topics, topic_id), slice(0, len(run))
        return
    topic_ids = np.ascontiguousarray(topic_id).view("V16").reshape(-1)
    starts = np.flatnonzero(np.concatenate(([True], topic_ids[1:] != topic_ids[:-1])))
    ends = np.append(starts[1:], len(topic_ids))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield find_topic(topics, Uuid(topic_ids[start].tobytes())), slice(start, end)


def _locate(
    topics: TopicTable, run: Columns[PartitionChangeRecord], slices: Sequence[tuple[Topic, slice]]
) -> list[tuple[ColumnTable, NDArray[np.int64], NDArray[np.int64]]]:
    """For each table: the rows of the run's partitions, with room for their replicas, and their positions in the
    run."""
    indexes: Ints = run.values["partition_id"]
    if "replicas" in run.values:
        _refuse_sizes(run.values["replicas"].shape[1], 0, 0)
        named = ((topic.row, indexes[rows].tolist()) for topic, rows in slices)
        topics.partitions.make_room(named, run.values["replicas"].shape[1])
    pieces: dict[int, tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]] = {}
    for topic, part in slices:
        wanted = indexes[part]
        found = 0
        for owned, table in topics.partitions.topic_ranges(topic.row):
            inside = np.flatnonzero((wanted >= owned.first_index) & (wanted < owned.first_index + owned.length))
            if len(inside):
                rows, positions = pieces.setdefault(table.width, ([], []))
                rows.append(wanted[inside].astype(np.int64) - owned.first_index + owned.first_row)
                positions.append(inside + part.start)
                found += len(inside)
        if found != len(wanted):
            raise ReplayError(f"topic {topic.name} lacks a partition that a change names")
    return [
        (topics.partitions.tables[width], np.concatenate(rows), np.concatenate(positions))
        for width, (rows, positions) in pieces.items()
    ]


def find_topic(topics: TopicTable, topic_id: Uuid) -> Topic:
    """The topic of a record about partitions. Raises ReplayError if it does not exist."""
    topic = topics.by_id.get(topic_id)
    if topic is None:
        raise ReplayError(f"no topic with id {topic_id} for a partition")
    return topic
