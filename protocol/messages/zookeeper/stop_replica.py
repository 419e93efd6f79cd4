"""StopReplica: API key 5, versions 0 to 4, flexible from 2.

Apache Kafka 4.0 removed versions 0 to 4 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class StopReplicaPartitionV0(Message):
    topic_name: str = field("string", default="", until=0)
    partition_index: int = field("int32", default=0, until=0)


@message
class StopReplicaTopicV1(Message):
    name: str = field("string", default="", since=1, until=2)
    partition_indexes: Sequence[int] = field(["int32"], default=(), since=1, until=2)


@message
class StopReplicaPartitionState(Message):
    partition_index: int = field("int32", default=0, since=3)
    leader_epoch: int = field("int32", default=-1, since=3)
    delete_partition: bool = field("bool", default=False, since=3)


@message
class StopReplicaTopicState(Message):
    topic_name: str = field("string", default="", since=3)
    partition_states: Sequence[StopReplicaPartitionState] = field([StopReplicaPartitionState], default=(), since=3)


@message
class StopReplicaRequest(Message):
    controller_id: int = field("int32", default=0)
    is_kraft_controller: bool = field("bool", default=False, since=4, json_name="isKRaftController")
    controller_epoch: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=-1, since=1, ignorable=True)
    delete_partitions: bool = field("bool", default=False, until=2)
    ungrouped_partitions: Sequence[StopReplicaPartitionV0] = field([StopReplicaPartitionV0], default=(), until=0)
    topics: Sequence[StopReplicaTopicV1] = field([StopReplicaTopicV1], default=(), since=1, until=2)
    topic_states: Sequence[StopReplicaTopicState] = field([StopReplicaTopicState], default=(), since=3)


@message
class StopReplicaPartitionError(Message):
    topic_name: str = field("string", default="")
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)


@message
class StopReplicaResponse(Message):
    error_code: int = field("int16", default=0)
    partition_errors: Sequence[StopReplicaPartitionError] = field([StopReplicaPartitionError], default=())


API = Api(
    key=5,
    name="StopReplica",
    versions=span(0, 4),
    flexible_since=2,
    listeners=frozenset({"broker"}),
    latest_stable=4,
    removed_before=5,
    request=StopReplicaRequest,
    response=StopReplicaResponse,
)
