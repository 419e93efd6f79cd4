"""AlterReplicaLogDirs: API key 34, versions 1 to 2, flexible from 2.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class AlterReplicaLogDirTopic(Message):
    name: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


@message
class AlterReplicaLogDir(Message):
    path: str = field("string", default="")
    topics: Sequence[AlterReplicaLogDirTopic] = field([AlterReplicaLogDirTopic], default=())


@message
class AlterReplicaLogDirsRequest(Message):
    dirs: Sequence[AlterReplicaLogDir] = field([AlterReplicaLogDir], default=())


@message
class AlterReplicaLogDirPartitionResult(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)


@message
class AlterReplicaLogDirTopicResult(Message):
    topic_name: str = field("string", default="")
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = field([AlterReplicaLogDirPartitionResult], default=())


@message
class AlterReplicaLogDirsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    results: Sequence[AlterReplicaLogDirTopicResult] = field([AlterReplicaLogDirTopicResult], default=())


API = Api(
    key=34,
    name="AlterReplicaLogDirs",
    versions=span(1, 2),
    flexible_since=2,
    listeners=frozenset({"broker"}),
    latest_stable=2,
    request=AlterReplicaLogDirsRequest,
    response=AlterReplicaLogDirsResponse,
)
