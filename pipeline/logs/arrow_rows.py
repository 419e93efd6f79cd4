"""The columns of bronze.metadata_record for Arrow, and partition records as their `partition` column."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from klamm.protocol.columns import Columns, Ragged
from klamm.protocol.fields import Message, wire_fields
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.uuid import Uuid

PARTITION_TYPES: Final = {cls.__name__: cls for cls in (PartitionRecord, PartitionChangeRecord)}
_INTS: Final = pa.list_(pa.int32())
_LISTS: Final = (
    *("replicas", "isr", "adding_replicas", "removing_replicas"),
    *("eligible_leader_replicas", "last_known_elr"),
)
_NUMBERS: Final = {
    "leader": pa.int32(),
    "leader_epoch": pa.int32(),
    "partition_epoch": pa.int32(),
    "leader_recovery_state": pa.int16(),
}
_UNCHANGED: Final = {"leader": -2, "leader_recovery_state": -1}
"""The value of a field in a PartitionChangeRecord that does not change the field."""
PARTITION: Final = pa.struct(
    [
        ("topic_id", pa.string()),
        ("partition_index", pa.int32()),
        *((name, _INTS) for name in _LISTS),
        *_NUMBERS.items(),
    ]
)
ROW: Final = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("record_offset", pa.int64()),
        ("snapshot_position", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("batch_offset", pa.int64()),
        ("file", pa.string()),
        ("type", pa.string()),
        ("version", pa.int16()),
        ("partition", PARTITION),
        ("body", pa.string()),
        ("raw", pa.binary()),
        ("problem", pa.string()),
    ]
)


def partition_value(message: Message) -> dict[str, Any]:
    """One record as a `partition` value. Fields that a change record does not change are null."""
    is_change = isinstance(message, PartitionChangeRecord)
    value: dict[str, Any] = {"topic_id": str(message.topic_id), "partition_index": message.partition_id}  # type: ignore[attr-defined]
    for name in _LISTS:
        value[name] = getattr(message, name)
    for name in _NUMBERS:
        number = getattr(message, name, None)
        value[name] = None if is_change and number == _UNCHANGED.get(name) else number
    return value


def partition_run(columns: Columns[Any]) -> pa.StructArray:
    """The `partition` column of a run of records."""
    is_change = columns.message_class is PartitionChangeRecord
    defaults = {wire.name: wire.default for wire in wire_fields(columns.message_class)}
    count, values = len(columns), columns.values
    arrays = [_topic_ids(values["topic_id"], count), _numbers(values["partition_id"], pa.int32(), count)]
    arrays.extend(_lists(values.get(name, defaults[name]), count) for name in _LISTS)
    for name, kind in _NUMBERS.items():
        value = values.get(name, defaults.get(name))
        array = _numbers(value, kind, count)
        if is_change and name in _UNCHANGED and value is not None:
            array = pa.array(np.asarray(array), kind, mask=np.asarray(array) == _UNCHANGED[name])
        arrays.append(array)
    return pa.StructArray.from_arrays(arrays, fields=list(PARTITION))


def _numbers(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    if isinstance(value, np.ndarray):
        return pa.array(value, kind)
    return pa.repeat(pa.scalar(value, kind), count)


def _lists(value: Any, count: int) -> pa.Array:
    """Arrays of numbers as Arrow lists. None gives null in every row."""
    if value is None:
        return pa.nulls(count, _INTS)
    if isinstance(value, Ragged):
        lengths = np.asarray(value.lengths)
        inside = np.arange(value.rows.shape[1]) < lengths[:, None]
        ends, elements = np.cumsum(lengths), np.asarray(value.rows)[inside]
    else:
        rows = value if isinstance(value, np.ndarray) else np.tile(np.asarray(value, np.int32), (count, 1))
        ends, elements = np.arange(1, count + 1) * rows.shape[1], rows.reshape(-1)
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.ascontiguousarray(elements, np.int32)))


def _topic_ids(value: Any, count: int) -> pa.Array:
    """Topic ids as text. Each distinct id is converted once, because a run usually has few topics."""
    if not isinstance(value, np.ndarray):
        return pa.repeat(pa.scalar(str(Uuid(value)), pa.string()), count)
    distinct, inverse = np.unique(np.ascontiguousarray(value).view("V16").reshape(-1), return_inverse=True)
    texts = pa.array([str(Uuid(topic_id.tobytes())) for topic_id in distinct], pa.string())
    return texts.take(pa.array(inverse.reshape(-1)))
