"""OffsetForLeaderEpoch: API key 23, versions 0 to 4, flexible from 4.

Apache Kafka 4.0 removed versions 0 to 1 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class OffsetForLeaderPartition(Message):
    partition: int = field("int32", default=0)
    current_leader_epoch: int = field("int32", default=-1, since=2, ignorable=True)
    leader_epoch: int = field("int32", default=0)


@message
class OffsetForLeaderTopic(Message):
    topic: str = field("string", default="")
    partitions: Sequence[OffsetForLeaderPartition] = field([OffsetForLeaderPartition], default=())


@message
class OffsetForLeaderEpochRequest(Message):
    replica_id: int = field("int32", default=-2, since=3, ignorable=True)
    topics: Sequence[OffsetForLeaderTopic] = field([OffsetForLeaderTopic], default=())


@message
class EpochEndOffset(Message):
    error_code: int = field("int16", default=0)
    partition: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=-1, since=1, ignorable=True)
    end_offset: int = field("int64", default=-1)


@message
class OffsetForLeaderTopicResult(Message):
    topic: str = field("string", default="")
    partitions: Sequence[EpochEndOffset] = field([EpochEndOffset], default=())


@message
class OffsetForLeaderEpochResponse(Message):
    throttle_time_ms: int = field("int32", default=0, since=2, ignorable=True)
    topics: Sequence[OffsetForLeaderTopicResult] = field([OffsetForLeaderTopicResult], default=())


API = Api(
    key=23,
    name="OffsetForLeaderEpoch",
    versions=span(0, 4),
    flexible_since=4,
    listeners=frozenset({"broker"}),
    latest_stable=4,
    removed_before=2,
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
)
