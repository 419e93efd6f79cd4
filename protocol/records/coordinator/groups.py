"""Coordinator records: groups.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import RecordType, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class LegacyOffsetCommitKey(Message):
    group: str = field("string", default="")
    topic: str = field("string", default="")
    partition: int = field("int32", default=0)


@message
class LegacyOffsetCommitValue(Message):
    offset: int = field("int64", default=0)
    metadata: str = field("string", default="")
    commit_timestamp: int = field("int64", default=0)


@message
class OffsetCommitKey(Message):
    group: str = field("string", default="")
    topic: str = field("string", default="")
    partition: int = field("int32", default=0)


@message
class OffsetCommitValue(Message):
    offset: int = field("int64", default=0)
    leader_epoch: int = field("int32", default=-1, since=3, ignorable=True)
    metadata: str = field("string", default="")
    commit_timestamp: int = field("int64", default=0)
    expire_timestamp: int = field("int64", default=-1, since=1, until=1, ignorable=True)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=4, tag=0, ignorable=True)


@message
class GroupMetadataKey(Message):
    group: str = field("string", default="")


@message
class MemberMetadata(Message):
    member_id: str = field("string", default="")
    group_instance_id: str | None = field("string", default=None, since=3, nullable_since=3, ignorable=True)
    client_id: str = field("string", default="")
    client_host: str = field("string", default="")
    rebalance_timeout: int = field("int32", default=-1, since=1, ignorable=True)
    session_timeout: int = field("int32", default=0)
    subscription: bytes = field("bytes", default=b"")
    assignment: bytes = field("bytes", default=b"")


@message
class GroupMetadataValue(Message):
    protocol_type: str = field("string", default="")
    generation: int = field("int32", default=0)
    protocol: str | None = field("string", default="", nullable_since=0)
    leader: str | None = field("string", default="", nullable_since=0)
    current_state_timestamp: int = field("int64", default=-1, since=2, ignorable=True)
    members: Sequence[MemberMetadata] = field([MemberMetadata], default=())


LEGACY_OFFSET_COMMIT_KEY = RecordType(
    id=0,
    name="LegacyOffsetCommitKey",
    versions=span(0, 0),
    flexible_since=None,
    message=LegacyOffsetCommitKey,
)

LEGACY_OFFSET_COMMIT_VALUE = RecordType(
    id=0,
    name="LegacyOffsetCommitValue",
    versions=span(0, 0),
    flexible_since=None,
    message=LegacyOffsetCommitValue,
)

OFFSET_COMMIT_KEY = RecordType(
    id=1,
    name="OffsetCommitKey",
    versions=span(0, 0),
    flexible_since=None,
    message=OffsetCommitKey,
)

OFFSET_COMMIT_VALUE = RecordType(
    id=1,
    name="OffsetCommitValue",
    versions=span(0, 4),
    flexible_since=4,
    message=OffsetCommitValue,
)

GROUP_METADATA_KEY = RecordType(
    id=2,
    name="GroupMetadataKey",
    versions=span(0, 0),
    flexible_since=None,
    message=GroupMetadataKey,
)

GROUP_METADATA_VALUE = RecordType(
    id=2,
    name="GroupMetadataValue",
    versions=span(0, 4),
    flexible_since=4,
    message=GroupMetadataValue,
)
