"""Placeholders become replicas when brokers have room (KIP-409): which rows, in what order, and the records.

Every live broker takes the leftmost placeholder of each partition that it does not host, up to the cluster-wide limit
in force (KIP-578): partitions with the fewest real replicas first, then in the order of their creation. A replica that
has been placed is no leader and in no ISR; it joins when it has caught up. Partitions in reassignment wait.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from assignment import ClusterView
from assignment.placeholders import rows_to_fill
from controller.configs import max_broker_partitions
from controller.metadata.broker import BrokerState
from controller.metadata.columns import PADDING, ColumnTable, Ints
from controller.metadata.image import MetadataImage
from controller.metadata.usage import UNLIMITED_TOPICS
from controller.outcome import Record
from controller.settings import Settings
from controller.transitions.change_runs import Mask, Rows, run_of_changes


@dataclass(slots=True)
class _Waiting:
    """Partitions with placeholders, equally many replicas each: where they are, and a copy of replicas to change."""

    table: ColumnTable
    rows: Rows
    replicas: Ints
    filled: Mask


def plan_placeholder_fills(image: MetadataImage, settings: Settings, most: int) -> list[Record]:
    """Changes of up to `most` partitions; none when no broker can take a placeholder any more."""
    waiting = list(_waiting(image))
    limit = max_broker_partitions(image.configs, settings, None)
    left = most
    for broker in sorted(image.brokers.values(), key=lambda broker: broker.broker_id):
        if left and waiting and broker.live and not broker.cordoned:
            room = limit - image.usage.replicas.get(broker.broker_id, 0)
            left -= _fill(image, waiting, broker, max(room, 0), left)
    return [run for group in waiting if (run := _changes(image, group)) is not None]


def _waiting(image: MetadataImage) -> Iterator[_Waiting]:
    for table in image.partitions.tables.values():
        replicas = table.replicas[: table.count]
        rows = np.flatnonzero(((replicas < 0) & (replicas != PADDING)).any(axis=1))
        if image.partitions.reassigning:
            rows = rows[~_is_reassigning(image, table, rows)]
        for replica_count in np.unique(table.replica_count[rows]).tolist():
            alike = rows[table.replica_count[rows] == replica_count]
            replicas = table.replicas[alike, :replica_count]
            yield _Waiting(table, alike, replicas, np.zeros(len(alike), dtype=np.bool_))


def _is_reassigning(image: MetadataImage, table: ColumnTable, rows: Rows) -> Mask:
    keys = zip(table.topic_row[rows].tolist(), table.partition_index[rows].tolist(), strict=True)
    return np.array([key in image.partitions.reassigning for key in keys], dtype=np.bool_)


def _fill(image: MetadataImage, waiting: Sequence[_Waiting], broker: BrokerState, room: int, most: int) -> int:
    """Let one broker take what it may; returns how many rows it took."""
    # Where nothing limits the broker, each group says in what order it would be filled; then all are put in order.
    view = ClusterView(np.array([broker.broker_id]), (None,))
    groups, rows, keys = [], [], []
    for number, group in enumerate(waiting):
        chosen = rows_to_fill(view, group.replicas, broker.broker_id)
        real = np.count_nonzero(group.replicas[chosen] >= 0, axis=1)
        groups.append(np.full(len(chosen), number))
        rows.append(chosen)
        at = group.rows[chosen]
        keys.append(np.stack((group.table.partition_index[at], group.table.topic_row[at], real)))
    group_of, row_of = np.concatenate(groups), np.concatenate(rows)
    order = np.lexsort(np.concatenate(keys, axis=1))
    topic_rows = np.concatenate(keys, axis=1)[1][order]
    limited = ~np.isin(topic_rows, _unlimited_rows(image))
    order = order[~limited | (np.cumsum(limited) <= room)][:most]
    for number, group in enumerate(waiting):
        chosen = row_of[order[group_of[order] == number]]
        column = np.argmax(group.replicas[chosen] < 0, axis=1)
        group.replicas[chosen, column] = broker.broker_id
        group.filled[chosen] = True
    return len(order)


def _unlimited_rows(image: MetadataImage) -> list[int]:
    found = (image.topics_by_name.get(name) for name in UNLIMITED_TOPICS)
    return [topic.row for topic in found if topic is not None]


def _changes(image: MetadataImage, group: _Waiting) -> Record | None:
    rows = np.flatnonzero(group.filled)
    if not rows.size:
        return None
    table, at, replicas = group.table, group.rows[rows], group.replicas[rows]
    known = np.frombuffer(b"".join(image.partitions.directory_ids.ids), dtype=np.uint8).reshape(-1, 16)
    directories = known[table.directories[at, : replicas.shape[1]]]
    placed = replicas != table.replicas[at, : replicas.shape[1]]
    for broker_id in np.unique(replicas[placed]).tolist():
        default = np.frombuffer(image.brokers[broker_id].default_directory, dtype=np.uint8)
        directories[placed & (replicas == broker_id)] = default
    return run_of_changes(image, table, at, {"replicas": replicas, "directories": directories})
