"""AlterPartition: API key 56, versions 0 to 3, flexible from 0.

Apache Kafka 4.0 removed versions 0 to 1 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class BrokerState(Message):
    broker_id: int = field("int32", default=0, since=3)
    broker_epoch: int = field("int64", default=-1, since=3)


@message
class PartitionData(Message):
    partition_index: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)
    new_isr: Sequence[int] = field(["int32"], default=(), until=2)
    new_isr_with_epochs: Sequence[BrokerState] = field([BrokerState], default=(), since=3)
    leader_recovery_state: int = field("int8", default=0, since=1)
    partition_epoch: int = field("int32", default=0)


@message
class TopicData(Message):
    topic_name: str = field("string", default="", until=1, ignorable=True)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=2, ignorable=True)
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


@message
class AlterPartitionRequest(Message):
    broker_id: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=-1)
    topics: Sequence[TopicData] = field([TopicData], default=())


@message
class AlterPartitionResponsePartitionData(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)
    isr: Sequence[int] = field(["int32"], default=())
    leader_recovery_state: int = field("int8", default=0, since=1, ignorable=True)
    partition_epoch: int = field("int32", default=0)


@message
class AlterPartitionResponseTopicData(Message):
    topic_name: str = field("string", default="", until=1, ignorable=True)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=2, ignorable=True)
    partitions: Sequence[AlterPartitionResponsePartitionData] = field([AlterPartitionResponsePartitionData], default=())


@message
class AlterPartitionResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    topics: Sequence[AlterPartitionResponseTopicData] = field([AlterPartitionResponseTopicData], default=())


API = Api(
    key=56,
    name="AlterPartition",
    versions=span(0, 3),
    flexible_since=0,
    listeners=frozenset({"controller"}),
    latest_stable=3,
    removed_before=2,
    request=AlterPartitionRequest,
    response=AlterPartitionResponse,
)
