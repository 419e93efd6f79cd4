"""UnregisterBroker: API key 64, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class UnregisterBrokerRequest(Message):
    broker_id: int = field("int32", default=0)


@message
class UnregisterBrokerResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)


API = Api(
    key=64,
    name="UnregisterBroker",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=0,
    request=UnregisterBrokerRequest,
    response=UnregisterBrokerResponse,
)
