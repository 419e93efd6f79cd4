"""Metadata records about partitions.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import RecordType, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class PartitionRecord(Message):
    partition_id: int = field("int32", default=-1)
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    replicas: Sequence[int] = field(["int32"], default=())
    isr: Sequence[int] = field(["int32"], default=())
    removing_replicas: Sequence[int] = field(["int32"], default=())
    adding_replicas: Sequence[int] = field(["int32"], default=())
    leader: int = field("int32", default=-1)
    leader_recovery_state: int = field("int8", default=0, tag=0)
    leader_epoch: int = field("int32", default=-1)
    partition_epoch: int = field("int32", default=-1)
    directories: Sequence[Uuid] = field(["uuid"], default=(), since=1)
    eligible_leader_replicas: Sequence[int] | None = field(["int32"], default=None, since=2, nullable_since=2, tag=1)
    last_known_elr: Sequence[int] | None = field(["int32"], default=None, since=2, nullable_since=2, tag=2)


@message
class PartitionChangeRecord(Message):
    partition_id: int = field("int32", default=-1)
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    isr: Sequence[int] | None = field(["int32"], default=None, nullable_since=0, tag=0)
    leader: int = field("int32", default=-2, tag=1)
    replicas: Sequence[int] | None = field(["int32"], default=None, nullable_since=0, tag=2)
    removing_replicas: Sequence[int] | None = field(["int32"], default=None, nullable_since=0, tag=3)
    adding_replicas: Sequence[int] | None = field(["int32"], default=None, nullable_since=0, tag=4)
    leader_recovery_state: int = field("int8", default=-1, tag=5)
    directories: Sequence[Uuid] | None = field(["uuid"], default=None, since=1, nullable_since=1, tag=8)
    eligible_leader_replicas: Sequence[int] | None = field(["int32"], default=None, since=2, nullable_since=2, tag=6)
    last_known_elr: Sequence[int] | None = field(["int32"], default=None, since=2, nullable_since=2, tag=7)


@message
class ClearElrRecord(Message):
    topic_name: str = field("string", default="")


PARTITION = RecordType(
    id=3,
    name="PartitionRecord",
    versions=span(0, 2),
    flexible_since=0,
    message=PartitionRecord,
)

PARTITION_CHANGE = RecordType(
    id=5,
    name="PartitionChangeRecord",
    versions=span(0, 2),
    flexible_since=0,
    message=PartitionChangeRecord,
)

CLEAR_ELR = RecordType(
    id=28,
    name="ClearElrRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=ClearElrRecord,
)
