"""OffsetCommit: API key 8, versions 0 to 10, flexible from 8.

Apache Kafka 4.0 removed versions 0 to 1 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class OffsetCommitRequestPartition(Message):
    partition_index: int = field("int32", default=0)
    committed_offset: int = field("int64", default=0)
    committed_leader_epoch: int = field("int32", default=-1, since=6, ignorable=True)
    commit_timestamp: int = field("int64", default=-1, since=1, until=1)
    committed_metadata: str | None = field("string", default="", nullable_since=0)


@message
class OffsetCommitRequestTopic(Message):
    name: str = field("string", default="", until=9, ignorable=True)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=10, ignorable=True)
    partitions: Sequence[OffsetCommitRequestPartition] = field([OffsetCommitRequestPartition], default=())


@message
class OffsetCommitRequest(Message):
    group_id: str = field("string", default="")
    generation_id_or_member_epoch: int = field("int32", default=-1, since=1, ignorable=True)
    member_id: str = field("string", default="", since=1, ignorable=True)
    group_instance_id: str | None = field("string", default=None, since=7, nullable_since=7)
    retention_time_ms: int = field("int64", default=-1, since=2, until=4, ignorable=True)
    topics: Sequence[OffsetCommitRequestTopic] = field([OffsetCommitRequestTopic], default=())


@message
class OffsetCommitResponsePartition(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)


@message
class OffsetCommitResponseTopic(Message):
    name: str = field("string", default="", until=9, ignorable=True)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=10, ignorable=True)
    partitions: Sequence[OffsetCommitResponsePartition] = field([OffsetCommitResponsePartition], default=())


@message
class OffsetCommitResponse(Message):
    throttle_time_ms: int = field("int32", default=0, since=3, ignorable=True)
    topics: Sequence[OffsetCommitResponseTopic] = field([OffsetCommitResponseTopic], default=())


API = Api(
    key=8,
    name="OffsetCommit",
    versions=span(0, 10),
    flexible_since=8,
    listeners=frozenset({"broker"}),
    latest_stable=10,
    removed_before=2,
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
)
