"""Coordinator records: transaction log.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import RecordType, span
from klamm.protocol.fields import Message, field, message


@message
class TransactionLogKey(Message):
    transactional_id: str = field("string", default="")


@message
class PartitionsSchema(Message):
    topic: str = field("string", default="")
    partition_ids: Sequence[int] = field(["int32"], default=())


@message
class TransactionLogValue(Message):
    producer_id: int = field("int64", default=0)
    previous_producer_id: int = field("int64", default=-1, since=1, tag=0)
    next_producer_id: int = field("int64", default=-1, since=1, tag=1)
    producer_epoch: int = field("int16", default=0)
    next_producer_epoch: int = field("int16", default=-1, since=1, tag=3)
    transaction_timeout_ms: int = field("int32", default=0)
    transaction_status: int = field("int8", default=0)
    transaction_partitions: Sequence[PartitionsSchema] | None = field([PartitionsSchema], default=(), nullable_since=0)
    transaction_last_update_timestamp_ms: int = field("int64", default=0)
    transaction_start_timestamp_ms: int = field("int64", default=0)
    client_transaction_version: int = field("int16", default=0, since=1, tag=2)


TRANSACTION_LOG_KEY = RecordType(
    id=0,
    name="TransactionLogKey",
    versions=span(0, 0),
    flexible_since=None,
    message=TransactionLogKey,
)

TRANSACTION_LOG_VALUE = RecordType(
    id=0,
    name="TransactionLogValue",
    versions=span(0, 1),
    flexible_since=1,
    message=TransactionLogValue,
)
