"""ListConfigResources: API key 74, versions 0 to 1, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class ListConfigResourcesRequest(Message):
    resource_types: Sequence[int] = field(["int8"], default=(), since=1)


@message
class ConfigResource(Message):
    resource_name: str = field("string", default="")
    resource_type: int = field("int8", default=16, since=1, ignorable=True)


@message
class ListConfigResourcesResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    config_resources: Sequence[ConfigResource] = field([ConfigResource], default=())


API = Api(
    key=74,
    name="ListConfigResources",
    versions=span(0, 1),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=1,
    request=ListConfigResourcesRequest,
    response=ListConfigResourcesResponse,
)
