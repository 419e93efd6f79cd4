"""Coordinator records: share groups.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import RecordType, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class ShareGroupMemberMetadataKey(Message):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="")


@message
class ShareGroupMemberMetadataValue(Message):
    rack_id: str | None = field("string", default="", nullable_since=0)
    client_id: str = field("string", default="")
    client_host: str = field("string", default="")
    subscribed_topic_names: Sequence[str] = field(["string"], default=())


@message
class ShareGroupMetadataKey(Message):
    group_id: str = field("string", default="")


@message
class ShareGroupMetadataValue(Message):
    epoch: int = field("int32", default=0)
    metadata_hash: int = field("int64", default=0)


@message
class ShareGroupTargetAssignmentMetadataKey(Message):
    group_id: str = field("string", default="")


@message
class ShareGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = field("int32", default=0)
    assignment_timestamp: int = field("int64", default=0, tag=0, ignorable=True)


@message
class ShareGroupTargetAssignmentMemberKey(Message):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="")


@message
class TopicPartition(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[int] = field(["int32"], default=())


@message
class ShareGroupTargetAssignmentMemberValue(Message):
    topic_partitions: Sequence[TopicPartition] = field([TopicPartition], default=())


@message
class ShareGroupCurrentMemberAssignmentKey(Message):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="")


@message
class TopicPartitions(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[int] = field(["int32"], default=())


@message
class ShareGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = field("int32", default=0)
    previous_member_epoch: int = field("int32", default=0)
    state: int = field("int8", default=0)
    assigned_partitions: Sequence[TopicPartitions] = field([TopicPartitions], default=())


@message
class ShareGroupStatePartitionMetadataKey(Message):
    group_id: str = field("string", default="")


@message
class TopicPartitionsInfo(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    topic_name: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


@message
class TopicInfo(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    topic_name: str = field("string", default="")


@message
class ShareGroupStatePartitionMetadataValue(Message):
    initializing_topics: Sequence[TopicPartitionsInfo] = field([TopicPartitionsInfo], default=())
    initialized_topics: Sequence[TopicPartitionsInfo] = field([TopicPartitionsInfo], default=())
    deleting_topics: Sequence[TopicInfo] = field([TopicInfo], default=())


SHARE_GROUP_MEMBER_METADATA_KEY = RecordType(
    id=10,
    name="ShareGroupMemberMetadataKey",
    versions=span(0, 0),
    flexible_since=None,
    message=ShareGroupMemberMetadataKey,
)

SHARE_GROUP_MEMBER_METADATA_VALUE = RecordType(
    id=10,
    name="ShareGroupMemberMetadataValue",
    versions=span(0, 0),
    flexible_since=0,
    message=ShareGroupMemberMetadataValue,
)

SHARE_GROUP_METADATA_KEY = RecordType(
    id=11,
    name="ShareGroupMetadataKey",
    versions=span(0, 0),
    flexible_since=None,
    message=ShareGroupMetadataKey,
)

SHARE_GROUP_METADATA_VALUE = RecordType(
    id=11,
    name="ShareGroupMetadataValue",
    versions=span(0, 0),
    flexible_since=0,
    message=ShareGroupMetadataValue,
)

SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = RecordType(
    id=12,
    name="ShareGroupTargetAssignmentMetadataKey",
    versions=span(0, 0),
    flexible_since=None,
    message=ShareGroupTargetAssignmentMetadataKey,
)

SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = RecordType(
    id=12,
    name="ShareGroupTargetAssignmentMetadataValue",
    versions=span(0, 0),
    flexible_since=0,
    message=ShareGroupTargetAssignmentMetadataValue,
)

SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = RecordType(
    id=13,
    name="ShareGroupTargetAssignmentMemberKey",
    versions=span(0, 0),
    flexible_since=None,
    message=ShareGroupTargetAssignmentMemberKey,
)

SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = RecordType(
    id=13,
    name="ShareGroupTargetAssignmentMemberValue",
    versions=span(0, 0),
    flexible_since=0,
    message=ShareGroupTargetAssignmentMemberValue,
)

SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = RecordType(
    id=14,
    name="ShareGroupCurrentMemberAssignmentKey",
    versions=span(0, 0),
    flexible_since=None,
    message=ShareGroupCurrentMemberAssignmentKey,
)

SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = RecordType(
    id=14,
    name="ShareGroupCurrentMemberAssignmentValue",
    versions=span(0, 0),
    flexible_since=0,
    message=ShareGroupCurrentMemberAssignmentValue,
)

SHARE_GROUP_STATE_PARTITION_METADATA_KEY = RecordType(
    id=15,
    name="ShareGroupStatePartitionMetadataKey",
    versions=span(0, 0),
    flexible_since=None,
    message=ShareGroupStatePartitionMetadataKey,
)

SHARE_GROUP_STATE_PARTITION_METADATA_VALUE = RecordType(
    id=15,
    name="ShareGroupStatePartitionMetadataValue",
    versions=span(0, 0),
    flexible_since=0,
    message=ShareGroupStatePartitionMetadataValue,
)
