"""ListOffsets: API key 2, versions 1 to 11, flexible from 6.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class ListOffsetsPartition(Message):
    partition_index: int = field("int32", default=0)
    current_leader_epoch: int = field("int32", default=-1, since=4, ignorable=True)
    timestamp: int = field("int64", default=0)


@message
class ListOffsetsTopic(Message):
    name: str = field("string", default="")
    partitions: Sequence[ListOffsetsPartition] = field([ListOffsetsPartition], default=())


@message
class ListOffsetsRequest(Message):
    replica_id: int = field("int32", default=0)
    isolation_level: int = field("int8", default=0, since=2)
    topics: Sequence[ListOffsetsTopic] = field([ListOffsetsTopic], default=())
    timeout_ms: int = field("int32", default=0, since=10, ignorable=True)


@message
class ListOffsetsPartitionResponse(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    timestamp: int = field("int64", default=-1)
    offset: int = field("int64", default=-1)
    leader_epoch: int = field("int32", default=-1, since=4)


@message
class ListOffsetsTopicResponse(Message):
    name: str = field("string", default="")
    partitions: Sequence[ListOffsetsPartitionResponse] = field([ListOffsetsPartitionResponse], default=())


@message
class ListOffsetsResponse(Message):
    throttle_time_ms: int = field("int32", default=0, since=2, ignorable=True)
    topics: Sequence[ListOffsetsTopicResponse] = field([ListOffsetsTopicResponse], default=())


API = Api(
    key=2,
    name="ListOffsets",
    versions=span(1, 11),
    flexible_since=6,
    listeners=frozenset({"broker"}),
    latest_stable=11,
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
)
