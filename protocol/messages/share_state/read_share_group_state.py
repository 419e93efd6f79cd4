"""ReadShareGroupState: API key 84, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class PartitionData(Message):
    partition: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)


@message
class ReadStateData(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


@message
class ReadShareGroupStateRequest(Message):
    group_id: str = field("string", default="")
    topics: Sequence[ReadStateData] = field([ReadStateData], default=())


@message
class StateBatch(Message):
    first_offset: int = field("int64", default=0)
    last_offset: int = field("int64", default=0)
    delivery_state: int = field("int8", default=0)
    delivery_count: int = field("int16", default=0)


@message
class PartitionResult(Message):
    partition: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)
    state_epoch: int = field("int32", default=0)
    start_offset: int = field("int64", default=0)
    state_batches: Sequence[StateBatch] = field([StateBatch], default=())


@message
class ReadStateResult(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[PartitionResult] = field([PartitionResult], default=())


@message
class ReadShareGroupStateResponse(Message):
    results: Sequence[ReadStateResult] = field([ReadStateResult], default=())


API = Api(
    key=84,
    name="ReadShareGroupState",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=0,
    request=ReadShareGroupStateRequest,
    response=ReadShareGroupStateResponse,
)
