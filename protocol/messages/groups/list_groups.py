"""ListGroups: API key 16, versions 0 to 5, flexible from 3.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class ListGroupsRequest(Message):
    states_filter: Sequence[str] = field(["string"], default=(), since=4)
    types_filter: Sequence[str] = field(["string"], default=(), since=5)


@message
class ListedGroup(Message):
    group_id: str = field("string", default="")
    protocol_type: str = field("string", default="")
    group_state: str = field("string", default="", since=4, ignorable=True)
    group_type: str = field("string", default="", since=5, ignorable=True)


@message
class ListGroupsResponse(Message):
    throttle_time_ms: int = field("int32", default=0, since=1, ignorable=True)
    error_code: int = field("int16", default=0)
    groups: Sequence[ListedGroup] = field([ListedGroup], default=())


API = Api(
    key=16,
    name="ListGroups",
    versions=span(0, 5),
    flexible_since=3,
    listeners=frozenset({"broker"}),
    latest_stable=5,
    request=ListGroupsRequest,
    response=ListGroupsResponse,
)
