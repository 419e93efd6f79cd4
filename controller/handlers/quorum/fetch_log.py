"""Fetch (1) on the controller's listener: the metadata log for brokers and other observers (KIP-595).

The order of checks, and when a snapshot or a diverging epoch is the answer, are those of Kafka's
KafkaRaftClient.handleFetchRequest and RaftLog.validateOffsetAndEpoch; facts in golden/broker-join, section 4. There is
one voter, so the high watermark is the durable end of the log. A broker stops for ever if it has to cut its log below a
high watermark that it has seen. An observer whose log is longer than ours therefore never learns an epoch or an
offset: it gets UNKNOWN_LEADER_EPOCH, as late as it would wait, and the operator gets a line.
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
from klamm.controller.metadata_log_reader import MetadataLogReader, OffsetNotInLog
from klamm.controller.observers import ObserverFetch, ObserverKey
from klamm.controller.outcome import Outcome
from klamm.controller.server_answer import LogAnswer, LogPart
from klamm.protocol.errors import ErrorCode
from klamm.protocol.internal_topics import METADATA_TOPIC
from klamm.protocol.messages.data.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from klamm.protocol.uuid import METADATA_TOPIC_ID

FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
FIRST_VERSION_WITH_REPLICA_STATE: Final = 15
FIRST_VERSION_WITH_END_POINTS: Final = 16
FIRST_VERSION_WITH_HIGH_WATERMARK: Final = 18
MAX_FETCH_BYTES: Final = 8 * 1024 * 1024
"""The most bytes of records in an answer, unless the first batch is larger. Kafka's brokers ask for 1 MiB."""
MAX_WAIT_MS: Final = 30_000
"""The longest wait. Kafka's brokers ask for 500 ms."""
NO_OFFSET: Final = -1


def handle_fetch_log(_image: MetadataImage, request: FetchRequest, context: RequestContext) -> Outcome:
    """Records from an offset on, or why there are none."""
    if denied := context.refuse_cluster(AclOperation.CLUSTER_ACTION):
        return Outcome(FetchResponse(error_code=denied.code))
    if refusal := refuse_cluster_id(request.cluster_id, context.cluster):
        return Outcome(FetchResponse(error_code=refusal))
    partition = _asked_partition(request, context.api_version)
    if partition is None:
        return Outcome(FetchResponse(error_code=ErrorCode.INVALID_REQUEST))
    answers = _Answers(context.cluster, context.api_version)
    is_impossible = partition.last_fetched_epoch > partition.current_leader_epoch
    if is_impossible or min(request.max_wait_ms, partition.fetch_offset, partition.last_fetched_epoch) < 0:
        return Outcome(_refused(answers, ErrorCode.INVALID_REQUEST))
    wait_ms = min(request.max_wait_ms, MAX_WAIT_MS)
    refusal = refuse_epoch(partition.current_leader_epoch, context.cluster)
    if refusal is ErrorCode.UNKNOWN_LEADER_EPOCH:
        # The observer has seen a later epoch than ours: it would ask again at once, for ever.
        return Outcome(LogAnswer(_Ahead(answers, request, partition, context.api_version).read, wait_ms))
    if refusal:
        return Outcome(_refused(answers, refusal))
    return Outcome(LogAnswer(_Reading(answers, request, partition, context.api_version).read, wait_ms))


def _asked_partition(request: FetchRequest, api_version: int) -> FetchPartition | None:
    """The partition of the metadata log, if the request names it and nothing else."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    if api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
        named = topic.topic_id == METADATA_TOPIC_ID
    else:
        named = topic.topic == METADATA_TOPIC
    return topic.partitions[0] if named and topic.partitions[0].partition == METADATA_PARTITION else None


def _refused(answers: "_Answers", code: ErrorCode) -> LogAnswer:
    """An error with the leader and the start of the log, as Kafka sends it."""
    return LogAnswer(lambda log: LogPart(_refusing(answers, code, log.start_offset), log.end_offset))


def _refusing(answers: "_Answers", code: ErrorCode, log_start_offset: int = NO_OFFSET) -> FetchResponse:
    found = PartitionData(error_code=code, high_watermark=NO_OFFSET, log_start_offset=log_start_offset, records=b"")
    return answers.of(found)


class _Answers:
    """Makes responses with what each of them has: the leader, its epoch and its end point."""

    def __init__(self, cluster: ClusterIdentity, api_version: int) -> None:
        self.cluster = cluster
        self._api_version = api_version

    def of(self, partition: PartitionData) -> FetchResponse:
        cluster = self.cluster
        partition.current_leader = LeaderIdAndEpoch(leader_id=cluster.controller_id, leader_epoch=cluster.leader_epoch)
        topic = FetchableTopicResponse(partitions=[partition])
        if self._api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
            topic.topic_id = METADATA_TOPIC_ID
        else:
            topic.topic = METADATA_TOPIC
        response = FetchResponse(responses=[topic])
        if self._api_version >= FIRST_VERSION_WITH_END_POINTS and cluster.controller_end_point is not None:
            host, port = cluster.controller_end_point
            response.node_endpoints = [NodeEndpoint(node_id=cluster.controller_id, host=host, port=port)]
        return response


class _Reading:
    """One request for records, which may have to wait for new ones."""

    def __init__(self, answers: _Answers, request: FetchRequest, partition: FetchPartition, api_version: int) -> None:
        self._answers = answers
        self._partition = partition
        self._max_bytes = min(max(request.max_bytes, 1), MAX_FETCH_BYTES)
        self._observer = ObserverKey(_replica_id(request, api_version), partition.replica_directory_id)
        self._has_high_watermark = api_version >= FIRST_VERSION_WITH_HIGH_WATERMARK

    def read(self, log: MetadataLogReader) -> LogPart:
        """The records that the observer lacks; for an observer whose log is not a beginning of ours, where the two
        diverge, or the snapshot to take."""
        asked, end_offset = self._partition, log.end_offset
        found = PartitionData(high_watermark=end_offset, log_start_offset=log.start_offset, records=b"")
        if snapshot := _snapshot_for(log, asked.fetch_offset, asked.last_fetched_epoch):
            found.snapshot_id = SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)
            return LogPart(self._answers.of(found), end_offset)
        diverging = log.end_of_epoch(asked.last_fetched_epoch)
        if diverging.epoch == asked.last_fetched_epoch and asked.fetch_offset <= diverging.end_offset:
            try:
                found.records = log.read(asked.fetch_offset, self._max_bytes)
            except OffsetNotInLog:  # a snapshot has replaced the offset since
                return self.read(log)
            knows_end = not self._has_high_watermark or asked.high_watermark >= end_offset
            fetched = ObserverFetch(self._observer, asked.fetch_offset, end_offset)
            is_final = bool(found.records) or not knows_end
            return LogPart(self._answers.of(found), end_offset, is_final=is_final, fetched=fetched)
        if self._has_high_watermark and diverging.end_offset >= asked.high_watermark:
            found.diverging_epoch = EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset)
            return LogPart(self._answers.of(found), end_offset)
        return _ahead(self._answers, self._observer.replica_id, asked.fetch_offset, end_offset)


class _Ahead:
    """One request of an observer that has seen a later epoch."""

    def __init__(self, answers: _Answers, request: FetchRequest, partition: FetchPartition, api_version: int) -> None:
        self._answers = answers
        self._partition = partition
        self._replica_id = _replica_id(request, api_version)

    def read(self, log: MetadataLogReader) -> LogPart:
        return _ahead(self._answers, self._replica_id, self._partition.fetch_offset, log.end_offset)


def _ahead(answers: _Answers, replica_id: int, fetch_offset: int, end_offset: int) -> LogPart:
    response = _refusing(answers, ErrorCode.UNKNOWN_LEADER_EPOCH)
    # Without a leader in the answer, the observer keeps its own epoch and does not cut its log.
    response.responses[0].partitions[0].current_leader = LeaderIdAndEpoch()
    warning = (
        f"broker {replica_id} fetches the metadata log from offset {fetch_offset}, and has seen an epoch or records "
        f"that this log, which ends at {end_offset}, does not have: the broker has followed another data directory"
    )
    return LogPart(response, end_offset, is_final=False, warning=warning)


def _snapshot_for(log: MetadataLogReader, fetch_offset: int, last_fetched_epoch: int) -> SnapshotId | None:
    """The id of the snapshot that an observer has to take before it can read the log."""
    snapshots = log.snapshots
    if not snapshots:
        return None
    oldest, newest, start = snapshots[0], snapshots[-1], log.start_offset
    wanted = (
        fetch_offset == 0
        or fetch_offset < start
        or (fetch_offset == start and oldest.end_offset == start and last_fetched_epoch != oldest.epoch)
        or (oldest.end_offset == start and last_fetched_epoch < oldest.epoch)
    )
    return SnapshotId(end_offset=newest.end_offset, epoch=newest.epoch) if wanted else None


def _replica_id(request: FetchRequest, api_version: int) -> int:
    if api_version >= FIRST_VERSION_WITH_REPLICA_STATE:
        return request.replica_state.replica_id
    return request.replica_id
