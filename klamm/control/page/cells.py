"""Partitions as the page gets them: 16 bytes each, made from columns.

A snapshot and the changes behind it have the same form, so that the page has one way to read them. Work on many
partitions is cut into slices, between which requests are served.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import numpy as np
import trio
from numpy.typing import NDArray

from klamm.controller.configs import min_insync_replicas
from klamm.controller.metadata.columns import DEAD, PADDING, ColumnTable, Ints
from klamm.controller.metadata.image import TOPIC_RESOURCE, MetadataImage
from klamm.controller.metadata.partition_table import PartitionKey, PartitionTable
from klamm.controller.settings import Settings

MIN_ISR: Final = "min.insync.replicas"
CELL: Final = np.dtype(
    [
        ("topic_row", "<u4"),
        ("partition_index", "<u4"),
        ("leader", "<i4"),
        ("state", "u1"),
        ("isr", "u1"),
        ("replicas", "u1"),
        ("placeholders", "u1"),
    ]
)
"""`files/cells.js` reads it. Lengths above 255 are shown as 255."""
NO_LEADER, UNDER_REPLICATED, UNDER_MIN_ISR, MOVING, NOT_PREFERRED, RECOVERING = (1 << bit for bit in range(6))
SLICE_ROWS: Final = 16_384
"""Partitions that are written at a time, in about a millisecond."""
FEW: Final = 256
"""Up to so many changed partitions are found one by one; for more, all partitions are gone through."""
MAX_BYTE: Final = 255

Cells = NDArray[np.void]
Keys = NDArray[np.int64]


def keys_of(topic_rows: Ints, indexes: Ints) -> Keys:
    """One number for each partition."""
    return topic_rows.astype(np.int64) << 32 | indexes


class CellWriter:
    """Writes the partitions of one image. The effective minimum ISRs are kept until `configs_changed`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._min_isr: tuple[int, Ints, Ints] | None = None

    def configs_changed(self) -> None:
        """Topics or their configs have changed."""
        self._min_isr = None

    async def slices(self, image: MetadataImage) -> AsyncIterator[Cells]:
        """All partitions, in the order of the tables. Those that move or are added meanwhile may be missing."""
        async for table, rows in _slices(image.partitions):
            yield self.write(image, table, rows)

    async def all(self, image: MetadataImage) -> list[bytes]:
        """All partitions. They may change meanwhile: the changes have to be sent, too."""
        while True:
            moves = image.partitions.row_moves
            pieces = [cells.tobytes() async for cells in self.slices(image)]
            if image.partitions.row_moves == moves:  # else a partition may be missing
                return pieces

    async def changed(self, image: MetadataImage, keys: Keys) -> AsyncIterator[Cells]:
        """Those of the partitions, given in ascending order, that exist."""
        partitions = image.partitions
        if len(keys) <= FEW:
            wanted = [PartitionKey(key >> 32, key & 0xFFFFFFFF) for key in sorted(set(keys.tolist()))]
            for table, _, rows in partitions.locate_many(wanted):
                yield self.write(image, table, rows)
            return
        while True:
            moves = partitions.row_moves
            async for table, rows in _slices(partitions):
                own = keys_of(table.topic_row[rows], table.partition_index[rows])
                places = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
                changed = rows[keys[places] == own]
                if len(changed):
                    yield self.write(image, table, changed)
            if partitions.row_moves == moves:
                return

    def write(self, image: MetadataImage, table: ColumnTable, rows: NDArray[np.int64]) -> Cells:
        """The cells of some rows of a table."""
        cells = np.zeros(len(rows), CELL)
        replicas, leader = table.replicas[rows], table.leader[rows]
        replica_count, isr_count = table.replica_count[rows], table.isr_count[rows]
        placeholders = ((replicas < 0) & (replicas != PADDING)).sum(axis=1)
        cells["topic_row"], cells["partition_index"] = table.topic_row[rows], table.partition_index[rows]
        cells["leader"] = leader
        cells["isr"], cells["replicas"] = np.minimum(isr_count, MAX_BYTE), np.minimum(replica_count, MAX_BYTE)
        cells["placeholders"] = np.minimum(placeholders, MAX_BYTE)
        min_isr = np.minimum(self._min_isr_of(image, table.topic_row[rows]), replica_count)
        moving, wanted = np.zeros(len(rows), dtype=bool), replica_count - placeholders
        for position in np.flatnonzero(table.sparse[rows]).tolist():
            row = rows[position]
            key = PartitionKey(int(table.topic_row[row]), int(table.partition_index[row]))
            if (reassignment := image.partitions.reassigning.get(key)) is not None:
                moving[position] = True
                # As in Kafka, replicas that are being added are not expected in the ISR.
                wanted[position] -= sum(replica >= 0 for replica in reassignment[0])
        cells["state"] = (
            (leader < 0) * NO_LEADER
            | (isr_count < wanted) * UNDER_REPLICATED
            | (isr_count < min_isr) * UNDER_MIN_ISR
            | moving * MOVING
            | ((leader >= 0) & (leader != replicas[:, 0])) * NOT_PREFERRED
            | (table.leader_recovery_state[rows] != 0) * RECOVERING
        )
        return cells

    def _min_isr_of(self, image: MetadataImage, topic_rows: Ints) -> Ints:
        if self._min_isr is None:
            self._min_isr = _min_isrs(image, self._settings)
        usual, rows, values = self._min_isr
        found = np.full(len(topic_rows), usual, np.int32)
        if len(rows):
            places = np.minimum(np.searchsorted(rows, topic_rows), len(rows) - 1)
            known = rows[places] == topic_rows
            found[known] = values[places[known]]
        return found


def _min_isrs(image: MetadataImage, settings: Settings) -> tuple[int, Ints, Ints]:
    """What topics inherit, and the rows of the topics with a value of their own, ascending, with these."""
    own: dict[int, int] = {}
    for (resource_type, name), configs in image.configs.items():
        if resource_type == TOPIC_RESOURCE and MIN_ISR in configs and name in image.topics_by_name:
            own[image.topics_by_name[name].row] = min_insync_replicas(image.configs, settings, name)
    rows = np.array(sorted(own), np.int32)
    usual = min_insync_replicas(image.configs, settings, None)
    return usual, rows, np.array([own[row] for row in rows.tolist()], np.int32)


async def _slices(partitions: PartitionTable) -> AsyncIterator[tuple[ColumnTable, NDArray[np.int64]]]:
    """The rows of all partitions, in slices. Rows that are added meanwhile may be missing."""
    for table in list(partitions.tables.values()):
        for first in range(0, table.count, SLICE_ROWS):
            await trio.lowlevel.checkpoint()
            end = min(first + SLICE_ROWS, table.count)
            yield table, first + np.flatnonzero(table.topic_row[first:end] != DEAD)


def leader_counts(partitions: PartitionTable) -> dict[int, int]:
    """How many partitions each broker leads."""
    counts: dict[int, int] = {}
    for table in partitions.tables.values():
        for broker, count in _counted(table.leader[: table.count]):
            counts[broker] = counts.get(broker, 0) + count
    return counts


def _counted(ids: Ints) -> Iterator[tuple[int, int]]:
    ids = ids[ids >= 0]
    if not len(ids):
        return
    lowest, highest = int(ids.min()), int(ids.max())
    if highest - lowest < len(ids) + SLICE_ROWS:
        counts: NDArray[Any] = np.bincount(ids - lowest)
        for at in np.flatnonzero(counts).tolist():
            yield at + lowest, int(counts[at])
        return
    found, times = np.unique(ids, return_counts=True)
    yield from zip(found.tolist(), times.tolist(), strict=True)
