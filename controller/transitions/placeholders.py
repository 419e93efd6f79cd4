"""Placeholders become replicas when brokers have room (KIP-409): which rows, in what order, and the records.

Every live broker takes the leftmost placeholder of each partition that it does not host, up to the cluster-wide limit
in force (KIP-578): partitions with the fewest real replicas first, then in the order of their creation. A replica that
has been placed is no leader and in no ISR; it joins when it has caught up. Partitions in reassignment wait.

That is long work: a step looks at a bounded number of rows, and the next one goes on where it ended.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from klamm.controller.configs import max_broker_partitions
from klamm.controller.log_records import Record
from klamm.controller.metadata.columns import PADDING, ColumnTable, Ints, among
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.image import BROKER_RESOURCE, MetadataImage
from klamm.controller.settings import Settings
from klamm.controller.transitions.change_runs import Mask, Rows, groups, run_of_changes

ROWS_LOOKED_AT: Final = 50_000
"""Rows that one step looks at: some milliseconds."""
COST_OF_TOPIC: Final = 8
"""What a topic costs a step beside its partitions, in changes: each is looked up and counted alone."""

INDEX_BITS: Final = 32
NOT_FOR_IT: Final = np.iinfo(np.uint16).max
"""In place of a number of replicas, of which a partition has at most half as many."""

_Keys = NDArray[np.int64]


class _Found(NamedTuple):
    """Partitions, and where they stood when they were found. Arrays of one length."""

    width: Ints
    """Of the table that a partition stands in."""
    row: Rows
    key: _Keys
    """The row of its topic and its index in one number: ascending in the order of creation."""

    def at(self, chosen: Rows | Mask | slice) -> "_Found":
        return _Found(self.width[chosen], self.row[chosen], self.key[chosen])

    def by_table(self, image: MetadataImage) -> Iterator[tuple[ColumnTable, Rows, Rows]]:
        """For each table: its rows, and their positions here."""
        for width, table in image.partitions.tables.items():
            positions = np.flatnonzero(self.width == width)
            if len(positions):
                yield table, self.row[positions], positions


class PlaceholderFills:
    """The filling of all placeholders for which brokers have room, step by step."""

    def __init__(self, image: MetadataImage, settings: Settings) -> None:
        self._image = image
        self._settings = settings
        self._may_have_room = True  # a start looks at everything once
        self._steps: Iterator[list[Record]] | None = None
        self._row_moves = 0
        self._most = self._looked_at = 0

    @property
    def is_due(self) -> bool:
        """Whether there are placeholders, and it is not known that nobody has room for them."""
        return bool(self._image.usage.placeholders) and (self._steps is not None or self._may_have_room)

    def follow(self, delta: Delta) -> None:
        """Notice whether brokers may have got room, or partitions are no longer kept from being filled."""
        if (
            delta.brokers
            or delta.removed_topics
            or delta.names_replicas
            or any(resource_type == BROKER_RESOURCE for resource_type, _, _ in delta.configs)
        ):
            self._may_have_room = True

    def plan(self, most: int) -> list[Record]:
        """The next changes, of up to `most` partitions; empty if enough was looked at for now, or all is done."""
        self._most, self._looked_at = most, 0
        # A partition that went, or changed, leaves its row as it was or empty; only where rows are packed they move.
        if self._steps is None or self._row_moves != self._image.partitions.row_moves:
            self._row_moves = self._image.partitions.row_moves
            self._may_have_room = False
            self._steps = self._fill()
        records = next(self._steps, None)
        if records is None:
            self._steps = None
        return records or []

    def _fill(self) -> Iterator[list[Record]]:
        # Whatever makes room meanwhile is noticed by `follow`: then all of this is done once more.
        pieces: list[_Found] = []
        yield from self._find(pieces)
        if not pieces:
            return
        waiting = _in_order_of_creation(pieces)
        for broker_id in sorted(self._image.brokers):
            yield from self._fill_from(broker_id, waiting)

    def _find(self, pieces: list[_Found]) -> Iterator[list[Record]]:
        """Collects the partitions that have placeholders."""
        for width in list(self._image.partitions.tables):
            table, first = self._image.partitions.tables[width], 0
            while first < table.count:
                end = min(first + ROWS_LOOKED_AT, table.count)
                rows = first + np.flatnonzero(_has_placeholder(table.replicas[first:end]))
                rows = rows[~_is_reassigning(self._image, table, rows)]
                if len(rows):
                    pieces.append(_Found(np.full(len(rows), width, dtype=np.int32), rows, _keys(table, rows)))
                yield from self._rest_after(end - first)
                first = end

    def _fill_from(self, broker_id: int, waiting: _Found) -> Iterator[list[Record]]:
        """One broker takes what it may."""
        if not self._may_take(broker_id):
            return
        rank = np.empty(len(waiting.row), dtype=np.uint16)
        for first in range(0, len(rank), ROWS_LOOKED_AT):
            stretch = slice(first, first + ROWS_LOOKED_AT)
            rank[stretch] = self._rank(broker_id, waiting.at(stretch))
            yield from self._rest_after(len(rank[stretch]))
        # A stable sort: in the order of creation among equals. Of narrow numbers it takes linear time.
        order = np.argsort(rank, kind="stable")[: np.count_nonzero(rank != NOT_FOR_IT)]
        while len(order) and self._may_take(broker_id):
            next_ones = waiting.at(order[: self._most])
            count = _affordable(next_ones, self._most)
            taken = self._within_limit(broker_id, next_ones.at(slice(count)))
            if records := list(self._changes(broker_id, taken)):
                yield records
            yield from self._rest_after(count)
            order = order[count:]

    def _may_take(self, broker_id: int) -> bool:
        broker = self._image.brokers.get(broker_id)
        if broker is None or not broker.live or broker.cordoned:
            return False
        return self._room(broker_id) > 0 or bool(self._image.unlimited_rows())

    def _room(self, broker_id: int) -> int:
        limit = max_broker_partitions(self._image.configs, self._settings, None)
        return max(limit - self._image.usage.replicas.get(broker_id, 0), 0)

    def _within_limit(self, broker_id: int, found: _Found) -> _Found:
        """What the broker has room for, first come first."""
        room = self._room(broker_id)
        if room >= len(found.row):
            return found
        limited = ~among(found.key >> INDEX_BITS, self._image.unlimited_rows())
        return found.at(~limited | (np.cumsum(limited) <= room))

    def _rank(self, broker_id: int, found: _Found) -> NDArray[np.uint16]:
        """How many real replicas each partition has; NOT_FOR_IT where the broker cannot take a placeholder."""
        rank = np.empty(len(found.row), dtype=np.uint16)
        for table, rows, positions in found.by_table(self._image):
            replicas = table.replicas[rows]
            real = np.count_nonzero(replicas >= 0, axis=1)
            rank[positions] = np.where(_may_be_filled(replicas, broker_id), real, NOT_FOR_IT)
        return rank

    def _changes(self, broker_id: int, found: _Found) -> Iterator[Record]:
        """The broker takes the leftmost placeholder of each partition."""
        image = self._image
        known = np.frombuffer(b"".join(image.partitions.directory_ids.ids), dtype=np.uint8).reshape(-1, 16)
        for table, rows, _ in found.by_table(image):
            # A reassignment may have begun meanwhile: what it leaves is looked at when it is over.
            still = rows[_may_be_filled(table.replicas[rows], broker_id) & ~_is_reassigning(image, table, rows)]
            for alike in groups(table.replica_count[still]):
                at = still[alike]
                replica_count = int(table.replica_count[at[0]])
                replicas = table.replicas[at, :replica_count]
                directories = known[table.directories[at, :replica_count]]
                placed = np.arange(len(at)), np.argmax(replicas < 0, axis=1)
                replicas[placed] = broker_id
                directories[placed] = np.frombuffer(image.brokers[broker_id].default_directory, dtype=np.uint8)
                yield run_of_changes(image, table, at, {"replicas": replicas, "directories": directories})

    def _rest_after(self, rows: int) -> Iterator[list[Record]]:
        """Ends the step if enough has been looked at."""
        self._looked_at += rows
        if self._looked_at >= ROWS_LOOKED_AT:
            yield []


def _in_order_of_creation(pieces: list[_Found]) -> _Found:
    found = _Found(*(np.concatenate(columns) for columns in zip(*pieces, strict=True)))
    if (found.key[1:] > found.key[:-1]).all():
        return found
    return found.at(np.argsort(found.key, kind="stable"))


def _keys(table: ColumnTable, rows: Rows) -> _Keys:
    keys: _Keys = table.topic_row[rows].astype(np.int64) << INDEX_BITS
    return keys | table.partition_index[rows]


def _has_placeholder(replicas: Ints) -> Mask:
    found: Mask = ((replicas < 0) & (replicas != PADDING)).any(axis=1)
    return found


def _may_be_filled(replicas: Ints, broker_id: int) -> Mask:
    found: Mask = _has_placeholder(replicas) & ~(replicas == broker_id).any(axis=1)
    return found


def _is_reassigning(image: MetadataImage, table: ColumnTable, rows: Rows) -> Mask:
    reassigning: Mask = table.aside[rows].copy()
    for position in np.flatnonzero(reassigning).tolist():
        key = int(table.topic_row[rows[position]]), int(table.partition_index[rows[position]])
        reassigning[position] = key in image.partitions.reassigning
    return reassigning


def _affordable(found: _Found, most: int) -> int:
    """How many of the first partitions make no more work than `most` changes of one topic do; one at least."""
    topics = found.key >> INDEX_BITS
    cost = np.arange(1, len(topics) + 1) + COST_OF_TOPIC * np.cumsum(np.diff(topics, prepend=-1) != 0)
    return max(1, int(np.searchsorted(cost, most, side="right")))
