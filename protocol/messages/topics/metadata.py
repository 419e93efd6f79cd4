"""Metadata: API key 3, versions 0 to 13, flexible from 9.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class MetadataRequestTopic(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=10, ignorable=True)
    name: str | None = field("string", default="", nullable_since=10)


@message
class MetadataRequest(Message):
    topics: Sequence[MetadataRequestTopic] | None = field([MetadataRequestTopic], default=(), nullable_since=1)
    allow_auto_topic_creation: bool = field("bool", default=True, since=4)
    include_cluster_authorized_operations: bool = field("bool", default=False, since=8, until=10)
    include_topic_authorized_operations: bool = field("bool", default=False, since=8)


@message
class MetadataResponseBroker(Message):
    node_id: int = field("int32", default=0)
    host: str = field("string", default="")
    port: int = field("int32", default=0)
    rack: str | None = field("string", default=None, since=1, nullable_since=1, ignorable=True)


@message
class MetadataResponsePartition(Message):
    error_code: int = field("int16", default=0)
    partition_index: int = field("int32", default=0)
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=-1, since=7, ignorable=True)
    replica_nodes: Sequence[int] = field(["int32"], default=())
    isr_nodes: Sequence[int] = field(["int32"], default=())
    offline_replicas: Sequence[int] = field(["int32"], default=(), since=5, ignorable=True)


@message
class MetadataResponseTopic(Message):
    error_code: int = field("int16", default=0)
    name: str | None = field("string", default="", nullable_since=12)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=10, ignorable=True)
    is_internal: bool = field("bool", default=False, since=1, ignorable=True)
    partitions: Sequence[MetadataResponsePartition] = field([MetadataResponsePartition], default=())
    topic_authorized_operations: int = field("int32", default=-2147483648, since=8)


@message
class MetadataResponse(Message):
    throttle_time_ms: int = field("int32", default=0, since=3, ignorable=True)
    brokers: Sequence[MetadataResponseBroker] = field([MetadataResponseBroker], default=())
    cluster_id: str | None = field("string", default=None, since=2, nullable_since=2, ignorable=True)
    controller_id: int = field("int32", default=-1, since=1, ignorable=True)
    topics: Sequence[MetadataResponseTopic] = field([MetadataResponseTopic], default=())
    cluster_authorized_operations: int = field("int32", default=-2147483648, since=8, until=10)
    error_code: int = field("int16", default=0, since=13, ignorable=True)


API = Api(
    key=3,
    name="Metadata",
    versions=span(0, 13),
    flexible_since=9,
    listeners=frozenset({"broker"}),
    latest_stable=13,
    request=MetadataRequest,
    response=MetadataResponse,
)
