"""Metadata records about transactions.

Written by tools/generate_messages.py from spec/.
"""

from klamm.protocol.api import RecordType, span
from klamm.protocol.fields import Message, field, message


@message
class BeginTransactionRecord(Message):
    name: str | None = field("string", default=None, nullable_since=0, tag=0)


@message
class EndTransactionRecord(Message):
    pass


@message
class AbortTransactionRecord(Message):
    reason: str | None = field("string", default=None, nullable_since=0, tag=0)


BEGIN_TRANSACTION = RecordType(
    id=23,
    name="BeginTransactionRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=BeginTransactionRecord,
)

END_TRANSACTION = RecordType(
    id=24,
    name="EndTransactionRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=EndTransactionRecord,
)

ABORT_TRANSACTION = RecordType(
    id=25,
    name="AbortTransactionRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=AbortTransactionRecord,
)
