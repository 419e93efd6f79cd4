"""SaslAuthenticate: API key 36, versions 0 to 2, flexible from 2.

Written by tools/generate_messages.py from spec/.
"""

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class SaslAuthenticateRequest(Message):
    auth_bytes: bytes = field("bytes", default=b"")


@message
class SaslAuthenticateResponse(Message):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)
    auth_bytes: bytes = field("bytes", default=b"")
    session_lifetime_ms: int = field("int64", default=0, since=1, ignorable=True)


API = Api(
    key=36,
    name="SaslAuthenticate",
    versions=span(0, 2),
    flexible_since=2,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=2,
    request=SaslAuthenticateRequest,
    response=SaslAuthenticateResponse,
)
