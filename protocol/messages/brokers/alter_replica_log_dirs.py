"""AlterReplicaLogDirs: API key 34, versions 0 to 2, flexible from 2.

Apache Kafka 4.0 removed version 0 (KIP-896).

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
    versions=span(0, 2),
    flexible_since=2,
    listeners=frozenset({"broker"}),
    latest_stable=2,
    removed_before=1,
    request=AlterReplicaLogDirsRequest,
    response=AlterReplicaLogDirsResponse,
)
