"""DescribeAcls: API key 29, versions 0 to 3, flexible from 2.

Apache Kafka 4.0 removed version 0 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class DescribeAclsRequest(Message):
    resource_type_filter: int = field("int8", default=0)
    resource_name_filter: str | None = field("string", default="", nullable_since=0)
    pattern_type_filter: int = field("int8", default=3, since=1)
    principal_filter: str | None = field("string", default="", nullable_since=0)
    host_filter: str | None = field("string", default="", nullable_since=0)
    operation: int = field("int8", default=0)
    permission_type: int = field("int8", default=0)


@message
class AclDescription(Message):
    principal: str = field("string", default="")
    host: str = field("string", default="")
    operation: int = field("int8", default=0)
    permission_type: int = field("int8", default=0)


@message
class DescribeAclsResource(Message):
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    pattern_type: int = field("int8", default=3, since=1)
    acls: Sequence[AclDescription] = field([AclDescription], default=())


@message
class DescribeAclsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)
    resources: Sequence[DescribeAclsResource] = field([DescribeAclsResource], default=())


API = Api(
    key=29,
    name="DescribeAcls",
    versions=span(0, 3),
    flexible_since=2,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=3,
    removed_before=1,
    request=DescribeAclsRequest,
    response=DescribeAclsResponse,
)
