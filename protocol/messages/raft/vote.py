"""Vote: API key 52, versions 0 to 2, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class PartitionData(Message):
    partition_index: int = field("int32", default=0)
    replica_epoch: int = field("int32", default=0)
    replica_id: int = field("int32", default=0)
    replica_directory_id: Uuid = field("uuid", default=ZERO_UUID, since=1, ignorable=True)
    voter_directory_id: Uuid = field("uuid", default=ZERO_UUID, since=1, ignorable=True)
    last_offset_epoch: int = field("int32", default=0)
    last_offset: int = field("int64", default=0)
    pre_vote: bool = field("bool", default=False, since=2)


@message
class TopicData(Message):
    topic_name: str = field("string", default="")
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


@message
class VoteRequest(Message):
    cluster_id: str | None = field("string", default=None, nullable_since=0)
    voter_id: int = field("int32", default=-1, since=1, ignorable=True)
    topics: Sequence[TopicData] = field([TopicData], default=())


@message
class VoteResponsePartitionData(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)
    vote_granted: bool = field("bool", default=False)


@message
class VoteResponseTopicData(Message):
    topic_name: str = field("string", default="")
    partitions: Sequence[VoteResponsePartitionData] = field([VoteResponsePartitionData], default=())


@message
class NodeEndpoint(Message):
    node_id: int = field("int32", default=0, since=1)
    host: str = field("string", default="", since=1)
    port: int = field("uint16", default=0, since=1)


@message
class VoteResponse(Message):
    error_code: int = field("int16", default=0)
    topics: Sequence[VoteResponseTopicData] = field([VoteResponseTopicData], default=())
    node_endpoints: Sequence[NodeEndpoint] = field([NodeEndpoint], default=(), since=1, tag=0)


API = Api(
    key=52,
    name="Vote",
    versions=span(0, 2),
    flexible_since=0,
    listeners=frozenset({"controller"}),
    latest_stable=2,
    request=VoteRequest,
    response=VoteResponse,
)
