"""AlterShareGroupOffsets: API key 91, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class AlterShareGroupOffsetsRequestPartition(Message):
    partition_index: int = field("int32", default=0)
    start_offset: int = field("int64", default=0)


@message
class AlterShareGroupOffsetsRequestTopic(Message):
    topic_name: str = field("string", default="")
    partitions: Sequence[AlterShareGroupOffsetsRequestPartition] = field(
        [AlterShareGroupOffsetsRequestPartition], default=()
    )


@message
class AlterShareGroupOffsetsRequest(Message):
    group_id: str = field("string", default="")
    topics: Sequence[AlterShareGroupOffsetsRequestTopic] = field([AlterShareGroupOffsetsRequestTopic], default=())


@message
class AlterShareGroupOffsetsResponsePartition(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)


@message
class AlterShareGroupOffsetsResponseTopic(Message):
    topic_name: str = field("string", default="")
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[AlterShareGroupOffsetsResponsePartition] = field(
        [AlterShareGroupOffsetsResponsePartition], default=()
    )


@message
class AlterShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)
    responses: Sequence[AlterShareGroupOffsetsResponseTopic] = field([AlterShareGroupOffsetsResponseTopic], default=())


API = Api(
    key=91,
    name="AlterShareGroupOffsets",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=0,
    request=AlterShareGroupOffsetsRequest,
    response=AlterShareGroupOffsetsResponse,
)
