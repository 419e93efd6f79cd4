"""Envelope: API key 58, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class EnvelopeRequest(Message):
    request_data: bytes = field("bytes", default=b"")
    request_principal: bytes | None = field("bytes", default=b"", nullable_since=0)
    client_host_address: bytes = field("bytes", default=b"")


@message
class EnvelopeResponse(Message):
    response_data: bytes | None = field("bytes", default=None, nullable_since=0)
    error_code: int = field("int16", default=0)


API = Api(
    key=58,
    name="Envelope",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"controller"}),
    latest_stable=0,
    request=EnvelopeRequest,
    response=EnvelopeResponse,
)
