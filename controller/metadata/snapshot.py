"""Writes the image as the records of a snapshot of the metadata log, which rebuild it.

Each kind of state writes its own records, in the order of `MetadataImage.kinds`. Features are first because Kafka's
readers need metadata.version to read the rest.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.kind import Saved, SnapshotRecord
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.controller.metadata.saved_partitions import BYTES_AT_ONCE, partition_bytes
from klamm.protocol.columns import Columns, Ragged
from klamm.protocol.fields import Message, wire_fields
from klamm.protocol.records.partitions import PartitionRecord

BATCH_BYTES: Final = BYTES_AT_ONCE
"""The approximate size of a batch. Kafka's batches have at most 8 MiB, because a reader holds a whole batch."""
BATCH_RECORDS_ALONE: Final = 500
"""Most single records in a batch: some 5 ms of work, after which the writing thread may pause."""
_RECORD_BYTES: Final = 64  # around the parts of a record that are counted

ImageCopy: TypeAlias = Sequence[Saved]
"""A copy of all kinds of state at one offset. It does not change when the image does."""


def copy_image(image: MetadataImage, room: PartitionTable | None = None) -> ImageCopy:
    """A copy of all state that records contain. With a `room` (`PartitionTable.room`) it takes about 20 ms for a
    million partitions."""
    return [kind.save(room) for kind in image.kinds]


def snapshot_batches(copy: ImageCopy) -> Iterator[list[SnapshotRecord]]:
    """The records in batches of about `BATCH_BYTES`, made one by one during the iteration."""
    batch: list[SnapshotRecord] = []
    size = 0
    for kind in copy:
        for record in kind.records():
            batch.append(record)
            size += _rough_size(record)
            if size >= BATCH_BYTES or len(batch) >= BATCH_RECORDS_ALONE:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


def _rough_size(record: SnapshotRecord) -> int:
    """The approximate size in bytes: a character may take more than the one byte that is counted for it."""
    if isinstance(record, Columns):
        replicas = record.values["replicas"]
        widest = (replicas.rows if isinstance(replicas, Ragged) else replicas).shape[1]
        return len(record) * partition_bytes(int(widest))
    if isinstance(record, PartitionRecord):
        return partition_bytes(len(record.replicas))
    return 2 * _RECORD_BYTES + _text_bytes(record)


def _text_bytes(value: object) -> int:
    """The characters and bytes in the fields of a message, those of nested messages included."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Message):
        return sum(_text_bytes(getattr(value, wire.name)) for wire in wire_fields(type(value)))
    return sum(map(_text_bytes, value)) if isinstance(value, list | tuple) else 0
