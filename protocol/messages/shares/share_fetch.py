"""ShareFetch: API key 78, versions 1 to 2, flexible from 1.

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
class FetchPartition(Message):
    partition_index: int = field("int32", default=0)
    acknowledgement_batches: Sequence[AcknowledgementBatch] = field([AcknowledgementBatch], default=())


@message
class FetchTopic(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[FetchPartition] = field([FetchPartition], default=())


@message
class ForgottenTopic(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[int] = field(["int32"], default=())


@message
class ShareFetchRequest(Message):
    group_id: str | None = field("string", default=None, nullable_since=1)
    member_id: str | None = field("string", default="", nullable_since=1)
    share_session_epoch: int = field("int32", default=0)
    max_wait_ms: int = field("int32", default=0)
    min_bytes: int = field("int32", default=0)
    max_bytes: int = field("int32", default=2147483647)
    max_records: int = field("int32", default=0)
    batch_size: int = field("int32", default=0)
    share_acquire_mode: int = field("int8", default=0, since=2, ignorable=True)
    is_renew_ack: bool = field("bool", default=False, since=2)
    topics: Sequence[FetchTopic] = field([FetchTopic], default=())
    forgotten_topics_data: Sequence[ForgottenTopic] = field([ForgottenTopic], default=())


@message
class LeaderIdAndEpoch(Message):
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)


@message
class AcquiredRecords(Message):
    first_offset: int = field("int64", default=0)
    last_offset: int = field("int64", default=0)
    delivery_count: int = field("int16", default=0)


@message
class PartitionData(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=1)
    acknowledge_error_code: int = field("int16", default=0)
    acknowledge_error_message: str | None = field("string", default=None, nullable_since=1)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, default=LeaderIdAndEpoch)
    records: bytes = field("records", default=None)
    acquired_records: Sequence[AcquiredRecords] = field([AcquiredRecords], default=())


@message
class ShareFetchableTopicResponse(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


@message
class NodeEndpoint(Message):
    node_id: int = field("int32", default=0)
    host: str = field("string", default="")
    port: int = field("int32", default=0)
    rack: str | None = field("string", default=None, nullable_since=1)


@message
class ShareFetchResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=1)
    acquisition_lock_timeout_ms: int = field("int32", default=0)
    responses: Sequence[ShareFetchableTopicResponse] = field([ShareFetchableTopicResponse], default=())
    node_endpoints: Sequence[NodeEndpoint] = field([NodeEndpoint], default=())


API = Api(
    key=78,
    name="ShareFetch",
    versions=span(1, 2),
    flexible_since=1,
    listeners=frozenset({"broker"}),
    latest_stable=2,
    request=ShareFetchRequest,
    response=ShareFetchResponse,
)
