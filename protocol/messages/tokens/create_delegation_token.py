"""CreateDelegationToken: API key 38, versions 0 to 3, flexible from 2.

Apache Kafka 4.0 removed version 0 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class CreatableRenewers(Message):
    principal_type: str = field("string", default="")
    principal_name: str = field("string", default="")


@message
class CreateDelegationTokenRequest(Message):
    owner_principal_type: str | None = field("string", default="", since=3, nullable_since=3)
    owner_principal_name: str | None = field("string", default="", since=3, nullable_since=3)
    renewers: Sequence[CreatableRenewers] = field([CreatableRenewers], default=())
    max_lifetime_ms: int = field("int64", default=0)


@message
class CreateDelegationTokenResponse(Message):
    error_code: int = field("int16", default=0)
    principal_type: str = field("string", default="")
    principal_name: str = field("string", default="")
    token_requester_principal_type: str = field("string", default="", since=3)
    token_requester_principal_name: str = field("string", default="", since=3)
    issue_timestamp_ms: int = field("int64", default=0)
    expiry_timestamp_ms: int = field("int64", default=0)
    max_timestamp_ms: int = field("int64", default=0)
    token_id: str = field("string", default="")
    hmac: bytes = field("bytes", default=b"")
    throttle_time_ms: int = field("int32", default=0)


API = Api(
    key=38,
    name="CreateDelegationToken",
    versions=span(0, 3),
    flexible_since=2,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=3,
    removed_before=1,
    request=CreateDelegationTokenRequest,
    response=CreateDelegationTokenResponse,
)
