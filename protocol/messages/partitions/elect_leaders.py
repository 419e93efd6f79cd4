"""ElectLeaders: API key 43, versions 0 to 2, flexible from 2.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class TopicPartitions(Message):
    topic: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


@message
class ElectLeadersRequest(Message):
    election_type: int = field("int8", default=0, since=1)
    topic_partitions: Sequence[TopicPartitions] | None = field([TopicPartitions], default=(), nullable_since=0)
    timeout_ms: int = field("int32", default=60000)


@message
class PartitionResult(Message):
    partition_id: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)


@message
class ReplicaElectionResult(Message):
    topic: str = field("string", default="")
    partition_result: Sequence[PartitionResult] = field([PartitionResult], default=())


@message
class ElectLeadersResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0, since=1)
    replica_election_results: Sequence[ReplicaElectionResult] = field([ReplicaElectionResult], default=())


API = Api(
    key=43,
    name="ElectLeaders",
    versions=span(0, 2),
    flexible_since=2,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=2,
    request=ElectLeadersRequest,
    response=ElectLeadersResponse,
)
