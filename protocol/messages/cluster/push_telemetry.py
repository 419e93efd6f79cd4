"""PushTelemetry: API key 72, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class PushTelemetryRequest(Message):
    client_instance_id: Uuid = field("uuid", default=ZERO_UUID)
    subscription_id: int = field("int32", default=0)
    terminating: bool = field("bool", default=False)
    compression_type: int = field("int8", default=0)
    metrics: bytes = field("bytes", default=b"")


@message
class PushTelemetryResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)


API = Api(
    key=72,
    name="PushTelemetry",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=0,
    request=PushTelemetryRequest,
    response=PushTelemetryResponse,
)
