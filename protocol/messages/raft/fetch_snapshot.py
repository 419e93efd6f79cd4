"""FetchSnapshot: API key 59, versions 0 to 1, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class SnapshotId(Message):
    end_offset: int = field("int64", default=0)
    epoch: int = field("int32", default=0)


@message
class PartitionSnapshot(Message):
    partition: int = field("int32", default=0)
    current_leader_epoch: int = field("int32", default=0)
    snapshot_id: SnapshotId = field(SnapshotId, default=SnapshotId)
    position: int = field("int64", default=0)
    replica_directory_id: Uuid = field("uuid", default=ZERO_UUID, since=1, tag=0, ignorable=True)


@message
class TopicSnapshot(Message):
    name: str = field("string", default="")
    partitions: Sequence[PartitionSnapshot] = field([PartitionSnapshot], default=())


@message
class FetchSnapshotRequest(Message):
    cluster_id: str | None = field("string", default=None, nullable_since=0, tag=0)
    replica_id: int = field("int32", default=-1)
    max_bytes: int = field("int32", default=2147483647)
    topics: Sequence[TopicSnapshot] = field([TopicSnapshot], default=())


@message
class LeaderIdAndEpoch(Message):
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)


@message
class FetchSnapshotResponsePartitionSnapshot(Message):
    index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    snapshot_id: SnapshotId = field(SnapshotId, default=SnapshotId)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, default=LeaderIdAndEpoch, tag=0)
    size: int = field("int64", default=0)
    position: int = field("int64", default=0)
    unaligned_records: bytes = field("records", default=None)


@message
class FetchSnapshotResponseTopicSnapshot(Message):
    name: str = field("string", default="")
    partitions: Sequence[FetchSnapshotResponsePartitionSnapshot] = field(
        [FetchSnapshotResponsePartitionSnapshot], default=()
    )


@message
class NodeEndpoint(Message):
    node_id: int = field("int32", default=0, since=1)
    host: str = field("string", default="", since=1)
    port: int = field("uint16", default=0, since=1)


@message
class FetchSnapshotResponse(Message):
    throttle_time_ms: int = field("int32", default=0, ignorable=True)
    error_code: int = field("int16", default=0)
    topics: Sequence[FetchSnapshotResponseTopicSnapshot] = field([FetchSnapshotResponseTopicSnapshot], default=())
    node_endpoints: Sequence[NodeEndpoint] = field([NodeEndpoint], default=(), since=1, tag=0)


API = Api(
    key=59,
    name="FetchSnapshot",
    versions=span(0, 1),
    flexible_since=0,
    listeners=frozenset({"controller"}),
    latest_stable=1,
    request=FetchSnapshotRequest,
    response=FetchSnapshotResponse,
)
