"""Fetch: API key 1, versions 0 to 18, flexible from 12.

Apache Kafka 4.0 removed versions 0 to 3 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class ReplicaState(Message):
    replica_id: int = field("int32", default=-1, since=15)
    replica_epoch: int = field("int64", default=-1, since=15)


@message
class FetchPartition(Message):
    partition: int = field("int32", default=0)
    current_leader_epoch: int = field("int32", default=-1, since=9, ignorable=True)
    fetch_offset: int = field("int64", default=0)
    last_fetched_epoch: int = field("int32", default=-1, since=12)
    log_start_offset: int = field("int64", default=-1, since=5, ignorable=True)
    partition_max_bytes: int = field("int32", default=0)
    replica_directory_id: Uuid = field("uuid", default=ZERO_UUID, since=17, tag=0, ignorable=True)
    high_watermark: int = field("int64", default=9223372036854775807, since=18, tag=1, ignorable=True)


@message
class FetchTopic(Message):
    topic: str = field("string", default="", until=12, ignorable=True)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=13, ignorable=True)
    partitions: Sequence[FetchPartition] = field([FetchPartition], default=())


@message
class ForgottenTopic(Message):
    topic: str = field("string", default="", since=7, until=12, ignorable=True)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=13, ignorable=True)
    partitions: Sequence[int] = field(["int32"], default=(), since=7)


@message
class FetchRequest(Message):
    cluster_id: str | None = field("string", default=None, since=12, nullable_since=12, tag=0, ignorable=True)
    replica_id: int = field("int32", default=-1, until=14)
    replica_state: ReplicaState = field(ReplicaState, default=ReplicaState, since=15, tag=1)
    max_wait_ms: int = field("int32", default=0)
    min_bytes: int = field("int32", default=0)
    max_bytes: int = field("int32", default=2147483647, since=3, ignorable=True)
    isolation_level: int = field("int8", default=0, since=4, ignorable=True)
    session_id: int = field("int32", default=0, since=7, ignorable=True)
    session_epoch: int = field("int32", default=-1, since=7, ignorable=True)
    topics: Sequence[FetchTopic] = field([FetchTopic], default=())
    forgotten_topics_data: Sequence[ForgottenTopic] = field([ForgottenTopic], default=(), since=7)
    rack_id: str = field("string", default="", since=11, ignorable=True)


@message
class EpochEndOffset(Message):
    epoch: int = field("int32", default=-1, since=12)
    end_offset: int = field("int64", default=-1, since=12)


@message
class LeaderIdAndEpoch(Message):
    leader_id: int = field("int32", default=-1, since=12)
    leader_epoch: int = field("int32", default=-1, since=12)


@message
class SnapshotId(Message):
    end_offset: int = field("int64", default=-1, since=12)
    epoch: int = field("int32", default=-1, since=12)


@message
class AbortedTransaction(Message):
    producer_id: int = field("int64", default=0, since=4)
    first_offset: int = field("int64", default=0, since=4)


@message
class PartitionData(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    high_watermark: int = field("int64", default=0)
    last_stable_offset: int = field("int64", default=-1, since=4, ignorable=True)
    log_start_offset: int = field("int64", default=-1, since=5, ignorable=True)
    diverging_epoch: EpochEndOffset = field(EpochEndOffset, default=EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, default=LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId = field(SnapshotId, default=SnapshotId, since=12, tag=2)
    aborted_transactions: Sequence[AbortedTransaction] | None = field(
        [AbortedTransaction], default=(), since=4, nullable_since=4, ignorable=True
    )
    preferred_read_replica: int = field("int32", default=-1, since=11)
    records: bytes | None = field("records", default=None, nullable_since=0)


@message
class FetchableTopicResponse(Message):
    topic: str = field("string", default="", until=12, ignorable=True)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=13, ignorable=True)
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


@message
class NodeEndpoint(Message):
    node_id: int = field("int32", default=0, since=16)
    host: str = field("string", default="", since=16)
    port: int = field("int32", default=0, since=16)
    rack: str | None = field("string", default=None, since=16, nullable_since=16)


@message
class FetchResponse(Message):
    throttle_time_ms: int = field("int32", default=0, since=1, ignorable=True)
    error_code: int = field("int16", default=0, since=7, ignorable=True)
    session_id: int = field("int32", default=0, since=7)
    responses: Sequence[FetchableTopicResponse] = field([FetchableTopicResponse], default=())
    node_endpoints: Sequence[NodeEndpoint] = field([NodeEndpoint], default=(), since=16, tag=0)


API = Api(
    key=1,
    name="Fetch",
    versions=span(0, 18),
    flexible_since=12,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=18,
    removed_before=4,
    request=FetchRequest,
    response=FetchResponse,
)
