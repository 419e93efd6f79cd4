"""AlterPartitionReassignments: API key 45, versions 0 to 1, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class ReassignablePartition(Message):
    partition_index: int = field("int32", default=0)
    replicas: Sequence[int] | None = field(["int32"], default=None, nullable_since=0)


@message
class ReassignableTopic(Message):
    name: str = field("string", default="")
    partitions: Sequence[ReassignablePartition] = field([ReassignablePartition], default=())


@message
class AlterPartitionReassignmentsRequest(Message):
    timeout_ms: int = field("int32", default=60000)
    allow_replication_factor_change: bool = field("bool", default=True, since=1)
    topics: Sequence[ReassignableTopic] = field([ReassignableTopic], default=())


@message
class ReassignablePartitionResponse(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)


@message
class ReassignableTopicResponse(Message):
    name: str = field("string", default="")
    partitions: Sequence[ReassignablePartitionResponse] = field([ReassignablePartitionResponse], default=())


@message
class AlterPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    allow_replication_factor_change: bool = field("bool", default=True, since=1, ignorable=True)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)
    responses: Sequence[ReassignableTopicResponse] = field([ReassignableTopicResponse], default=())


API = Api(
    key=45,
    name="AlterPartitionReassignments",
    versions=span(0, 1),
    flexible_since=0,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=1,
    request=AlterPartitionReassignmentsRequest,
    response=AlterPartitionReassignmentsResponse,
)
