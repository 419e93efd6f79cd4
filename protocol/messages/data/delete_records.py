"""DeleteRecords: API key 21, versions 0 to 2, flexible from 2.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class DeleteRecordsPartition(Message):
    partition_index: int = field("int32", default=0)
    offset: int = field("int64", default=0)


@message
class DeleteRecordsTopic(Message):
    name: str = field("string", default="")
    partitions: Sequence[DeleteRecordsPartition] = field([DeleteRecordsPartition], default=())


@message
class DeleteRecordsRequest(Message):
    topics: Sequence[DeleteRecordsTopic] = field([DeleteRecordsTopic], default=())
    timeout_ms: int = field("int32", default=0)


@message
class DeleteRecordsPartitionResult(Message):
    partition_index: int = field("int32", default=0)
    low_watermark: int = field("int64", default=0)
    error_code: int = field("int16", default=0)


@message
class DeleteRecordsTopicResult(Message):
    name: str = field("string", default="")
    partitions: Sequence[DeleteRecordsPartitionResult] = field([DeleteRecordsPartitionResult], default=())


@message
class DeleteRecordsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    topics: Sequence[DeleteRecordsTopicResult] = field([DeleteRecordsTopicResult], default=())


API = Api(
    key=21,
    name="DeleteRecords",
    versions=span(0, 2),
    flexible_since=2,
    listeners=frozenset({"broker"}),
    latest_stable=2,
    request=DeleteRecordsRequest,
    response=DeleteRecordsResponse,
)
