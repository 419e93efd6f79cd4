"""RenewDelegationToken: API key 39, versions 0 to 2, flexible from 2.

Apache Kafka 4.0 removed version 0 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class RenewDelegationTokenRequest(Message):
    hmac: bytes = field("bytes", default=b"")
    renew_period_ms: int = field("int64", default=0)


@message
class RenewDelegationTokenResponse(Message):
    error_code: int = field("int16", default=0)
    expiry_timestamp_ms: int = field("int64", default=0)
    throttle_time_ms: int = field("int32", default=0)


API = Api(
    key=39,
    name="RenewDelegationToken",
    versions=span(0, 2),
    flexible_since=2,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=2,
    removed_before=1,
    request=RenewDelegationTokenRequest,
    response=RenewDelegationTokenResponse,
)
