"""Produce: API key 0, versions 0 to 13, flexible from 9.

Apache Kafka 4.0 removed versions 0 to 2 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class PartitionProduceData(Message):
    index: int = field("int32", default=0)
    records: bytes | None = field("records", default=None, nullable_since=0)


@message
class TopicProduceData(Message):
    name: str = field("string", default="", until=12, ignorable=True)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=13, ignorable=True)
    partition_data: Sequence[PartitionProduceData] = field([PartitionProduceData], default=())


@message
class ProduceRequest(Message):
    transactional_id: str | None = field("string", default=None, since=3, nullable_since=3)
    acks: int = field("int16", default=0)
    timeout_ms: int = field("int32", default=0)
    topic_data: Sequence[TopicProduceData] = field([TopicProduceData], default=())


@message
class BatchIndexAndErrorMessage(Message):
    batch_index: int = field("int32", default=0, since=8)
    batch_index_error_message: str | None = field("string", default=None, since=8, nullable_since=8)


@message
class LeaderIdAndEpoch(Message):
    leader_id: int = field("int32", default=-1, since=10)
    leader_epoch: int = field("int32", default=-1, since=10)


@message
class PartitionProduceResponse(Message):
    index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    base_offset: int = field("int64", default=0)
    log_append_time_ms: int = field("int64", default=-1, since=2, ignorable=True)
    log_start_offset: int = field("int64", default=-1, since=5, ignorable=True)
    record_errors: Sequence[BatchIndexAndErrorMessage] = field(
        [BatchIndexAndErrorMessage], default=(), since=8, ignorable=True
    )
    error_message: str | None = field("string", default=None, since=8, nullable_since=8, ignorable=True)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, default=LeaderIdAndEpoch, since=10, tag=0)


@message
class TopicProduceResponse(Message):
    name: str = field("string", default="", until=12, ignorable=True)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=13, ignorable=True)
    partition_responses: Sequence[PartitionProduceResponse] = field([PartitionProduceResponse], default=())


@message
class NodeEndpoint(Message):
    node_id: int = field("int32", default=0, since=10)
    host: str = field("string", default="", since=10)
    port: int = field("int32", default=0, since=10)
    rack: str | None = field("string", default=None, since=10, nullable_since=10)


@message
class ProduceResponse(Message):
    responses: Sequence[TopicProduceResponse] = field([TopicProduceResponse], default=())
    throttle_time_ms: int = field("int32", default=0, since=1, ignorable=True)
    node_endpoints: Sequence[NodeEndpoint] = field([NodeEndpoint], default=(), since=10, tag=0)


API = Api(
    key=0,
    name="Produce",
    versions=span(0, 13),
    flexible_since=9,
    listeners=frozenset({"broker"}),
    latest_stable=13,
    removed_before=3,
    request=ProduceRequest,
    response=ProduceResponse,
)
