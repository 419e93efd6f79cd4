"""DescribeConfigs: API key 32, versions 0 to 4, flexible from 4.

Apache Kafka 4.0 removed version 0 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class DescribeConfigsResource(Message):
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    configuration_keys: Sequence[str] | None = field(["string"], default=(), nullable_since=0)


@message
class DescribeConfigsRequest(Message):
    resources: Sequence[DescribeConfigsResource] = field([DescribeConfigsResource], default=())
    include_synonyms: bool = field("bool", default=False, since=1)
    include_documentation: bool = field("bool", default=False, since=3)


@message
class DescribeConfigsSynonym(Message):
    name: str = field("string", default="", since=1)
    value: str | None = field("string", default="", since=1, nullable_since=1)
    source: int = field("int8", default=0, since=1)


@message
class DescribeConfigsResourceResult(Message):
    name: str = field("string", default="")
    value: str | None = field("string", default="", nullable_since=0)
    read_only: bool = field("bool", default=False)
    is_default: bool = field("bool", default=False, until=0)
    config_source: int = field("int8", default=-1, since=1, ignorable=True)
    is_sensitive: bool = field("bool", default=False)
    synonyms: Sequence[DescribeConfigsSynonym] = field([DescribeConfigsSynonym], default=(), since=1, ignorable=True)
    config_type: int = field("int8", default=0, since=3, ignorable=True)
    documentation: str | None = field("string", default="", since=3, nullable_since=3, ignorable=True)


@message
class DescribeConfigsResult(Message):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)
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
    versions=span(0, 4),
    flexible_since=4,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=4,
    removed_before=1,
    request=DescribeConfigsRequest,
    response=DescribeConfigsResponse,
)
