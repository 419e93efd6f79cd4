"""WriteShareGroupState: API key 85, versions 0 to 1, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class StateBatch(Message):
    first_offset: int = field("int64", default=0)
    last_offset: int = field("int64", default=0)
    delivery_state: int = field("int8", default=0)
    delivery_count: int = field("int16", default=0)


@message
class PartitionData(Message):
    partition: int = field("int32", default=0)
    state_epoch: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)
    start_offset: int = field("int64", default=0)
    delivery_complete_count: int = field("int32", default=-1, since=1, ignorable=True)
    state_batches: Sequence[StateBatch] = field([StateBatch], default=())


@message
class WriteStateData(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


@message
class WriteShareGroupStateRequest(Message):
    group_id: str = field("string", default="")
    topics: Sequence[WriteStateData] = field([WriteStateData], default=())


@message
class PartitionResult(Message):
    partition: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)


@message
class WriteStateResult(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[PartitionResult] = field([PartitionResult], default=())


@message
class WriteShareGroupStateResponse(Message):
    results: Sequence[WriteStateResult] = field([WriteStateResult], default=())


API = Api(
    key=85,
    name="WriteShareGroupState",
    versions=span(0, 1),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=1,
    request=WriteShareGroupStateRequest,
    response=WriteShareGroupStateResponse,
)
