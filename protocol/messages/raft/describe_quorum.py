"""DescribeQuorum: API key 55, versions 0 to 2, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class PartitionData(Message):
    partition_index: int = field("int32", default=0)


@message
class TopicData(Message):
    topic_name: str = field("string", default="")
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


@message
class DescribeQuorumRequest(Message):
    topics: Sequence[TopicData] = field([TopicData], default=())


@message
class ReplicaState(Message):
    replica_id: int = field("int32", default=0)
    replica_directory_id: Uuid = field("uuid", default=ZERO_UUID, since=2)
    log_end_offset: int = field("int64", default=0)
    last_fetch_timestamp: int = field("int64", default=-1, since=1, ignorable=True)
    last_caught_up_timestamp: int = field("int64", default=-1, since=1, ignorable=True)


@message
class DescribeQuorumResponsePartitionData(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", since=2, nullable_since=2, ignorable=True)
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)
    high_watermark: int = field("int64", default=0)
    current_voters: Sequence[ReplicaState] = field([ReplicaState], default=())
    observers: Sequence[ReplicaState] = field([ReplicaState], default=())


@message
class DescribeQuorumResponseTopicData(Message):
    topic_name: str = field("string", default="")
    partitions: Sequence[DescribeQuorumResponsePartitionData] = field([DescribeQuorumResponsePartitionData], default=())


@message
class Listener(Message):
    name: str = field("string", default="", since=2)
    host: str = field("string", default="", since=2)
    port: int = field("uint16", default=0, since=2)


@message
class Node(Message):
    node_id: int = field("int32", default=0, since=2)
    listeners: Sequence[Listener] = field([Listener], default=(), since=2)


@message
class DescribeQuorumResponse(Message):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", since=2, nullable_since=2, ignorable=True)
    topics: Sequence[DescribeQuorumResponseTopicData] = field([DescribeQuorumResponseTopicData], default=())
    nodes: Sequence[Node] = field([Node], default=(), since=2)


API = Api(
    key=55,
    name="DescribeQuorum",
    versions=span(0, 2),
    flexible_since=0,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=2,
    request=DescribeQuorumRequest,
    response=DescribeQuorumResponse,
)
