"""OffsetDelete: API key 47, version 0, never flexible.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class OffsetDeleteRequestPartition(Message):
    partition_index: int = field("int32", default=0)


@message
class OffsetDeleteRequestTopic(Message):
    name: str = field("string", default="")
    partitions: Sequence[OffsetDeleteRequestPartition] = field([OffsetDeleteRequestPartition], default=())


@message
class OffsetDeleteRequest(Message):
    group_id: str = field("string", default="")
    topics: Sequence[OffsetDeleteRequestTopic] = field([OffsetDeleteRequestTopic], default=())


@message
class OffsetDeleteResponsePartition(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)


@message
class OffsetDeleteResponseTopic(Message):
    name: str = field("string", default="")
    partitions: Sequence[OffsetDeleteResponsePartition] = field([OffsetDeleteResponsePartition], default=())


@message
class OffsetDeleteResponse(Message):
    error_code: int = field("int16", default=0)
    throttle_time_ms: int = field("int32", default=0, ignorable=True)
    topics: Sequence[OffsetDeleteResponseTopic] = field([OffsetDeleteResponseTopic], default=())


API = Api(
    key=47,
    name="OffsetDelete",
    versions=span(0, 0),
    flexible_since=None,
    listeners=frozenset({"broker"}),
    latest_stable=0,
    request=OffsetDeleteRequest,
    response=OffsetDeleteResponse,
)
