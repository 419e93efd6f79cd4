"""BeginQuorumEpoch: API key 53, versions 0 to 1, flexible from 1.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class PartitionData(Message):
    partition_index: int = field("int32", default=0)
    voter_directory_id: Uuid = field("uuid", default=ZERO_UUID, since=1, ignorable=True)
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)


@message
class TopicData(Message):
    topic_name: str = field("string", default="")
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


@message
class LeaderEndpoint(Message):
    name: str = field("string", default="", since=1)
    host: str = field("string", default="", since=1)
    port: int = field("uint16", default=0, since=1)


@message
class BeginQuorumEpochRequest(Message):
    cluster_id: str | None = field("string", default=None, nullable_since=0)
    voter_id: int = field("int32", default=-1, since=1, ignorable=True)
    topics: Sequence[TopicData] = field([TopicData], default=())
    leader_endpoints: Sequence[LeaderEndpoint] = field([LeaderEndpoint], default=(), since=1, ignorable=True)


@message
class BeginQuorumEpochResponsePartitionData(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)


@message
class BeginQuorumEpochResponseTopicData(Message):
    topic_name: str = field("string", default="")
    partitions: Sequence[BeginQuorumEpochResponsePartitionData] = field(
        [BeginQuorumEpochResponsePartitionData], default=()
    )


@message
class NodeEndpoint(Message):
    node_id: int = field("int32", default=0, since=1)
    host: str = field("string", default="", since=1)
    port: int = field("uint16", default=0, since=1)


@message
class BeginQuorumEpochResponse(Message):
    error_code: int = field("int16", default=0)
    topics: Sequence[BeginQuorumEpochResponseTopicData] = field([BeginQuorumEpochResponseTopicData], default=())
    node_endpoints: Sequence[NodeEndpoint] = field([NodeEndpoint], default=(), since=1, tag=0)


API = Api(
    key=53,
    name="BeginQuorumEpoch",
    versions=span(0, 1),
    flexible_since=1,
    listeners=frozenset({"controller"}),
    latest_stable=1,
    request=BeginQuorumEpochRequest,
    response=BeginQuorumEpochResponse,
)
