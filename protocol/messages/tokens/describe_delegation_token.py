"""DescribeDelegationToken: API key 41, versions 0 to 3, flexible from 2.

Apache Kafka 4.0 removed version 0 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class DescribeDelegationTokenOwner(Message):
    principal_type: str = field("string", default="")
    principal_name: str = field("string", default="")


@message
class DescribeDelegationTokenRequest(Message):
    owners: Sequence[DescribeDelegationTokenOwner] | None = field(
        [DescribeDelegationTokenOwner], default=(), nullable_since=0
    )


@message
class DescribedDelegationTokenRenewer(Message):
    principal_type: str = field("string", default="")
    principal_name: str = field("string", default="")


@message
class DescribedDelegationToken(Message):
    principal_type: str = field("string", default="")
    principal_name: str = field("string", default="")
    token_requester_principal_type: str = field("string", default="", since=3)
    token_requester_principal_name: str = field("string", default="", since=3)
    issue_timestamp: int = field("int64", default=0)
    expiry_timestamp: int = field("int64", default=0)
    max_timestamp: int = field("int64", default=0)
    token_id: str = field("string", default="")
    hmac: bytes = field("bytes", default=b"")
    renewers: Sequence[DescribedDelegationTokenRenewer] = field([DescribedDelegationTokenRenewer], default=())


@message
class DescribeDelegationTokenResponse(Message):
    error_code: int = field("int16", default=0)
    tokens: Sequence[DescribedDelegationToken] = field([DescribedDelegationToken], default=())
    throttle_time_ms: int = field("int32", default=0)


API = Api(
    key=41,
    name="DescribeDelegationToken",
    versions=span(0, 3),
    flexible_since=2,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=3,
    removed_before=1,
    request=DescribeDelegationTokenRequest,
    response=DescribeDelegationTokenResponse,
)
