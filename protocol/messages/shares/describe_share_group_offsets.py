"""DescribeShareGroupOffsets: API key 90, versions 0 to 1, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class DescribeShareGroupOffsetsRequestTopic(Message):
    topic_name: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


@message
class DescribeShareGroupOffsetsRequestGroup(Message):
    group_id: str = field("string", default="")
    topics: Sequence[DescribeShareGroupOffsetsRequestTopic] | None = field(
        [DescribeShareGroupOffsetsRequestTopic], default=(), nullable_since=0
    )


@message
class DescribeShareGroupOffsetsRequest(Message):
    groups: Sequence[DescribeShareGroupOffsetsRequestGroup] = field([DescribeShareGroupOffsetsRequestGroup], default=())


@message
class DescribeShareGroupOffsetsResponsePartition(Message):
    partition_index: int = field("int32", default=0)
    start_offset: int = field("int64", default=0)
    leader_epoch: int = field("int32", default=0)
    lag: int = field("int64", default=-1, since=1, ignorable=True)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)


@message
class DescribeShareGroupOffsetsResponseTopic(Message):
    topic_name: str = field("string", default="")
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[DescribeShareGroupOffsetsResponsePartition] = field(
        [DescribeShareGroupOffsetsResponsePartition], default=()
    )


@message
class DescribeShareGroupOffsetsResponseGroup(Message):
    group_id: str = field("string", default="")
    topics: Sequence[DescribeShareGroupOffsetsResponseTopic] = field(
        [DescribeShareGroupOffsetsResponseTopic], default=()
    )
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)


@message
class DescribeShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    groups: Sequence[DescribeShareGroupOffsetsResponseGroup] = field(
        [DescribeShareGroupOffsetsResponseGroup], default=()
    )


API = Api(
    key=90,
    name="DescribeShareGroupOffsets",
    versions=span(0, 1),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=1,
    request=DescribeShareGroupOffsetsRequest,
    response=DescribeShareGroupOffsetsResponse,
)
