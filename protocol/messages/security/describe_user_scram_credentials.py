"""DescribeUserScramCredentials: API key 50, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class UserName(Message):
    name: str = field("string", default="")


@message
class DescribeUserScramCredentialsRequest(Message):
    users: Sequence[UserName] | None = field([UserName], default=(), nullable_since=0)


@message
class CredentialInfo(Message):
    mechanism: int = field("int8", default=0)
    iterations: int = field("int32", default=0)


@message
class DescribeUserScramCredentialsResult(Message):
    user: str = field("string", default="")
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)
    credential_infos: Sequence[CredentialInfo] = field([CredentialInfo], default=())


@message
class DescribeUserScramCredentialsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)
    results: Sequence[DescribeUserScramCredentialsResult] = field([DescribeUserScramCredentialsResult], default=())


API = Api(
    key=50,
    name="DescribeUserScramCredentials",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=0,
    request=DescribeUserScramCredentialsRequest,
    response=DescribeUserScramCredentialsResponse,
)
