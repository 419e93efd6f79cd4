"""DescribeTransactions: API key 65, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class DescribeTransactionsRequest(Message):
    transactional_ids: Sequence[str] = field(["string"], default=())


@message
class TopicData(Message):
    topic: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


@message
class TransactionState(Message):
    error_code: int = field("int16", default=0)
    transactional_id: str = field("string", default="")
    transaction_state: str = field("string", default="")
    transaction_timeout_ms: int = field("int32", default=0)
    transaction_start_time_ms: int = field("int64", default=0)
    producer_id: int = field("int64", default=0)
    producer_epoch: int = field("int16", default=0)
    topics: Sequence[TopicData] = field([TopicData], default=())


@message
class DescribeTransactionsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    transaction_states: Sequence[TransactionState] = field([TransactionState], default=())


API = Api(
    key=65,
    name="DescribeTransactions",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=0,
    request=DescribeTransactionsRequest,
    response=DescribeTransactionsResponse,
)
