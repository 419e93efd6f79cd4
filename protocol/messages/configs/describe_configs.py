"""DescribeConfigs: API key 32, versions 1 to 4, flexible from 4.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class DescribeConfigsResource(Message):
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    configuration_keys: Sequence[str] | None = field(["string"], default=(), nullable_since=1)


@message
class DescribeConfigsRequest(Message):
    resources: Sequence[DescribeConfigsResource] = field([DescribeConfigsResource], default=())
    include_synonyms: bool = field("bool", default=False)
    include_documentation: bool = field("bool", default=False, since=3)


@message
class DescribeConfigsSynonym(Message):
    name: str = field("string", default="")
    value: str | None = field("string", default="", nullable_since=1)
    source: int = field("int8", default=0)


@message
class DescribeConfigsResourceResult(Message):
    name: str = field("string", default="")
    value: str | None = field("string", default="", nullable_since=1)
    read_only: bool = field("bool", default=False)
    config_source: int = field("int8", default=-1, ignorable=True)
    is_sensitive: bool = field("bool", default=False)
    synonyms: Sequence[DescribeConfigsSynonym] = field([DescribeConfigsSynonym], default=(), ignorable=True)
    config_type: int = field("int8", default=0, since=3, ignorable=True)
    documentation: str | None = field("string", default="", since=3, nullable_since=3, ignorable=True)


@message
class DescribeConfigsResult(Message):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=1)
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    configs: Sequence[DescribeConfigsResourceResult] = field([DescribeConfigsResourceResult], default=())


@message
class DescribeConfigsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    results: Sequence[DescribeConfigsResult] = field([DescribeConfigsResult], default=())


API = Api(
    key=32,
    name="DescribeConfigs",
    versions=span(1, 4),
    flexible_since=4,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=4,
    request=DescribeConfigsRequest,
    response=DescribeConfigsResponse,
)
