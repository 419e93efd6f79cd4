"""ExpireDelegationToken: API key 40, versions 1 to 2, flexible from 2.

Written by tools/generate_messages.py from spec/.
"""

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class ExpireDelegationTokenRequest(Message):
    hmac: bytes = field("bytes", default=b"")
    expiry_time_period_ms: int = field("int64", default=0)


@message
class ExpireDelegationTokenResponse(Message):
    error_code: int = field("int16", default=0)
    expiry_timestamp_ms: int = field("int64", default=0)
    throttle_time_ms: int = field("int32", default=0)


API = Api(
    key=40,
    name="ExpireDelegationToken",
    versions=span(1, 2),
    flexible_since=2,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=2,
    request=ExpireDelegationTokenRequest,
    response=ExpireDelegationTokenResponse,
)
