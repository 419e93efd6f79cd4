"""InitializeShareGroupState: API key 83, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class PartitionData(Message):
    partition: int = field("int32", default=0)
    state_epoch: int = field("int32", default=0)
    start_offset: int = field("int64", default=0)


@message
class InitializeStateData(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


@message
class InitializeShareGroupStateRequest(Message):
    group_id: str = field("string", default="")
    topics: Sequence[InitializeStateData] = field([InitializeStateData], default=())


@message
class PartitionResult(Message):
    partition: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)


@message
class InitializeStateResult(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[PartitionResult] = field([PartitionResult], default=())


@message
class InitializeShareGroupStateResponse(Message):
    results: Sequence[InitializeStateResult] = field([InitializeStateResult], default=())


API = Api(
    key=83,
    name="InitializeShareGroupState",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=0,
    request=InitializeShareGroupStateRequest,
    response=InitializeShareGroupStateResponse,
)
