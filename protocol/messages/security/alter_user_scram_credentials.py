"""AlterUserScramCredentials: API key 51, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class ScramCredentialDeletion(Message):
    name: str = field("string", default="")
    mechanism: int = field("int8", default=0)


@message
class ScramCredentialUpsertion(Message):
    name: str = field("string", default="")
    mechanism: int = field("int8", default=0)
    iterations: int = field("int32", default=0)
    salt: bytes = field("bytes", default=b"")
    salted_password: bytes = field("bytes", default=b"")


@message
class AlterUserScramCredentialsRequest(Message):
    deletions: Sequence[ScramCredentialDeletion] = field([ScramCredentialDeletion], default=())
    upsertions: Sequence[ScramCredentialUpsertion] = field([ScramCredentialUpsertion], default=())


@message
class AlterUserScramCredentialsResult(Message):
    user: str = field("string", default="")
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)


@message
class AlterUserScramCredentialsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    results: Sequence[AlterUserScramCredentialsResult] = field([AlterUserScramCredentialsResult], default=())


API = Api(
    key=51,
    name="AlterUserScramCredentials",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=0,
    request=AlterUserScramCredentialsRequest,
    response=AlterUserScramCredentialsResponse,
)
