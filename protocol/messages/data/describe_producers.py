"""DescribeProducers: API key 61, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class TopicRequest(Message):
    name: str = field("string", default="")
    partition_indexes: Sequence[int] = field(["int32"], default=())


@message
class DescribeProducersRequest(Message):
    topics: Sequence[TopicRequest] = field([TopicRequest], default=())


@message
class ProducerState(Message):
    producer_id: int = field("int64", default=0)
    producer_epoch: int = field("int32", default=0)
    last_sequence: int = field("int32", default=-1)
    last_timestamp: int = field("int64", default=-1)
    coordinator_epoch: int = field("int32", default=0)
    current_txn_start_offset: int = field("int64", default=-1)


@message
class PartitionResponse(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)
    active_producers: Sequence[ProducerState] = field([ProducerState], default=())


@message
class TopicResponse(Message):
    name: str = field("string", default="")
    partitions: Sequence[PartitionResponse] = field([PartitionResponse], default=())


@message
class DescribeProducersResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    topics: Sequence[TopicResponse] = field([TopicResponse], default=())


API = Api(
    key=61,
    name="DescribeProducers",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=0,
    request=DescribeProducersRequest,
    response=DescribeProducersResponse,
)
