"""Versioned blobs that travel inside other messages.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import RecordType, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class ControlRecordTypeSchema(Message):
    type: int = field("int16", default=0)


@message
class EndTxnMarker(Message):
    coordinator_epoch: int = field("int32", default=0)


@message
class Voter(Message):
    voter_id: int = field("int32", default=0, until=0)


@message
class QuorumStateData(Message):
    cluster_id: str = field("string", default="", until=0)
    leader_id: int = field("int32", default=-1)
    leader_epoch: int = field("int32", default=-1)
    voted_id: int = field("int32", default=-1)
    voted_directory_id: Uuid = field("uuid", default=ZERO_UUID, since=1)
    applied_offset: int = field("int64", default=0, until=0)
    current_voters: Sequence[Voter] | None = field([Voter], default=(), until=0, nullable_since=0)


@message
class DefaultPrincipalData(Message):
    type: str = field("string", default="")
    name: str = field("string", default="")
    token_authenticated: bool = field("bool", default=False)


@message
class TopicPartition(Message):
    topic: str = field("string", default="", since=1)
    partitions: Sequence[int] = field(["int32"], default=(), since=1)


@message
class ConsumerProtocolSubscription(Message):
    topics: Sequence[str] = field(["string"], default=())
    user_data: bytes | None = field("bytes", default=None, nullable_since=0)
    owned_partitions: Sequence[TopicPartition] = field([TopicPartition], default=(), since=1, ignorable=True)
    generation_id: int = field("int32", default=-1, since=2, ignorable=True)
    rack_id: str | None = field("string", default=None, since=3, nullable_since=3, ignorable=True)


@message
class ConsumerProtocolAssignmentTopicPartition(Message):
    topic: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


@message
class ConsumerProtocolAssignment(Message):
    assigned_partitions: Sequence[ConsumerProtocolAssignmentTopicPartition] = field(
        [ConsumerProtocolAssignmentTopicPartition], default=()
    )
    user_data: bytes | None = field("bytes", default=None, nullable_since=0)


CONTROL_RECORD_TYPE_SCHEMA = RecordType(
    id=-1,
    name="ControlRecordTypeSchema",
    versions=span(0, 0),
    flexible_since=None,
    message=ControlRecordTypeSchema,
)

END_TXN_MARKER = RecordType(
    id=-1,
    name="EndTxnMarker",
    versions=span(0, 0),
    flexible_since=None,
    message=EndTxnMarker,
)

QUORUM_STATE_DATA = RecordType(
    id=-1,
    name="QuorumStateData",
    versions=span(0, 1),
    flexible_since=0,
    message=QuorumStateData,
)

DEFAULT_PRINCIPAL_DATA = RecordType(
    id=-1,
    name="DefaultPrincipalData",
    versions=span(0, 0),
    flexible_since=0,
    message=DefaultPrincipalData,
)

CONSUMER_PROTOCOL_SUBSCRIPTION = RecordType(
    id=-1,
    name="ConsumerProtocolSubscription",
    versions=span(0, 3),
    flexible_since=None,
    message=ConsumerProtocolSubscription,
)

CONSUMER_PROTOCOL_ASSIGNMENT = RecordType(
    id=-1,
    name="ConsumerProtocolAssignment",
    versions=span(0, 3),
    flexible_since=None,
    message=ConsumerProtocolAssignment,
)
