"""Arrow rows of bronze.metadata_record as records for `klamm.pipeline.windows.fold`, and closed windows as Arrow rows.

Lists are cut from one flat Python list per column: Arrow's own conversion takes ten times as long.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from klamm.pipeline.windows.fold import ClosedWindow
from klamm.pipeline.windows.state import Brokers, Lists, PartitionChange, Record

_TIME: Final = pa.timestamp("us", tz="UTC")
_INTS: Final = pa.list_(pa.int32())
WINDOW_ROW: Final = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("kind", pa.string()),
        ("topic_id", pa.string()),
        ("partition_index", pa.int32()),
        ("topic", pa.string()),
        ("opened_offset", pa.int64()),
        ("closed_offset", pa.int64()),
        ("opened", _TIME),
        ("closed", _TIME),
        ("cause", pa.string()),
        ("wanted", pa.int32()),
        ("min_isr", pa.int32()),
        ("brokers", _INTS),
        ("outcome", pa.string()),
        ("from_replicas", _INTS),
        ("to_replicas", _INTS),
        ("steps", pa.int32()),
    ]
)


def records_of(rows: pa.RecordBatch) -> Iterator[Record]:
    """The records of rows in the order of the log, without rows with a problem."""
    if rows.column("problem").null_count < rows.num_rows:
        rows = rows.filter(rows.column("problem").is_null())
    partitions = _partition_changes(rows.column("partition"))
    columns = zip(
        rows.column("record_offset").to_numpy().tolist(),
        rows.column("batch_offset").to_numpy().tolist(),
        _are_there(rows.column("snapshot_position")),
        rows.column("timestamp").cast(pa.int64()).to_pylist(),
        rows.column("type").to_pylist(),
        rows.column("body").to_pylist(),
        strict=True,
    )
    for offset, batch_offset, is_in_snapshot, time, kind, body in columns:
        yield Record(offset, batch_offset, is_in_snapshot, time, kind, next(partitions), body)


def window_rows(cluster_id: str, windows: Sequence[ClosedWindow]) -> pa.RecordBatch:
    """The rows of live.closed_window."""
    values = [[cluster_id] * len(windows), *zip(*windows, strict=True)]
    arrays = [pa.array(column, field.type) for column, field in zip(values, WINDOW_ROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=WINDOW_ROW)


def _partition_changes(partitions: pa.StructArray) -> Iterator[PartitionChange | None]:
    names = [field.name for field in partitions.type]
    fields = {name: partitions.field(names.index(name)) for name in ("topic_id", "partition_index", *Lists._fields)}
    topic_ids, indexes = fields["topic_id"].to_pylist(), fields["partition_index"].to_pylist()
    lists = zip(*(_lists(fields[name]) for name in Lists._fields), strict=True)
    for is_there, topic_id, index, values in zip(_are_there(partitions), topic_ids, indexes, lists, strict=True):
        yield PartitionChange(topic_id, index, values) if is_there else None


def _lists(array: pa.ListArray) -> list[Brokers | None]:
    elements, ends = array.values.to_numpy(zero_copy_only=False).tolist(), array.offsets.to_numpy().tolist()
    borders = zip(ends, ends[1:], _are_there(array), strict=False)
    return [tuple(elements[start:end]) if is_there else None for start, end, is_there in borders]


def _are_there(array: pa.Array) -> Any:
    return array.is_valid().to_numpy(zero_copy_only=False).tolist()
