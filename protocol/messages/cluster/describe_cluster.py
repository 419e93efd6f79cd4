"""DescribeCluster: API key 60, versions 0 to 2, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class DescribeClusterRequest(Message):
    include_cluster_authorized_operations: bool = field("bool", default=False)
    endpoint_type: int = field("int8", default=1, since=1)
    include_fenced_brokers: bool = field("bool", default=False, since=2)


@message
class DescribeClusterBroker(Message):
    broker_id: int = field("int32", default=0)
    host: str = field("string", default="")
    port: int = field("int32", default=0)
    rack: str | None = field("string", default=None, nullable_since=0)
    is_fenced: bool = field("bool", default=False, since=2)


@message
class DescribeClusterResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)
    endpoint_type: int = field("int8", default=1, since=1)
    cluster_id: str = field("string", default="")
    controller_id: int = field("int32", default=-1)
    brokers: Sequence[DescribeClusterBroker] = field([DescribeClusterBroker], default=())
    cluster_authorized_operations: int = field("int32", default=-2147483648)


API = Api(
    key=60,
    name="DescribeCluster",
    versions=span(0, 2),
    flexible_since=0,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=2,
    request=DescribeClusterRequest,
    response=DescribeClusterResponse,
)
