"""TxnOffsetCommit: API key 28, versions 0 to 5, flexible from 3.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class TxnOffsetCommitRequestPartition(Message):
    partition_index: int = field("int32", default=0)
    committed_offset: int = field("int64", default=0)
    committed_leader_epoch: int = field("int32", default=-1, since=2, ignorable=True)
    committed_metadata: str | None = field("string", default="", nullable_since=0)


@message
class TxnOffsetCommitRequestTopic(Message):
    name: str = field("string", default="")
    partitions: Sequence[TxnOffsetCommitRequestPartition] = field([TxnOffsetCommitRequestPartition], default=())


@message
class TxnOffsetCommitRequest(Message):
    transactional_id: str = field("string", default="")
    group_id: str = field("string", default="")
    producer_id: int = field("int64", default=0)
    producer_epoch: int = field("int16", default=0)
    generation_id: int = field("int32", default=-1, since=3)
    member_id: str = field("string", default="", since=3)
    group_instance_id: str | None = field("string", default=None, since=3, nullable_since=3)
    topics: Sequence[TxnOffsetCommitRequestTopic] = field([TxnOffsetCommitRequestTopic], default=())


@message
class TxnOffsetCommitResponsePartition(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)


@message
class TxnOffsetCommitResponseTopic(Message):
    name: str = field("string", default="")
    partitions: Sequence[TxnOffsetCommitResponsePartition] = field([TxnOffsetCommitResponsePartition], default=())


@message
class TxnOffsetCommitResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    topics: Sequence[TxnOffsetCommitResponseTopic] = field([TxnOffsetCommitResponseTopic], default=())


API = Api(
    key=28,
    name="TxnOffsetCommit",
    versions=span(0, 5),
    flexible_since=3,
    listeners=frozenset({"broker"}),
    latest_stable=5,
    request=TxnOffsetCommitRequest,
    response=TxnOffsetCommitResponse,
)
