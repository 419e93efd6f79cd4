"""ReadShareGroupStateSummary: API key 87, versions 0 to 1, flexible from 0.

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
class ReadStateSummaryData(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


@message
class ReadShareGroupStateSummaryRequest(Message):
    group_id: str = field("string", default="")
    topics: Sequence[ReadStateSummaryData] = field([ReadStateSummaryData], default=())


@message
class PartitionResult(Message):
    partition: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)
    state_epoch: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)
    start_offset: int = field("int64", default=0)
    delivery_complete_count: int = field("int32", default=-1, since=1, ignorable=True)


@message
class ReadStateSummaryResult(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[PartitionResult] = field([PartitionResult], default=())


@message
class ReadShareGroupStateSummaryResponse(Message):
    results: Sequence[ReadStateSummaryResult] = field([ReadStateSummaryResult], default=())


API = Api(
    key=87,
    name="ReadShareGroupStateSummary",
    versions=span(0, 1),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=1,
    request=ReadShareGroupStateSummaryRequest,
    response=ReadShareGroupStateSummaryResponse,
)
