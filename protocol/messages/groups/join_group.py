"""JoinGroup: API key 11, versions 0 to 9, flexible from 6.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class JoinGroupRequestProtocol(Message):
    name: str = field("string", default="")
    metadata: bytes = field("bytes", default=b"")


@message
class JoinGroupRequest(Message):
    group_id: str = field("string", default="")
    session_timeout_ms: int = field("int32", default=0)
    rebalance_timeout_ms: int = field("int32", default=-1, since=1, ignorable=True)
    member_id: str = field("string", default="")
    group_instance_id: str | None = field("string", default=None, since=5, nullable_since=5)
    protocol_type: str = field("string", default="")
    protocols: Sequence[JoinGroupRequestProtocol] = field([JoinGroupRequestProtocol], default=())
    reason: str | None = field("string", default=None, since=8, nullable_since=8, ignorable=True)


@message
class JoinGroupResponseMember(Message):
    member_id: str = field("string", default="")
    group_instance_id: str | None = field("string", default=None, since=5, nullable_since=5, ignorable=True)
    metadata: bytes = field("bytes", default=b"")


@message
class JoinGroupResponse(Message):
    throttle_time_ms: int = field("int32", default=0, since=2, ignorable=True)
    error_code: int = field("int16", default=0)
    generation_id: int = field("int32", default=-1)
    protocol_type: str | None = field("string", default=None, since=7, nullable_since=7, ignorable=True)
    protocol_name: str | None = field("string", default="", nullable_since=7)
    leader: str = field("string", default="")
    skip_assignment: bool = field("bool", default=False, since=9)
    member_id: str = field("string", default="")
    members: Sequence[JoinGroupResponseMember] = field([JoinGroupResponseMember], default=())


API = Api(
    key=11,
    name="JoinGroup",
    versions=span(0, 9),
    flexible_since=6,
    listeners=frozenset({"broker"}),
    latest_stable=9,
    request=JoinGroupRequest,
    response=JoinGroupResponse,
)
