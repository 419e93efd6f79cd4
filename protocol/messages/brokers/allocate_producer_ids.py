"""AllocateProducerIds: API key 67, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class AllocateProducerIdsRequest(Message):
    broker_id: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=-1)


@message
class AllocateProducerIdsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    producer_id_start: int = field("int64", default=0)
    producer_id_len: int = field("int32", default=0)


API = Api(
    key=67,
    name="AllocateProducerIds",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"controller"}),
    latest_stable=0,
    request=AllocateProducerIdsRequest,
    response=AllocateProducerIdsResponse,
)
