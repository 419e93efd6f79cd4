"""DeleteGroups: API key 42, versions 0 to 2, flexible from 2.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class DeleteGroupsRequest(Message):
    groups_names: Sequence[str] = field(["string"], default=())


@message
class DeletableGroupResult(Message):
    group_id: str = field("string", default="")
    error_code: int = field("int16", default=0)


@message
class DeleteGroupsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    results: Sequence[DeletableGroupResult] = field([DeletableGroupResult], default=())


API = Api(
    key=42,
    name="DeleteGroups",
    versions=span(0, 2),
    flexible_since=2,
    listeners=frozenset({"broker"}),
    latest_stable=2,
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
)
