"""GetTelemetrySubscriptions: API key 71, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class GetTelemetrySubscriptionsRequest(Message):
    client_instance_id: Uuid = field("uuid", default=ZERO_UUID)


@message
class GetTelemetrySubscriptionsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    client_instance_id: Uuid = field("uuid", default=ZERO_UUID)
    subscription_id: int = field("int32", default=0)
    accepted_compression_types: Sequence[int] = field(["int8"], default=())
    push_interval_ms: int = field("int32", default=0)
    telemetry_max_bytes: int = field("int32", default=0)
    delta_temporality: bool = field("bool", default=False)
    requested_metrics: Sequence[str] = field(["string"], default=())


API = Api(
    key=71,
    name="GetTelemetrySubscriptions",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=0,
    request=GetTelemetrySubscriptionsRequest,
    response=GetTelemetrySubscriptionsResponse,
)
