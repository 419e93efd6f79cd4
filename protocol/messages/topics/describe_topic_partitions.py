"""DescribeTopicPartitions: API key 75, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class TopicRequest(Message):
    name: str = field("string", default="")


@message
class Cursor(Message):
    topic_name: str = field("string", default="")
    partition_index: int = field("int32", default=0)


@message
class DescribeTopicPartitionsRequest(Message):
    topics: Sequence[TopicRequest] = field([TopicRequest], default=())
    response_partition_limit: int = field("int32", default=2000)
    cursor: Cursor | None = field(Cursor, default=None, nullable_since=0)


@message
class DescribeTopicPartitionsResponsePartition(Message):
    error_code: int = field("int16", default=0)
    partition_index: int = field("int32", default=0)
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=-1, ignorable=True)
    replica_nodes: Sequence[int] = field(["int32"], default=())
    isr_nodes: Sequence[int] = field(["int32"], default=())
    eligible_leader_replicas: Sequence[int] | None = field(["int32"], default=None, nullable_since=0)
    last_known_elr: Sequence[int] | None = field(["int32"], default=None, nullable_since=0)
    offline_replicas: Sequence[int] = field(["int32"], default=(), ignorable=True)


@message
class DescribeTopicPartitionsResponseTopic(Message):
    error_code: int = field("int16", default=0)
    name: str | None = field("string", default="", nullable_since=0)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, ignorable=True)
    is_internal: bool = field("bool", default=False, ignorable=True)
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = field(
        [DescribeTopicPartitionsResponsePartition], default=()
    )
    topic_authorized_operations: int = field("int32", default=-2147483648)


@message
class DescribeTopicPartitionsResponse(Message):
    throttle_time_ms: int = field("int32", default=0, ignorable=True)
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = field([DescribeTopicPartitionsResponseTopic], default=())
    next_cursor: Cursor | None = field(Cursor, default=None, nullable_since=0)


API = Api(
    key=75,
    name="DescribeTopicPartitions",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=0,
    request=DescribeTopicPartitionsRequest,
    response=DescribeTopicPartitionsResponse,
)
