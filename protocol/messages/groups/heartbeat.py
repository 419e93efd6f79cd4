"""Heartbeat: API key 12, versions 0 to 4, flexible from 4.

Written by tools/generate_messages.py from spec/.
"""

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class HeartbeatRequest(Message):
    group_id: str = field("string", default="")
    generation_id: int = field("int32", default=0)
    member_id: str = field("string", default="")
    group_instance_id: str | None = field("string", default=None, since=3, nullable_since=3)


@message
class HeartbeatResponse(Message):
    throttle_time_ms: int = field("int32", default=0, since=1, ignorable=True)
    error_code: int = field("int16", default=0)


API = Api(
    key=12,
    name="Heartbeat",
    versions=span(0, 4),
    flexible_since=4,
    listeners=frozenset({"broker"}),
    latest_stable=4,
    request=HeartbeatRequest,
    response=HeartbeatResponse,
)
