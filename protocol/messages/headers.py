"""The headers in front of every request and response.

Written by tools/generate_messages.py from spec/.
"""

from klamm.protocol.api import RecordType, span
from klamm.protocol.fields import Message, field, message


@message
class RequestHeader(Message):
    request_api_key: int = field("int16", default=0)
    request_api_version: int = field("int16", default=0)
    correlation_id: int = field("int32", default=0)
    client_id: str | None = field("string", default="", since=1, nullable_since=1, ignorable=True, never_flexible=True)


@message
class ResponseHeader(Message):
    correlation_id: int = field("int32", default=0)


REQUEST_HEADER = RecordType(
    id=-1,
    name="RequestHeader",
    versions=span(0, 2),
    flexible_since=2,
    message=RequestHeader,
)

RESPONSE_HEADER = RecordType(
    id=-1,
    name="ResponseHeader",
    versions=span(0, 1),
    flexible_since=1,
    message=ResponseHeader,
)
