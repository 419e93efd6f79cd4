"""DeleteShareGroupState: API key 86, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class PartitionData(Message):
    partition: int = field("int32", default=0)


@message
class DeleteStateData(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


@message
class DeleteShareGroupStateRequest(Message):
    group_id: str = field("string", default="")
    topics: Sequence[DeleteStateData] = field([DeleteStateData], default=())


@message
class PartitionResult(Message):
    partition: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)


@message
class DeleteStateResult(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[PartitionResult] = field([PartitionResult], default=())


@message
class DeleteShareGroupStateResponse(Message):
    results: Sequence[DeleteStateResult] = field([DeleteStateResult], default=())


API = Api(
    key=86,
    name="DeleteShareGroupState",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=0,
    request=DeleteShareGroupStateRequest,
    response=DeleteShareGroupStateResponse,
)
