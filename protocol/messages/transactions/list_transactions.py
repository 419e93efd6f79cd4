"""ListTransactions: API key 66, versions 0 to 2, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class ListTransactionsRequest(Message):
    state_filters: Sequence[str] = field(["string"], default=())
    producer_id_filters: Sequence[int] = field(["int64"], default=())
    duration_filter: int = field("int64", default=-1, since=1)
    transactional_id_pattern: str | None = field("string", default=None, since=2, nullable_since=2)


@message
class TransactionState(Message):
    transactional_id: str = field("string", default="")
    producer_id: int = field("int64", default=0)
    transaction_state: str = field("string", default="")


@message
class ListTransactionsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    unknown_state_filters: Sequence[str] = field(["string"], default=())
    transaction_states: Sequence[TransactionState] = field([TransactionState], default=())


API = Api(
    key=66,
    name="ListTransactions",
    versions=span(0, 2),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=2,
    request=ListTransactionsRequest,
    response=ListTransactionsResponse,
)
