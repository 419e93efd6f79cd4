"""DescribeLogDirs: API key 35, versions 0 to 5, flexible from 2.

Apache Kafka 4.0 removed version 0 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class DescribableLogDirTopic(Message):
    topic: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


@message
class DescribeLogDirsRequest(Message):
    topics: Sequence[DescribableLogDirTopic] | None = field([DescribableLogDirTopic], default=(), nullable_since=0)


@message
class DescribeLogDirsPartition(Message):
    partition_index: int = field("int32", default=0)
    partition_size: int = field("int64", default=0)
    offset_lag: int = field("int64", default=0)
    is_future_key: bool = field("bool", default=False)


@message
class DescribeLogDirsTopic(Message):
    name: str = field("string", default="")
    partitions: Sequence[DescribeLogDirsPartition] = field([DescribeLogDirsPartition], default=())


@message
class DescribeLogDirsResult(Message):
    error_code: int = field("int16", default=0)
    log_dir: str = field("string", default="")
    topics: Sequence[DescribeLogDirsTopic] = field([DescribeLogDirsTopic], default=())
    total_bytes: int = field("int64", default=-1, since=4, ignorable=True)
    usable_bytes: int = field("int64", default=-1, since=4, ignorable=True)
    is_cordoned: bool = field("bool", default=False, since=5, ignorable=True)


@message
class DescribeLogDirsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0, since=3, ignorable=True)
    results: Sequence[DescribeLogDirsResult] = field([DescribeLogDirsResult], default=())


API = Api(
    key=35,
    name="DescribeLogDirs",
    versions=span(0, 5),
    flexible_since=2,
    listeners=frozenset({"broker"}),
    latest_stable=5,
    removed_before=1,
    request=DescribeLogDirsRequest,
    response=DescribeLogDirsResponse,
)
