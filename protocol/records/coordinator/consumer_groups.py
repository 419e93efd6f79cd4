"""Coordinator records: consumer groups.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import RecordType, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class ConsumerGroupMetadataKey(Message):
    group_id: str = field("string", default="")


@message
class ConsumerGroupMetadataValue(Message):
    epoch: int = field("int32", default=0)
    metadata_hash: int = field("int64", default=0, tag=0)


@message
class ConsumerGroupPartitionMetadataKey(Message):
    group_id: str = field("string", default="")


@message
class PartitionMetadata(Message):
    partition: int = field("int32", default=0)
    racks: Sequence[str] = field(["string"], default=())


@message
class TopicMetadata(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    topic_name: str = field("string", default="")
    num_partitions: int = field("int32", default=0)
    partition_metadata: Sequence[PartitionMetadata] = field([PartitionMetadata], default=())


@message
class ConsumerGroupPartitionMetadataValue(Message):
    topics: Sequence[TopicMetadata] = field([TopicMetadata], default=())


@message
class ConsumerGroupMemberMetadataKey(Message):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="")


@message
class ClassicProtocol(Message):
    name: str = field("string", default="")
    metadata: bytes = field("bytes", default=b"")


@message
class ClassicMemberMetadata(Message):
    session_timeout_ms: int = field("int32", default=0)
    supported_protocols: Sequence[ClassicProtocol] = field([ClassicProtocol], default=())


@message
class ConsumerGroupMemberMetadataValue(Message):
    instance_id: str | None = field("string", default="", nullable_since=0)
    rack_id: str | None = field("string", default="", nullable_since=0)
    client_id: str = field("string", default="")
    client_host: str = field("string", default="")
    subscribed_topic_names: Sequence[str] = field(["string"], default=())
    subscribed_topic_regex: str | None = field("string", default="", nullable_since=0)
    rebalance_timeout_ms: int = field("int32", default=-1)
    server_assignor: str | None = field("string", default="", nullable_since=0)
    classic_member_metadata: ClassicMemberMetadata | None = field(
        ClassicMemberMetadata, default=ClassicMemberMetadata, nullable_since=0, tag=0
    )


@message
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    group_id: str = field("string", default="")


@message
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = field("int32", default=0)
    assignment_timestamp: int = field("int64", default=0, tag=0, ignorable=True)


@message
class ConsumerGroupTargetAssignmentMemberKey(Message):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="")


@message
class TopicPartition(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[int] = field(["int32"], default=())


@message
class ConsumerGroupTargetAssignmentMemberValue(Message):
    topic_partitions: Sequence[TopicPartition] = field([TopicPartition], default=())


@message
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="")


@message
class TopicPartitions(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[int] = field(["int32"], default=())
    assignment_epochs: Sequence[int] | None = field(["int32"], default=(), nullable_since=0, tag=0)


@message
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = field("int32", default=0)
    previous_member_epoch: int = field("int32", default=0)
    state: int = field("int8", default=0)
    assigned_partitions: Sequence[TopicPartitions] = field([TopicPartitions], default=())
    partitions_pending_revocation: Sequence[TopicPartitions] = field([TopicPartitions], default=())


@message
class ConsumerGroupRegularExpressionKey(Message):
    group_id: str = field("string", default="")
    regular_expression: str = field("string", default="")


@message
class ConsumerGroupRegularExpressionValue(Message):
    topics: Sequence[str] = field(["string"], default=())
    version: int = field("int64", default=0)
    timestamp: int = field("int64", default=0)


CONSUMER_GROUP_METADATA_KEY = RecordType(
    id=3,
    name="ConsumerGroupMetadataKey",
    versions=span(0, 0),
    flexible_since=None,
    message=ConsumerGroupMetadataKey,
)

CONSUMER_GROUP_METADATA_VALUE = RecordType(
    id=3,
    name="ConsumerGroupMetadataValue",
    versions=span(0, 0),
    flexible_since=0,
    message=ConsumerGroupMetadataValue,
)

CONSUMER_GROUP_PARTITION_METADATA_KEY = RecordType(
    id=4,
    name="ConsumerGroupPartitionMetadataKey",
    versions=span(0, 0),
    flexible_since=None,
    message=ConsumerGroupPartitionMetadataKey,
)

CONSUMER_GROUP_PARTITION_METADATA_VALUE = RecordType(
    id=4,
    name="ConsumerGroupPartitionMetadataValue",
    versions=span(0, 0),
    flexible_since=0,
    message=ConsumerGroupPartitionMetadataValue,
)

CONSUMER_GROUP_MEMBER_METADATA_KEY = RecordType(
    id=5,
    name="ConsumerGroupMemberMetadataKey",
    versions=span(0, 0),
    flexible_since=None,
    message=ConsumerGroupMemberMetadataKey,
)

CONSUMER_GROUP_MEMBER_METADATA_VALUE = RecordType(
    id=5,
    name="ConsumerGroupMemberMetadataValue",
    versions=span(0, 0),
    flexible_since=0,
    message=ConsumerGroupMemberMetadataValue,
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = RecordType(
    id=6,
    name="ConsumerGroupTargetAssignmentMetadataKey",
    versions=span(0, 0),
    flexible_since=None,
    message=ConsumerGroupTargetAssignmentMetadataKey,
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = RecordType(
    id=6,
    name="ConsumerGroupTargetAssignmentMetadataValue",
    versions=span(0, 0),
    flexible_since=0,
    message=ConsumerGroupTargetAssignmentMetadataValue,
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = RecordType(
    id=7,
    name="ConsumerGroupTargetAssignmentMemberKey",
    versions=span(0, 0),
    flexible_since=None,
    message=ConsumerGroupTargetAssignmentMemberKey,
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = RecordType(
    id=7,
    name="ConsumerGroupTargetAssignmentMemberValue",
    versions=span(0, 0),
    flexible_since=0,
    message=ConsumerGroupTargetAssignmentMemberValue,
)

CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = RecordType(
    id=8,
    name="ConsumerGroupCurrentMemberAssignmentKey",
    versions=span(0, 0),
    flexible_since=None,
    message=ConsumerGroupCurrentMemberAssignmentKey,
)

CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = RecordType(
    id=8,
    name="ConsumerGroupCurrentMemberAssignmentValue",
    versions=span(0, 0),
    flexible_since=0,
    message=ConsumerGroupCurrentMemberAssignmentValue,
)

CONSUMER_GROUP_REGULAR_EXPRESSION_KEY = RecordType(
    id=16,
    name="ConsumerGroupRegularExpressionKey",
    versions=span(0, 0),
    flexible_since=None,
    message=ConsumerGroupRegularExpressionKey,
)

CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE = RecordType(
    id=16,
    name="ConsumerGroupRegularExpressionValue",
    versions=span(0, 0),
    flexible_since=0,
    message=ConsumerGroupRegularExpressionValue,
)
