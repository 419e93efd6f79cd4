"""ShareAcknowledge: API key 79, versions 1 to 2, flexible from 1.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class AcknowledgementBatch(Message):
    first_offset: int = field("int64", default=0)
    last_offset: int = field("int64", default=0)
    acknowledge_types: Sequence[int] = field(["int8"], default=())


@message
class AcknowledgePartition(Message):
    partition_index: int = field("int32", default=0)
    acknowledgement_batches: Sequence[AcknowledgementBatch] = field([AcknowledgementBatch], default=())


@message
class AcknowledgeTopic(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[AcknowledgePartition] = field([AcknowledgePartition], default=())


@message
class ShareAcknowledgeRequest(Message):
    group_id: str | None = field("string", default=None, nullable_since=1)
    member_id: str | None = field("string", default="", nullable_since=1)
    share_session_epoch: int = field("int32", default=0)
    is_renew_ack: bool = field("bool", default=False, since=2)
    topics: Sequence[AcknowledgeTopic] = field([AcknowledgeTopic], default=())


@message
class LeaderIdAndEpoch(Message):
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)


@message
class PartitionData(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=1)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, default=LeaderIdAndEpoch)


@message
class ShareAcknowledgeTopicResponse(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


@message
class NodeEndpoint(Message):
    node_id: int = field("int32", default=0)
    host: str = field("string", default="")
    port: int = field("int32", default=0)
    rack: str | None = field("string", default=None, nullable_since=1)


@message
class ShareAcknowledgeResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=1)
    acquisition_lock_timeout_ms: int = field("int32", default=0, since=2, ignorable=True)
    responses: Sequence[ShareAcknowledgeTopicResponse] = field([ShareAcknowledgeTopicResponse], default=())
    node_endpoints: Sequence[NodeEndpoint] = field([NodeEndpoint], default=())


API = Api(
    key=79,
    name="ShareAcknowledge",
    versions=span(1, 2),
    flexible_since=1,
    listeners=frozenset({"broker"}),
    latest_stable=2,
    request=ShareAcknowledgeRequest,
    response=ShareAcknowledgeResponse,
)
