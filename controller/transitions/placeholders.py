"""Plans which placeholders become replicas when brokers have room (KIP-409), in which order, and the records.

Every live broker takes the leftmost placeholder of each partition that it has no replica of, up to the cluster-wide
limit that applies (KIP-578). Partitions with the fewest real replicas come first; among equals, the order of creation
decides. A replica that was just placed is neither leader nor in the ISR; it joins when it has caught up. Partitions in
reassignment wait until it is complete.

This is long work: a step examines a bounded number of rows, and the next step continues there.
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
from klamm.controller.transitions.broker_kinds import is_mixed
from klamm.controller.transitions.change_runs import Mask, Rows, groups, run_of_changes

ROWS_PER_STEP: Final = 50_000
"""Rows that one step examines, which takes some milliseconds."""
COST_OF_TOPIC: Final = 8
"""The cost of each topic in a step, in partition changes: every topic is looked up and counted on its own."""

INDEX_BITS: Final = 32
NOT_FOR_IT: Final = np.iinfo(np.uint16).max
"""The rank of a partition that the broker cannot fill; a number of real replicas is at most half of this value."""

_Keys = NDArray[np.int64]


class _Found(NamedTuple):
    """Partitions, and their rows when they were found. All arrays have the same length."""

    width: Ints
    """The width of the table that contains the partition."""
    row: Rows
    key: _Keys
    """The topic row and the partition index, combined to one number that ascends in the order of creation."""

    def at(self, chosen: Rows | Mask | slice) -> "_Found":
        return _Found(self.width[chosen], self.row[chosen], self.key[chosen])

    def by_table(self, image: MetadataImage) -> Iterator[tuple[ColumnTable, Rows, Rows]]:
        """For each table: its rows, and their positions here."""
        for width, table in image.partitions.tables.items():
            positions = np.flatnonzero(self.width == width)
            if len(positions):
                yield table, self.row[positions], positions


class PlaceholderFills:
    """Fills all placeholders for which brokers have room, step by step."""

    def __init__(self, image: MetadataImage, settings: Settings) -> None:
        self._image = image
        self._settings = settings
        self._may_have_room = True  # a start looks at everything once
        self._steps: Iterator[list[Record]] | None = None
        self._row_moves = 0
        self._most = self._scanned = 0

    @property
    def is_due(self) -> bool:
        """Whether unfilled placeholders may fit on some broker."""
        return bool(self._image.usage.placeholders) and (self._steps is not None or self._may_have_room)

    def follow(self, delta: Delta) -> None:
        """Note in `is_due` that a broker may have room now, or that a partition may be filled again, if `delta` can
        mean that."""
        if (
            delta.brokers
            or delta.removed_topics
            or delta.names_replicas
            or any(resource_type == BROKER_RESOURCE for resource_type, _, _ in delta.configs)
        ):
            self._may_have_room = True

    def plan(self, most: int) -> list[Record]:
        """The next changes, of at most `most` partitions; empty if the step has examined enough rows or all work is
        done."""
        self._most, self._scanned = most, 0
        # A partition that was deleted or changed keeps its row, empty or not. Rows get other positions only by
        # compaction.
        if self._steps is None or self._row_moves != self._image.partitions.row_moves:
            self._row_moves = self._image.partitions.row_moves
            self._may_have_room = False
            self._steps = self._fill()
        records = next(self._steps, None)
        if records is None:
            self._steps = None
        return records or []

    def _fill(self) -> Iterator[list[Record]]:
        # If a broker gets room meanwhile, `follow` notes it, and the whole search starts once more.
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
                end = min(first + ROWS_PER_STEP, table.count)
                rows = first + np.flatnonzero(_has_placeholder(table.replicas[first:end]))
                rows = rows[~_is_reassigning(self._image, table, rows)]
                if len(rows):
                    pieces.append(_Found(np.full(len(rows), width, dtype=np.int32), rows, _keys(table, rows)))
                yield from self._rest_after(end - first)
                first = end

    def _fill_from(self, broker_id: int, waiting: _Found) -> Iterator[list[Record]]:
        """Give one broker as many placeholders as it may take."""
        if not self._may_take(broker_id):
            return
        rank = np.empty(len(waiting.row), dtype=np.uint16)
        for first in range(0, len(rank), ROWS_PER_STEP):
            block = slice(first, first + ROWS_PER_STEP)
            rank[block] = self._rank(broker_id, waiting.at(block))
            yield from self._rest_after(len(rank[block]))
        # The sort is stable, so the order of creation decides among equals. It takes linear time, because uint16 is
        # narrow.
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
        """The first of these partitions, as many as the broker has room for. Topics without a limit always fit."""
        room = self._room(broker_id)
        if room >= len(found.row):
            return found
        limited = ~among(found.key >> INDEX_BITS, self._image.unlimited_rows())
        return found.at(~limited | (np.cumsum(limited) <= room))

    def _rank(self, broker_id: int, found: _Found) -> NDArray[np.uint16]:
        """How many real replicas each partition has; NOT_FOR_IT where the broker cannot take a placeholder."""
        rank = np.empty(len(found.row), dtype=np.uint16)
        others = self._of_other_kind(broker_id)
        for table, rows, positions in found.by_table(self._image):
            replicas = table.replicas[rows]
            real = np.count_nonzero(replicas >= 0, axis=1)
            fits = _may_be_filled(replicas, broker_id)
            if others:
                fits &= ~np.isin(replicas, others).any(axis=1)
            rank[positions] = np.where(fits, real, NOT_FOR_IT)
        return rank

    def _of_other_kind(self, broker_id: int) -> list[int]:
        """The brokers that have no partition in common with this one, because one is real and the other simulated."""
        brokers = self._image.brokers
        if not is_mixed(self._image):
            return []
        return [other for other in brokers if (other in brokers.real) is not (broker_id in brokers.real)]

    def _changes(self, broker_id: int, found: _Found) -> Iterator[Record]:
        """The broker takes the leftmost placeholder of each partition."""
        image = self._image
        known = np.frombuffer(b"".join(image.partitions.directory_ids.ids), dtype=np.uint8).reshape(-1, 16)
        for table, rows, _ in found.by_table(image):
            # A reassignment may have begun meanwhile; its partition is examined again when the reassignment is
            # complete.
            still = rows[_may_be_filled(table.replicas[rows], broker_id) & ~_is_reassigning(image, table, rows)]
            for alike in groups(table.replica_count[still]):
                at = still[alike]
                replica_count = int(table.replica_count[at[0]])
                replicas = table.replicas[at, :replica_count]
                directories = known[table.directories[at, :replica_count]]
                placed = np.arange(len(at)), np.argmax(replicas < 0, axis=1)
                replicas[placed] = broker_id
                directories[placed] = np.frombuffer(image.brokers[broker_id].default_directory, dtype=np.uint8)
                values = {"replicas": replicas, **({"directories": directories} if directories.any() else {})}
                yield run_of_changes(image, table, at, values)

    def _rest_after(self, rows: int) -> Iterator[list[Record]]:
        """End the step if it has examined enough rows."""
        self._scanned += rows
        if self._scanned >= ROWS_PER_STEP:
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
    reassigning: Mask = table.sparse[rows].copy()
    for position in np.flatnonzero(reassigning).tolist():
        key = int(table.topic_row[rows[position]]), int(table.partition_index[rows[position]])
        reassigning[position] = key in image.partitions.reassigning
    return reassigning


def _affordable(found: _Found, most: int) -> int:
    """How many of the first partitions cost no more than `most`; at least one."""
    topics = found.key >> INDEX_BITS
    cost = np.arange(1, len(topics) + 1) + COST_OF_TOPIC * np.cumsum(np.diff(topics, prepend=-1) != 0)
    return max(1, int(np.searchsorted(cost, most, side="right")))
