"""FetchSnapshot (59): a part of a snapshot of the metadata log, by its position in bytes (KIP-630).

Kafka: KafkaRaftClient.handleFetchSnapshotRequest. Parts need not be whole batches.
"""

from typing import Final

from klamm.controller.authorizer import AclOperation
from klamm.controller.context import ClusterIdentity, RequestContext
from klamm.controller.handlers.quorum.log_requests import (
    METADATA_PARTITION,
    refuse_cluster_id,
    refuse_epoch,
)
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata_log_reader import MetadataLogReader, PositionOutOfRange, SnapshotNotFound
from klamm.controller.metadata_log_reader import SnapshotId as LogSnapshotId
from klamm.controller.outcome import Outcome
from klamm.controller.server_answer import LogAnswer, LogPart
from klamm.protocol.errors import ErrorCode
from klamm.protocol.internal_topics import METADATA_TOPIC
from klamm.protocol.messages.raft.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseTopicSnapshot,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionSnapshot,
    SnapshotId,
)

MAX_PART_BYTES: Final = 8 * 1024 * 1024
"""The most bytes of a snapshot in an answer."""
FIRST_VERSION_WITH_END_POINTS: Final = 1


def handle_fetch_snapshot(_image: MetadataImage, request: FetchSnapshotRequest, context: RequestContext) -> Outcome:
    """The bytes from a position on, and the size of the whole snapshot."""
    if denied := context.refuse_cluster(AclOperation.CLUSTER_ACTION):
        return Outcome(FetchSnapshotResponse(error_code=denied.code))
    if refusal := refuse_cluster_id(request.cluster_id, context.cluster):
        return Outcome(FetchSnapshotResponse(error_code=refusal))
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return Outcome(FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST))
    topic, asked = request.topics[0], request.topics[0].partitions[0]
    answers = _Answers(context.cluster, context.api_version, asked, topic.name)
    if (topic.name, asked.partition) != (METADATA_TOPIC, METADATA_PARTITION):
        return Outcome(answers.refusing(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    if refusal := refuse_epoch(asked.current_leader_epoch, context.cluster):
        return Outcome(answers.refusing(refusal))
    max_bytes = min(max(request.max_bytes, 1), MAX_PART_BYTES)
    wanted = LogSnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)

    def read(log: MetadataLogReader) -> LogPart:
        try:
            part = log.read_snapshot(wanted, asked.position, max_bytes)
        except SnapshotNotFound:
            return LogPart(answers.refusing(ErrorCode.SNAPSHOT_NOT_FOUND), log.end_offset)
        except PositionOutOfRange:
            return LogPart(answers.refusing(ErrorCode.POSITION_OUT_OF_RANGE), log.end_offset)
        found = FetchSnapshotResponsePartitionSnapshot(
            snapshot_id=SnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch),
            size=part.size_bytes,
            position=asked.position,
            unaligned_records=part.data,
        )
        return LogPart(answers.of(found), log.end_offset)

    return Outcome(LogAnswer(read))


class _Answers:
    """Makes responses with the leader, its epoch and its end point."""

    def __init__(self, cluster: ClusterIdentity, api_version: int, asked: PartitionSnapshot, topic_name: str) -> None:
        self._cluster = cluster
        self._api_version = api_version
        self._asked = asked
        self._topic_name = topic_name

    def refusing(self, code: ErrorCode) -> FetchSnapshotResponse:
        return self.of(FetchSnapshotResponsePartitionSnapshot(error_code=code, unaligned_records=b""))

    def of(self, partition: FetchSnapshotResponsePartitionSnapshot) -> FetchSnapshotResponse:
        cluster = self._cluster
        partition.index = self._asked.partition
        partition.current_leader = LeaderIdAndEpoch(leader_id=cluster.controller_id, leader_epoch=cluster.leader_epoch)
        topic = FetchSnapshotResponseTopicSnapshot(name=self._topic_name, partitions=[partition])
        response = FetchSnapshotResponse(topics=[topic])
        if self._api_version >= FIRST_VERSION_WITH_END_POINTS and cluster.controller_end_point is not None:
            host, port = cluster.controller_end_point
            response.node_endpoints = [NodeEndpoint(node_id=cluster.controller_id, host=host, port=port)]
        return response
