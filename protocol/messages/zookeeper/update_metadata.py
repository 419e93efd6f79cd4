"""UpdateMetadata: API key 6, versions 0 to 8, flexible from 6.

Apache Kafka 4.0 removed versions 0 to 8 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class UpdateMetadataPartitionState(Message):
    topic_name: str = field("string", default="", until=4, ignorable=True)
    partition_index: int = field("int32", default=0, until=4)
    controller_epoch: int = field("int32", default=0, until=4)
    leader: int = field("int32", default=0, until=4)
    leader_epoch: int = field("int32", default=0, until=4)
    isr: Sequence[int] = field(["int32"], default=(), until=4)
    zk_version: int = field("int32", default=0, until=4)
    replicas: Sequence[int] = field(["int32"], default=(), until=4)
    offline_replicas: Sequence[int] = field(["int32"], default=(), since=4, until=4, ignorable=True)


@message
class UpdateMetadataRequestUpdateMetadataPartitionState(Message):
    partition_index: int = field("int32", default=0, since=5)
    controller_epoch: int = field("int32", default=0, since=5)
    leader: int = field("int32", default=0, since=5)
    leader_epoch: int = field("int32", default=0, since=5)
    isr: Sequence[int] = field(["int32"], default=(), since=5)
    zk_version: int = field("int32", default=0, since=5)
    replicas: Sequence[int] = field(["int32"], default=(), since=5)
    offline_replicas: Sequence[int] = field(["int32"], default=(), since=5, ignorable=True)


@message
class UpdateMetadataTopicState(Message):
    topic_name: str = field("string", default="", since=5)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=7, ignorable=True)
    partition_states: Sequence[UpdateMetadataRequestUpdateMetadataPartitionState] = field(
        [UpdateMetadataRequestUpdateMetadataPartitionState], default=(), since=5
    )


@message
class UpdateMetadataEndpoint(Message):
    port: int = field("int32", default=0, since=1)
    host: str = field("string", default="", since=1)
    listener: str = field("string", default="", since=3, ignorable=True)
    security_protocol: int = field("int16", default=0, since=1)


@message
class UpdateMetadataBroker(Message):
    id: int = field("int32", default=0)
    v0_host: str = field("string", default="", until=0, ignorable=True)
    v0_port: int = field("int32", default=0, until=0, ignorable=True)
    endpoints: Sequence[UpdateMetadataEndpoint] = field([UpdateMetadataEndpoint], default=(), since=1, ignorable=True)
    rack: str | None = field("string", default="", since=2, nullable_since=2, ignorable=True)


@message
class UpdateMetadataRequest(Message):
    controller_id: int = field("int32", default=0)
    is_kraft_controller: bool = field("bool", default=False, since=8, json_name="isKRaftController")
    type: int = field("int8", default=0, since=8, tag=0)
    controller_epoch: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=-1, since=5, ignorable=True)
    ungrouped_partition_states: Sequence[UpdateMetadataPartitionState] = field(
        [UpdateMetadataPartitionState], default=(), until=4
    )
    topic_states: Sequence[UpdateMetadataTopicState] = field([UpdateMetadataTopicState], default=(), since=5)
    live_brokers: Sequence[UpdateMetadataBroker] = field([UpdateMetadataBroker], default=())


@message
class UpdateMetadataResponse(Message):
    error_code: int = field("int16", default=0)


API = Api(
    key=6,
    name="UpdateMetadata",
    versions=span(0, 8),
    flexible_since=6,
    listeners=frozenset({"broker"}),
    latest_stable=8,
    removed_before=9,
    request=UpdateMetadataRequest,
    response=UpdateMetadataResponse,
)
