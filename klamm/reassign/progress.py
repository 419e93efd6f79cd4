"""The lag of the replicas of a file: one row for each partition and target broker (KIP-179).

If the cluster serves ReplicaStatus, the rows come from that API. For other clusters, such as Apache Kafka, they are
computed from the metadata, the reassignments in progress, and the log end offset of each replica. The offset lag of
DescribeLogDirs is not used, because a follower computes it from the high watermark that it knows, which is never above
its own log end offset.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from klamm.admin.client import AdminClient
from klamm.admin.errors import NotSupportedByBroker, RequestFailed
from klamm.admin.partition_types import ReplicaStatus, TopicPartition, TopicPartitionReplica
from klamm.admin.types import ClusterMetadata
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.reassign.files import Target
from klamm.reassign.report import Report, as_object
from klamm.reassign.table import table_lines

NO_LEADER = -1


class Problem(Enum):
    """The reason why the lag of a replica is unknown; the value is the status in the table."""

    UNKNOWN_TOPIC = "Unknown topic"
    UNKNOWN_PARTITION = "Unknown partition"
    NO_LEADER = "No leader"
    UNKNOWN_BROKER = "Unknown broker"
    NOT_HOSTED = "Broker does not host this partition"
    BROKER_UNREACHABLE = "Broker cannot be reached"
    """Only on clusters without ReplicaStatus, where each broker is asked for its own replicas."""

    @property
    def may_pass(self) -> bool:
        """Whether the problem can disappear while `--watch` waits."""
        return self in (Problem.NO_LEADER, Problem.BROKER_UNREACHABLE)


_PROBLEMS = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: Problem.UNKNOWN_TOPIC,
    ErrorCode.INVALID_PARTITIONS: Problem.UNKNOWN_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Problem.NO_LEADER,
    ErrorCode.UNKNOWN_MEMBER_ID: Problem.UNKNOWN_BROKER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Problem.NOT_HOSTED,
}


@dataclass(frozen=True, slots=True)
class Row:
    """A target replica with its lag, in messages, or the problem why the lag is unknown."""

    replica: TopicPartitionReplica
    lag: int | None = None
    problem: Problem | None = None

    @property
    def in_sync(self) -> bool:
        return self.lag == 0

    @property
    def status(self) -> str:
        """The status with the text of KIP-179."""
        if self.problem is not None:
            return self.problem.value
        return "In sync" if self.in_sync else f"Behind: {self.lag} messages behind"


def wanted_replicas(targets: Iterable[Target]) -> list[TopicPartitionReplica]:
    """The target replicas, in the order of the targets, then of their replicas."""
    return [TopicPartitionReplica(*target.partition, broker_id) for target in targets for broker_id in target.replicas]


async def look(admin: AdminClient, replicas: Sequence[TopicPartitionReplica]) -> list[Row]:
    """The current rows of the replicas. Raises `RequestFailed`, for example if the user is not authorized."""
    try:
        return list(map(_row, await admin.replica_status(replicas)))
    except NotSupportedByBroker:
        rows = {row.replica: row for row in await _look_without_status(admin, replicas)}
    # The leader may be changing: try once more with new metadata, as `AdminClient.replica_status` does.
    again = [replica for replica, row in rows.items() if row.problem is Problem.NO_LEADER]
    if again:
        rows.update((row.replica, row) for row in await _look_without_status(admin, again))
    return [rows[replica] for replica in replicas]


def _row(status: ReplicaStatus) -> Row:
    if status.error is None:
        return Row(status.replica, lag=status.lag)
    problem = _PROBLEMS.get(status.error.code)
    if problem is None:
        status.raise_for_error()
    return Row(status.replica, problem=problem)


async def _look_without_status(admin: AdminClient, replicas: Sequence[TopicPartitionReplica]) -> list[Row]:
    seen = await admin.metadata(sorted({replica.topic_name for replica in replicas}))
    view = _View(seen, await _registered_brokers(admin))
    for move in await admin.list_partition_reassignments({replica.partition for replica in replicas}):
        view.hosts.setdefault(move.partition, set()).update(move.replicas)
    found = {replica: view.problem(replica) for replica in replicas}
    asked = [replica for replica, problem in found.items() if problem is None]
    # Ask the leaders first: a follower in sync is then at or above the leader's log end offset, never below it.
    leaders = await _ends(admin, {view.leader_replica(replica) for replica in asked})
    followers = await _ends(admin, set(asked) - leaders.keys())
    rows = []
    for replica in replicas:
        end = leaders.get(view.leader_replica(replica))
        if (problem := found[replica]) is not None:
            rows.append(Row(replica, problem=problem))
        elif end is None:
            rows.append(Row(replica, problem=Problem.NO_LEADER))
        elif replica in leaders:
            rows.append(Row(replica, lag=0))
        elif replica in followers:
            rows.append(Row(replica, lag=max(end - (followers[replica] or 0), 0)))
        else:
            rows.append(Row(replica, problem=Problem.BROKER_UNREACHABLE))
    return rows


async def _ends(
    admin: AdminClient, replicas: Collection[TopicPartitionReplica]
) -> dict[TopicPartitionReplica, int | None]:
    """The log end offsets of replicas, None for a replica without a log. Replicas on brokers that cannot be reached are
    left out."""
    results = await admin.replica_end_offsets(sorted(replicas)) if replicas else ()
    for result in results:
        if result.error is not None and result.error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            result.raise_for_error()
    return {result.replica: result.log_end_offset for result in results}


async def _registered_brokers(admin: AdminClient) -> set[int]:
    try:
        cluster = await admin.describe_cluster(include_fenced_brokers=True)
    except NotSupportedByBroker:  # before Apache Kafka 4.0
        cluster = await admin.describe_cluster()
    return {broker.broker_id for broker in cluster.brokers}


class _View:
    """The facts of the metadata that decide the problem of a replica."""

    def __init__(self, seen: ClusterMetadata, registered: set[int]) -> None:
        self.live = {broker.broker_id for broker in seen.brokers}
        self.hosts: dict[TopicPartition, set[int]] = {}
        self._leaders: dict[TopicPartition, int | None] = {}
        self._topics: dict[str, ApiError | None] = {}
        for topic in seen.topics:
            name = topic.topic_name or ""
            self._topics[name] = topic.error
            for described in topic.partitions:
                partition = TopicPartition(name, described.partition_index)
                self.hosts[partition] = set(described.replicas)
                self._leaders[partition] = described.leader
        self._brokers = registered | self.live | {one for hosts in self.hosts.values() for one in hosts}

    def leader_replica(self, replica: TopicPartitionReplica) -> TopicPartitionReplica:
        leader = self._leaders.get(replica.partition)
        return TopicPartitionReplica(*replica.partition, NO_LEADER if leader is None else leader)

    def problem(self, replica: TopicPartitionReplica) -> Problem | None:
        """The first problem, in the order of the checks of ReplicaStatus; None: the log end offset can be requested."""
        error = self._topics.get(replica.topic_name)
        if error is not None and error.code in _TOPIC_IS_NOT_THERE:
            return Problem.UNKNOWN_TOPIC
        if error is not None:
            raise RequestFailed(f"topic {replica.topic_name!r}", error)
        if replica.partition not in self._leaders:
            return Problem.UNKNOWN_PARTITION
        if self._leaders[replica.partition] not in self.live:
            return Problem.NO_LEADER
        if replica.broker_id not in self._brokers:
            return Problem.UNKNOWN_BROKER
        return None if replica.broker_id in self.hosts[replica.partition] else Problem.NOT_HOSTED


_TOPIC_IS_NOT_THERE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION})


async def progress(admin: AdminClient, targets: Sequence[Target]) -> Report:
    """Report the current rows."""
    return progress_report(await look(admin, wanted_replicas(targets)))


def progress_report(rows: Sequence[Row]) -> Report:
    """The table of KIP-179 for these rows."""
    cells = [(row.replica, row.status) for row in rows]
    return Report(table_lines(cells), {"replicas": [_row_object(row) for row in rows], "in_sync": all_in_sync(rows)})


def all_in_sync(rows: Iterable[Row]) -> bool:
    return all(row.in_sync for row in rows)


def _row_object(row: Row) -> dict[str, Any]:
    problem = None if row.problem is None else row.problem.name
    return {
        **as_object(row.replica.partition),
        "broker": row.replica.broker_id,
        "status": row.status,
        "lag": row.lag,
        "problem": problem,
    }
