"""Coordinator records: share state.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import RecordType, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class ShareSnapshotKey(Message):
    group_id: str = field("string", default="")
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partition: int = field("int32", default=0)


@message
class StateBatch(Message):
    first_offset: int = field("int64", default=0)
    last_offset: int = field("int64", default=0)
    delivery_state: int = field("int8", default=0)
    delivery_count: int = field("int16", default=0)


@message
class ShareSnapshotValue(Message):
    snapshot_epoch: int = field("int32", default=0)
    state_epoch: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)
    start_offset: int = field("int64", default=0)
    delivery_complete_count: int = field("int32", default=-1, tag=0)
    create_timestamp: int = field("int64", default=0)
    write_timestamp: int = field("int64", default=0)
    state_batches: Sequence[StateBatch] = field([StateBatch], default=())


@message
class ShareUpdateKey(Message):
    group_id: str = field("string", default="")
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partition: int = field("int32", default=0)


@message
class ShareUpdateValue(Message):
    snapshot_epoch: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)
    start_offset: int = field("int64", default=0)
    delivery_complete_count: int = field("int32", default=-1, tag=0)
    state_batches: Sequence[StateBatch] = field([StateBatch], default=())


SHARE_SNAPSHOT_KEY = RecordType(
    id=0,
    name="ShareSnapshotKey",
    versions=span(0, 0),
    flexible_since=None,
    message=ShareSnapshotKey,
)

SHARE_SNAPSHOT_VALUE = RecordType(
    id=0,
    name="ShareSnapshotValue",
    versions=span(0, 0),
    flexible_since=0,
    message=ShareSnapshotValue,
)

SHARE_UPDATE_KEY = RecordType(
    id=1,
    name="ShareUpdateKey",
    versions=span(0, 0),
    flexible_since=None,
    message=ShareUpdateKey,
)

SHARE_UPDATE_VALUE = RecordType(
    id=1,
    name="ShareUpdateValue",
    versions=span(0, 0),
    flexible_since=0,
    message=ShareUpdateValue,
)
