"""SyncGroup: API key 14, versions 0 to 5, flexible from 4.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class SyncGroupRequestAssignment(Message):
    member_id: str = field("string", default="")
    assignment: bytes = field("bytes", default=b"")


@message
class SyncGroupRequest(Message):
    group_id: str = field("string", default="")
    generation_id: int = field("int32", default=0)
    member_id: str = field("string", default="")
    group_instance_id: str | None = field("string", default=None, since=3, nullable_since=3)
    protocol_type: str | None = field("string", default=None, since=5, nullable_since=5, ignorable=True)
    protocol_name: str | None = field("string", default=None, since=5, nullable_since=5, ignorable=True)
    assignments: Sequence[SyncGroupRequestAssignment] = field([SyncGroupRequestAssignment], default=())


@message
class SyncGroupResponse(Message):
    throttle_time_ms: int = field("int32", default=0, since=1, ignorable=True)
    error_code: int = field("int16", default=0)
    protocol_type: str | None = field("string", default=None, since=5, nullable_since=5, ignorable=True)
    protocol_name: str | None = field("string", default=None, since=5, nullable_since=5, ignorable=True)
    assignment: bytes = field("bytes", default=b"")


API = Api(
    key=14,
    name="SyncGroup",
    versions=span(0, 5),
    flexible_since=4,
    listeners=frozenset({"broker"}),
    latest_stable=5,
    request=SyncGroupRequest,
    response=SyncGroupResponse,
)
