"""The rows of many sound batches at once: partition records as columns, all others one by one.

The time depends on the number of steps rather than of bytes: in batches of fifty records that are decoded separately,
each record takes ten times as long (measured).
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from klamm.pipeline.logs.arrow_rows import PARTITION, ROW, partition_run
from klamm.pipeline.logs.record_rows import BatchPlace, RecordContent, check_plain_batch, record_content
from klamm.protocol.codec.column_records import decode_columns, record_ends
from klamm.protocol.raw_records import RawRecord, read_record
from klamm.protocol.record_batch import HEADER_BYTES, CorruptBatch, decode_batch_header

MAX_SHAPES: Final = 256
"""The most shapes of partition records that are searched in a block. Records of others are decoded one by one."""

Indexes = NDArray[np.int64]


class Block:
    """Consecutive sound batches."""

    def __init__(self) -> None:
        self.size = 0
        """The size in bytes."""
        self._places: list[BatchPlace] = []
        self._batches: list[bytes] = []
        self._counts: list[int] = []
        self._ends: list[int] = []

    def add(self, place: BatchPlace, batch: bytes) -> bool:
        """Add a batch. Returns False if its checksum, counts or lengths are wrong."""
        try:
            count = check_plain_batch(batch)
        except CorruptBatch:
            return False
        ends = list(record_ends(batch, HEADER_BYTES, len(batch)))
        header = decode_batch_header(batch, 0)
        if not len(ends) == count == header.last_offset - header.base_offset + 1 or ends[-1:] != [len(batch)]:
            return False
        self._places.append(place)
        self._batches.append(batch)
        self._counts.append(count)
        self._ends += ends
        self.size += len(batch)
        return True

    @property
    def batches(self) -> Sequence[tuple[BatchPlace, bytes]]:
        return list(zip(self._places, self._batches, strict=True))

    def rows(self, types: Collection[str] | None) -> pa.RecordBatch:
        """A row for each record, in order; with `types`, only rows of these types and rows with a problem. Raises
        ProtocolError if a record does not fit its frame; then batches have to be read one by one."""
        data = b"".join(self._batches)
        counts = np.array(self._counts, np.int64)
        sizes = np.array([len(batch) for batch in self._batches], np.int64)
        begins, firsts = np.cumsum(sizes) - sizes, np.cumsum(counts) - counts
        batch_of = np.repeat(np.arange(len(counts)), counts)
        numbers = np.arange(len(batch_of)) - firsts[batch_of]
        ends = np.array(self._ends, np.int64) + begins[batch_of]
        starts = np.concatenate(([0], ends[:-1]))
        starts[firsts] = begins + HEADER_BYTES
        is_control = np.array([place.is_control for place in self._places])[batch_of]

        contents = _Contents(len(batch_of))
        for found in decode_columns(data, starts, ends, np.where(is_control, -1, numbers), MAX_SHAPES):
            kind = found.columns.message_class.__name__
            partitions = partition_run(found.columns) if types is None or kind in types else None
            contents.add_run(found.indexes, kind, found.versions, partitions)
        for index in contents.missing():
            record, _ = read_record(data, int(starts[index]), int(ends[index]))
            contents.add_record(index, record, is_control=bool(is_control[index]))
        arrays = {**self._place_columns(batch_of, numbers), **contents.columns()}
        rows = pa.RecordBatch.from_arrays([arrays[name] for name in ROW.names], schema=ROW)
        kept = None if types is None else contents.are_of(types)
        return rows if kept is None else rows.filter(kept)

    def _place_columns(self, batch_of: Indexes, numbers: Indexes) -> dict[str, pa.Array]:
        """The columns with the position of each record."""
        base_offsets = np.array([place.base_offset for place in self._places])
        in_snapshot = np.array([place.snapshot_end is not None for place in self._places])
        last_offsets = np.array([(place.snapshot_end or 0) - 1 for place in self._places])
        from_snapshot, offsets = in_snapshot[batch_of], base_offsets[batch_of] + numbers
        of_batch = pa.array(batch_of)

        def each(name: str, values: Sequence[Any]) -> pa.Array:
            return pa.array(values, ROW.field(name).type).take(of_batch)

        return {
            **{
                name: each(name, [getattr(place, name) for place in self._places])
                for name in ("cluster_id", "leader_epoch", "timestamp", "file")
            },
            "record_offset": pa.array(np.where(from_snapshot, last_offsets[batch_of], offsets)),
            "snapshot_position": pa.array(offsets, mask=~from_snapshot),
            "batch_offset": each("batch_offset", np.where(in_snapshot, last_offsets, base_offsets).tolist()),
        }


class _Contents:
    """The contents of the records of a block, by the index of the record."""

    def __init__(self, count: int) -> None:
        self._kinds: dict[str, int] = {}
        self._kind_of = np.full(count, -1, np.int32)
        self._versions = np.full(count, -1, np.int64)
        self._sources = np.full(count, -1, np.int64)
        """For each record, the position of its partition among all partitions of the block."""
        self._partitions: list[pa.Array] = [pa.nulls(0, PARTITION)]
        self._partition_count = 0
        self._single: dict[int, RecordContent] = {}

    def add_run(self, indexes: Indexes, kind: str, versions: Indexes, partitions: pa.Array | None) -> None:
        """Add partition records as columns. Values that are not wanted may be missing."""
        self._kind_of[indexes] = self._kind(kind)
        self._versions[indexes] = versions
        if partitions is not None:
            self._add_partitions(indexes, partitions)

    def _kind(self, kind: str) -> int:
        return self._kinds.setdefault(kind, len(self._kinds))

    def _add_partitions(self, indexes: "Indexes | Sequence[int]", partitions: pa.Array) -> None:
        self._sources[indexes] = np.arange(self._partition_count, self._partition_count + len(partitions))
        self._partitions.append(partitions)
        self._partition_count += len(partitions)

    def missing(self) -> list[int]:
        """The indexes of records without contents so far."""
        indexes: list[int] = np.flatnonzero(self._kind_of < 0).tolist()
        return indexes

    def add_record(self, index: int, record: RawRecord, *, is_control: bool) -> None:
        content = record_content(record, is_control=is_control)
        self._kind_of[index] = self._kind(content.type)
        self._versions[index] = -1 if content.version is None else content.version
        self._single[index] = content

    def are_of(self, types: Collection[str]) -> pa.Array:
        """The records that are of these types or have a problem."""
        kept = np.array([kind in types for kind in self._kinds])[self._kind_of]
        kept[[index for index, content in self._single.items() if content.problem is not None]] = True
        return pa.array(kept)

    def columns(self) -> dict[str, pa.Array]:
        alone = [index for index, content in self._single.items() if content.partition is not None]
        self._add_partitions(alone, pa.array([self._single[index].partition for index in alone], PARTITION))
        partitions = pa.concat_arrays(self._partitions)
        return {
            "type": pa.array(list(self._kinds), pa.string()).take(pa.array(self._kind_of)),
            "version": pa.array(self._versions.astype(np.int16), mask=self._versions < 0),
            "partition": partitions.take(pa.array(self._sources, mask=self._sources < 0)),
            **{name: self._sparse(name) for name in ("body", "raw", "problem")},
        }

    def _sparse(self, name: str) -> pa.Array:
        values: list[Any] = [None] * len(self._kind_of)
        for index, content in self._single.items():
            values[index] = getattr(content, name)
        return pa.array(values, ROW.field(name).type)
