"""A start: the image as the metadata log has it, from the newest snapshot on.

The records of a metadata transaction (KIP-868) may be in several batches. They count together when it ends, and not at
all when it is aborted. Klamm writes none: a request's records are one batch. Kafka's controller writes the first
records of a log as one.
"""

from collections.abc import Iterable
from typing import Final

from klamm.controller.log_records import Record
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.replay import ReplayError, replay
from klamm.controller.metadata_log import MetadataLog
from klamm.controller.snapshot_order import PartitionsInOrder
from klamm.protocol.record_batch import Batch
from klamm.protocol.records.transactions import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord

TRANSACTION_RECORDS: Final = frozenset({BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord})


def restore(image: MetadataImage, log: MetadataLog) -> bool:
    """Replay the log into an empty image. Returns whether the log ends inside of a transaction, whose records were left
    out: AbortTransactionRecord has to follow. Raises LogError and ReplayError."""
    if log.snapshot is not None:
        partitions = PartitionsInOrder()
        for batch in _of_records(log.read_snapshot()):
            replay(image, partitions.take(batch.contents), batch.base_offset)
        replay(image, partitions.rest(), log.snapshot.end_offset)
        # The records of a snapshot have offsets of their own, beginning with 0.
        image.next_offset = log.snapshot.end_offset
    held: list[Record] | None = None
    for batch in _of_records(log.read()):
        if held is None and TRANSACTION_RECORDS.isdisjoint(map(type, batch.contents)):
            replay(image, batch.contents, batch.base_offset)
        else:
            held = _replay_decided(image, batch, held)
    return held is not None


def _of_records(batches: Iterable[Batch]) -> Iterable[Batch]:
    return (batch for batch in batches if not batch.is_control)


def _replay_decided(image: MetadataImage, batch: Batch, held: list[Record] | None) -> list[Record] | None:
    """Replay what a batch decides. `held`: the records of the open transaction so far; None: none is open. Returns the
    same after the batch."""
    decided: list[Record] = []
    for record in batch.contents:
        if isinstance(record, BeginTransactionRecord):
            if held is not None:
                raise ReplayError(f"a transaction begins inside of another one, in the batch at {batch.base_offset}")
            held = []
        elif isinstance(record, EndTransactionRecord | AbortTransactionRecord):
            if held is None:
                raise ReplayError(f"a transaction ends that has not begun, in the batch at {batch.base_offset}")
            if isinstance(record, EndTransactionRecord):
                decided += held
            held = None
        else:
            (decided if held is None else held).append(record)
    replay(image, decided, batch.base_offset)
    image.next_offset = batch.last_offset + 1
    return held
