"""IncrementalAlterConfigs: API key 44, versions 0 to 1, flexible from 1.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class AlterableConfig(Message):
    name: str = field("string", default="")
    config_operation: int = field("int8", default=0)
    value: str | None = field("string", default="", nullable_since=0)


@message
class AlterConfigsResource(Message):
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    configs: Sequence[AlterableConfig] = field([AlterableConfig], default=())


@message
class IncrementalAlterConfigsRequest(Message):
    resources: Sequence[AlterConfigsResource] = field([AlterConfigsResource], default=())
    validate_only: bool = field("bool", default=False)


@message
class AlterConfigsResourceResponse(Message):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")


@message
class IncrementalAlterConfigsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    responses: Sequence[AlterConfigsResourceResponse] = field([AlterConfigsResourceResponse], default=())


API = Api(
    key=44,
    name="IncrementalAlterConfigs",
    versions=span(0, 1),
    flexible_since=1,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=1,
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
)
