"""InitProducerId: API key 22, versions 0 to 6, flexible from 2.

Written by tools/generate_messages.py from spec/.
"""

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class InitProducerIdRequest(Message):
    transactional_id: str | None = field("string", default="", nullable_since=0)
    transaction_timeout_ms: int = field("int32", default=0)
    producer_id: int = field("int64", default=-1, since=3)
    producer_epoch: int = field("int16", default=-1, since=3)
    enable2_pc: bool = field("bool", default=False, since=6)
    keep_prepared_txn: bool = field("bool", default=False, since=6)


@message
class InitProducerIdResponse(Message):
    throttle_time_ms: int = field("int32", default=0, ignorable=True)
    error_code: int = field("int16", default=0)
    producer_id: int = field("int64", default=-1)
    producer_epoch: int = field("int16", default=0)
    ongoing_txn_producer_id: int = field("int64", default=-1, since=6)
    ongoing_txn_producer_epoch: int = field("int16", default=-1, since=6)


API = Api(
    key=22,
    name="InitProducerId",
    versions=span(0, 6),
    flexible_since=2,
    listeners=frozenset({"broker"}),
    latest_stable=5,
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
)
