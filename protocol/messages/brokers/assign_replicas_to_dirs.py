"""AssignReplicasToDirs: API key 73, version 0, flexible from 0.

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
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


@message
class DirectoryData(Message):
    id: Uuid = field("uuid", default=ZERO_UUID)
    topics: Sequence[TopicData] = field([TopicData], default=())


@message
class AssignReplicasToDirsRequest(Message):
    broker_id: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=-1)
    directories: Sequence[DirectoryData] = field([DirectoryData], default=())


@message
class AssignReplicasToDirsResponsePartitionData(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)


@message
class AssignReplicasToDirsResponseTopicData(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[AssignReplicasToDirsResponsePartitionData] = field(
        [AssignReplicasToDirsResponsePartitionData], default=()
    )


@message
class AssignReplicasToDirsResponseDirectoryData(Message):
    id: Uuid = field("uuid", default=ZERO_UUID)
    topics: Sequence[AssignReplicasToDirsResponseTopicData] = field([AssignReplicasToDirsResponseTopicData], default=())


@message
class AssignReplicasToDirsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    directories: Sequence[AssignReplicasToDirsResponseDirectoryData] = field(
        [AssignReplicasToDirsResponseDirectoryData], default=()
    )


API = Api(
    key=73,
    name="AssignReplicasToDirs",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"controller"}),
    latest_stable=0,
    request=AssignReplicasToDirsRequest,
    response=AssignReplicasToDirsResponse,
)
