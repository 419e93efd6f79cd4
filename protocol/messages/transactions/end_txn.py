"""EndTxn: API key 26, versions 0 to 5, flexible from 3.

Written by tools/generate_messages.py from spec/.
"""

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class EndTxnRequest(Message):
    transactional_id: str = field("string", default="")
    producer_id: int = field("int64", default=0)
    producer_epoch: int = field("int16", default=0)
    committed: bool = field("bool", default=False)


@message
class EndTxnResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    producer_id: int = field("int64", default=-1, since=5, ignorable=True)
    producer_epoch: int = field("int16", default=-1, since=5, ignorable=True)


API = Api(
    key=26,
    name="EndTxn",
    versions=span(0, 5),
    flexible_since=3,
    listeners=frozenset({"broker"}),
    latest_stable=5,
    request=EndTxnRequest,
    response=EndTxnResponse,
)
