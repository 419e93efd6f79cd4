"""Converts between the values of `klamm.admin.partition_types` and the messages of `protocol`; no I/O and no bytes.

Kafka's messages group partitions by topic, and the client's values do not, so this module groups them.
"""

from collections.abc import Iterable, Mapping, Sequence

from klamm.admin.checks import checked_items, checked_tuple, checked_tuples, expect
from klamm.admin.errors import RequestFailed, decode_error
from klamm.admin.partition_types import (
    LogDir,
    LogDirReplica,
    PartitionReassignment,
    PartitionResult,
    ReplicaEndOffset,
    ReplicaResult,
    ReplicaStatus,
    TopicPartition,
    TopicPartitionReplica,
)
from klamm.protocol.messages.brokers.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from klamm.protocol.messages.brokers.describe_log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult
from klamm.protocol.messages.data.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from klamm.protocol.messages.partitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.messages.partitions.elect_leaders import ElectLeadersResponse
from klamm.protocol.messages.partitions.list_partition_reassignments import ListPartitionReassignmentsResponse
from klamm.protocol.messages.partitions.replica_status import (
    ReplicaStatusEntry,
    ReplicaStatusRequest,
    ReplicaStatusRequestEntry,
)

Targets = (
    Mapping[TopicPartition, Sequence[int]]
    | Mapping[TopicPartition, Sequence[int] | None]
    | Mapping[tuple[str, int], Sequence[int] | None]
)

LATEST_TIMESTAMP = -1
DEBUGGING_REPLICA = -2
"""With this replica id, ListOffsets is answered by any broker that hosts the partition, from its own log."""


PARTITION: Mapping[str, type] = {"topic name": str, "partition index": int}
REPLICA: Mapping[str, type] = {**PARTITION, "broker id": int}


def by_topic(partitions: Iterable[TopicPartition | tuple[str, int]]) -> dict[str, list[int]]:
    """Partition indexes by topic, both in the order in which they come first, each once. Raises TypeError."""
    indexes: dict[str, dict[int, None]] = {}
    for topic_name, index in checked_tuples("partitions", partitions, PARTITION):
        indexes.setdefault(topic_name, {})[index] = None
    return {topic_name: list(of_topic) for topic_name, of_topic in indexes.items()}


def checked_replicas(
    replicas: Iterable[TopicPartitionReplica | tuple[str, int, int]],
) -> list[TopicPartitionReplica]:
    """The replicas as `TopicPartitionReplica`. Raises TypeError."""
    return [TopicPartitionReplica(*replica) for replica in checked_tuples("replicas", replicas, REPLICA)]


def encode_reassignments(targets: Targets) -> list[ReassignableTopic]:
    """Raises TypeError."""
    expect("targets", targets, Mapping)
    topics: dict[str, list[ReassignablePartition]] = {}
    for partition, replicas in targets.items():
        topic_name, index = checked_tuple("in targets,", partition, PARTITION)
        broker_ids = None if replicas is None else checked_items("broker ids", replicas, int)
        wanted = ReassignablePartition(partition_index=index, replicas=broker_ids)
        topics.setdefault(topic_name, []).append(wanted)
    return [ReassignableTopic(name=name, partitions=partitions) for name, partitions in topics.items()]


def decode_reassigned(answer: AlterPartitionReassignmentsResponse) -> tuple[PartitionResult, ...]:
    if (error := decode_error(answer.error_code, answer.error_message)) is not None:
        raise RequestFailed("AlterPartitionReassignments", error)
    return tuple(
        PartitionResult(
            error=decode_error(partition.error_code, partition.error_message),
            partition=TopicPartition(topic.name, partition.partition_index),
        )
        for topic in answer.responses
        for partition in topic.partitions
    )


def decode_reassignments(answer: ListPartitionReassignmentsResponse) -> tuple[PartitionReassignment, ...]:
    if (error := decode_error(answer.error_code, answer.error_message)) is not None:
        raise RequestFailed("ListPartitionReassignments", error)
    return tuple(
        PartitionReassignment(
            partition=TopicPartition(topic.name, partition.partition_index),
            replicas=tuple(partition.replicas),
            adding_replicas=tuple(partition.adding_replicas),
            removing_replicas=tuple(partition.removing_replicas),
        )
        for topic in answer.topics
        for partition in topic.partitions
    )


def decode_elected(answer: ElectLeadersResponse) -> tuple[PartitionResult, ...]:
    if (error := decode_error(answer.error_code)) is not None:
        raise RequestFailed("ElectLeaders", error)
    return tuple(
        PartitionResult(
            error=decode_error(partition.error_code, partition.error_message),
            partition=TopicPartition(topic.topic, partition.partition_id),
        )
        for topic in answer.replica_election_results
        for partition in topic.partition_result
    )


def decode_log_dirs(broker_id: int, answer: DescribeLogDirsResponse) -> tuple[LogDir, ...]:
    if (error := decode_error(answer.error_code)) is not None:
        raise RequestFailed(f"DescribeLogDirs of broker {broker_id}", error)
    return tuple(_decode_log_dir(broker_id, result) for result in answer.results)


def _decode_log_dir(broker_id: int, result: DescribeLogDirsResult) -> LogDir:
    return LogDir(
        error=decode_error(result.error_code),
        broker_id=broker_id,
        path=result.log_dir,
        replicas=tuple(
            LogDirReplica(
                TopicPartition(topic.name, partition.partition_index),
                partition.partition_size,
                partition.offset_lag,
                partition.is_future_key,
            )
            for topic in result.topics
            for partition in topic.partitions
        ),
        total_bytes=None if result.total_bytes < 0 else result.total_bytes,
        usable_bytes=None if result.usable_bytes < 0 else result.usable_bytes,
        is_cordoned=result.is_cordoned,
    )


def by_broker(
    directories: Mapping[TopicPartitionReplica, str] | Mapping[tuple[str, int, int], str],
) -> dict[int, AlterReplicaLogDirsRequest]:
    """The request for each broker. Raises TypeError."""
    expect("directories", directories, Mapping)
    wanted: dict[int, dict[str, dict[str, list[int]]]] = {}
    for replica, path in directories.items():
        topic_name, index, broker_id = checked_tuple("in directories,", replica, REPLICA)
        expect("a directory's path", path, str)
        wanted.setdefault(broker_id, {}).setdefault(path, {}).setdefault(topic_name, []).append(index)
    return {
        broker_id: AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[AlterReplicaLogDirTopic(name=name, partitions=found) for name, found in topics.items()],
                )
                for path, topics in paths.items()
            ]
        )
        for broker_id, paths in wanted.items()
    }


def decode_moves(broker_id: int, answer: AlterReplicaLogDirsResponse) -> tuple[ReplicaResult, ...]:
    return tuple(
        ReplicaResult(
            error=decode_error(partition.error_code),
            replica=TopicPartitionReplica(topic.topic_name, partition.partition_index, broker_id),
        )
        for topic in answer.results
        for partition in topic.partitions
    )


def encode_replica_status(replicas: Iterable[TopicPartitionReplica]) -> ReplicaStatusRequest:
    return ReplicaStatusRequest(
        replica_status_requests=[
            ReplicaStatusRequestEntry(
                topic=replica.topic_name, partition_id=replica.partition_index, broker=replica.broker_id
            )
            for replica in replicas
        ]
    )


def decode_replica_status(entry: ReplicaStatusEntry) -> ReplicaStatus:
    error = decode_error(entry.error_code)
    return ReplicaStatus(
        error=error,
        replica=TopicPartitionReplica(entry.topic, entry.partition_id, entry.broker),
        lag=None if error else entry.lag,
        status_time_ms=None if error else entry.status_time,
    )


def encode_end_offsets(replicas: Iterable[TopicPartitionReplica]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=DEBUGGING_REPLICA,
        topics=[
            ListOffsetsTopic(
                name=topic_name,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=LATEST_TIMESTAMP) for index in indexes
                ],
            )
            for topic_name, indexes in by_topic(replica.partition for replica in replicas).items()
        ],
    )


def decode_end_offsets(broker_id: int, answer: ListOffsetsResponse) -> tuple[ReplicaEndOffset, ...]:
    return tuple(
        ReplicaEndOffset(
            error=decode_error(partition.error_code),
            replica=TopicPartitionReplica(topic.name, partition.partition_index, broker_id),
            log_end_offset=None if partition.error_code else partition.offset,
        )
        for topic in answer.topics
        for partition in topic.partitions
    )
