"""ListOffsets: API key 2, versions 0 to 11, flexible from 6.

Apache Kafka 4.0 removed version 0 (KIP-896).

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
    max_num_offsets: int = field("int32", default=1, until=0)


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
    old_style_offsets: Sequence[int] = field(["int64"], default=(), until=0)
    timestamp: int = field("int64", default=-1, since=1)
    offset: int = field("int64", default=-1, since=1)
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
    versions=span(0, 11),
    flexible_since=6,
    listeners=frozenset({"broker"}),
    latest_stable=11,
    removed_before=1,
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
)
