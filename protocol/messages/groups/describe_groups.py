"""DescribeGroups: API key 15, versions 0 to 6, flexible from 5.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class DescribeGroupsRequest(Message):
    groups: Sequence[str] = field(["string"], default=())
    include_authorized_operations: bool = field("bool", default=False, since=3)


@message
class DescribedGroupMember(Message):
    member_id: str = field("string", default="")
    group_instance_id: str | None = field("string", default=None, since=4, nullable_since=4, ignorable=True)
    client_id: str = field("string", default="")
    client_host: str = field("string", default="")
    member_metadata: bytes = field("bytes", default=b"")
    member_assignment: bytes = field("bytes", default=b"")


@message
class DescribedGroup(Message):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, since=6, nullable_since=6)
    group_id: str = field("string", default="")
    group_state: str = field("string", default="")
    protocol_type: str = field("string", default="")
    protocol_data: str = field("string", default="")
    members: Sequence[DescribedGroupMember] = field([DescribedGroupMember], default=())
    authorized_operations: int = field("int32", default=-2147483648, since=3)


@message
class DescribeGroupsResponse(Message):
    throttle_time_ms: int = field("int32", default=0, since=1, ignorable=True)
    groups: Sequence[DescribedGroup] = field([DescribedGroup], default=())


API = Api(
    key=15,
    name="DescribeGroups",
    versions=span(0, 6),
    flexible_since=5,
    listeners=frozenset({"broker"}),
    latest_stable=6,
    request=DescribeGroupsRequest,
    response=DescribeGroupsResponse,
)
