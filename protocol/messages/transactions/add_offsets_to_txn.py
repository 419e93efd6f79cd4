"""AddOffsetsToTxn: API key 25, versions 0 to 4, flexible from 3.

Written by tools/generate_messages.py from spec/.
"""

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class AddOffsetsToTxnRequest(Message):
    transactional_id: str = field("string", default="")
    producer_id: int = field("int64", default=0)
    producer_epoch: int = field("int16", default=0)
    group_id: str = field("string", default="")


@message
class AddOffsetsToTxnResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)


API = Api(
    key=25,
    name="AddOffsetsToTxn",
    versions=span(0, 4),
    flexible_since=3,
    listeners=frozenset({"broker"}),
    latest_stable=4,
    request=AddOffsetsToTxnRequest,
    response=AddOffsetsToTxnResponse,
)
