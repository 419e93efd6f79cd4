"""OffsetFetch: API key 9, versions 0 to 10, flexible from 6.

Apache Kafka 4.0 removed version 0 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class OffsetFetchRequestTopic(Message):
    name: str = field("string", default="", until=7)
    partition_indexes: Sequence[int] = field(["int32"], default=(), until=7)


@message
class OffsetFetchRequestTopics(Message):
    name: str = field("string", default="", since=8, until=9, ignorable=True)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=10, ignorable=True)
    partition_indexes: Sequence[int] = field(["int32"], default=(), since=8)


@message
class OffsetFetchRequestGroup(Message):
    group_id: str = field("string", default="", since=8)
    member_id: str | None = field("string", default=None, since=9, nullable_since=9, ignorable=True)
    member_epoch: int = field("int32", default=-1, since=9, ignorable=True)
    topics: Sequence[OffsetFetchRequestTopics] | None = field(
        [OffsetFetchRequestTopics], default=(), since=8, nullable_since=8
    )


@message
class OffsetFetchRequest(Message):
    group_id: str = field("string", default="", until=7)
    topics: Sequence[OffsetFetchRequestTopic] | None = field(
        [OffsetFetchRequestTopic], default=(), until=7, nullable_since=2
    )
    groups: Sequence[OffsetFetchRequestGroup] = field([OffsetFetchRequestGroup], default=(), since=8)
    require_stable: bool = field("bool", default=False, since=7)


@message
class OffsetFetchResponsePartition(Message):
    partition_index: int = field("int32", default=0, until=7)
    committed_offset: int = field("int64", default=0, until=7)
    committed_leader_epoch: int = field("int32", default=-1, since=5, until=7, ignorable=True)
    metadata: str | None = field("string", default="", until=7, nullable_since=0)
    error_code: int = field("int16", default=0, until=7)


@message
class OffsetFetchResponseTopic(Message):
    name: str = field("string", default="", until=7)
    partitions: Sequence[OffsetFetchResponsePartition] = field([OffsetFetchResponsePartition], default=(), until=7)


@message
class OffsetFetchResponsePartitions(Message):
    partition_index: int = field("int32", default=0, since=8)
    committed_offset: int = field("int64", default=0, since=8)
    committed_leader_epoch: int = field("int32", default=-1, since=8, ignorable=True)
    metadata: str | None = field("string", default="", since=8, nullable_since=8)
    error_code: int = field("int16", default=0, since=8)


@message
class OffsetFetchResponseTopics(Message):
    name: str = field("string", default="", since=8, until=9, ignorable=True)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=10, ignorable=True)
    partitions: Sequence[OffsetFetchResponsePartitions] = field([OffsetFetchResponsePartitions], default=(), since=8)


@message
class OffsetFetchResponseGroup(Message):
    group_id: str = field("string", default="", since=8)
    topics: Sequence[OffsetFetchResponseTopics] = field([OffsetFetchResponseTopics], default=(), since=8)
    error_code: int = field("int16", default=0, since=8)


@message
class OffsetFetchResponse(Message):
    throttle_time_ms: int = field("int32", default=0, since=3, ignorable=True)
    topics: Sequence[OffsetFetchResponseTopic] = field([OffsetFetchResponseTopic], default=(), until=7)
    error_code: int = field("int16", default=0, since=2, until=7, ignorable=True)
    groups: Sequence[OffsetFetchResponseGroup] = field([OffsetFetchResponseGroup], default=(), since=8)


API = Api(
    key=9,
    name="OffsetFetch",
    versions=span(0, 10),
    flexible_since=6,
    listeners=frozenset({"broker"}),
    latest_stable=10,
    removed_before=1,
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
)
