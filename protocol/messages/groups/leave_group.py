"""LeaveGroup: API key 13, versions 0 to 5, flexible from 4.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class MemberIdentity(Message):
    member_id: str = field("string", default="", since=3)
    group_instance_id: str | None = field("string", default=None, since=3, nullable_since=3)
    reason: str | None = field("string", default=None, since=5, nullable_since=5, ignorable=True)


@message
class LeaveGroupRequest(Message):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="", until=2)
    members: Sequence[MemberIdentity] = field([MemberIdentity], default=(), since=3)


@message
class MemberResponse(Message):
    member_id: str = field("string", default="", since=3)
    group_instance_id: str | None = field("string", default="", since=3, nullable_since=3)
    error_code: int = field("int16", default=0, since=3)


@message
class LeaveGroupResponse(Message):
    throttle_time_ms: int = field("int32", default=0, since=1, ignorable=True)
    error_code: int = field("int16", default=0)
    members: Sequence[MemberResponse] = field([MemberResponse], default=(), since=3)


API = Api(
    key=13,
    name="LeaveGroup",
    versions=span(0, 5),
    flexible_since=4,
    listeners=frozenset({"broker"}),
    latest_stable=5,
    request=LeaveGroupRequest,
    response=LeaveGroupResponse,
)
