"""Brokers for tests, with the state that the test sets: replicas, leaders, log end offsets, moves, refusals. They
decide nothing: a requested move is stored in `asked_moves`, and ListPartitionReassignments returns `moves`. With
`serves_status` they answer ReplicaStatus from `statuses`; without it they do not serve that API, like Apache Kafka."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import trio

from klamm.admin.partition_types import TopicPartition, TopicPartitionReplica
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers.alter_replica_log_dirs import API as ALTER_LOG_DIRS
from klamm.protocol.messages.brokers.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from klamm.protocol.messages.brokers.describe_log_dirs import API as DESCRIBE_LOG_DIRS
from klamm.protocol.messages.brokers.describe_log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult
from klamm.protocol.messages.cluster.describe_cluster import API as DESCRIBE_CLUSTER
from klamm.protocol.messages.cluster.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from klamm.protocol.messages.configs.incremental_alter_configs import API as INCREMENTAL_ALTER_CONFIGS
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from klamm.protocol.messages.data.list_offsets import API as LIST_OFFSETS
from klamm.protocol.messages.data.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from klamm.protocol.messages.partitions.alter_partition_reassignments import API as ALTER_REASSIGNMENTS
from klamm.protocol.messages.partitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from klamm.protocol.messages.partitions.list_partition_reassignments import API as LIST_REASSIGNMENTS
from klamm.protocol.messages.partitions.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from klamm.protocol.messages.partitions.replica_status import API as REPLICA_STATUS
from klamm.protocol.messages.partitions.replica_status import ReplicaStatusEntry, ReplicaStatusResponse
from klamm.protocol.messages.topics.metadata import API as METADATA
from klamm.protocol.messages.topics.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from tests.klamm.admin.peer import Asked, Peer, served

UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER = 3, 6
APIS = (
    *(METADATA, DESCRIBE_CLUSTER, INCREMENTAL_ALTER_CONFIGS, DESCRIBE_LOG_DIRS, ALTER_LOG_DIRS),
    *(ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS, LIST_OFFSETS),
)


@dataclass
class Partition:
    """A partition, with the log end offset of each replica; a replica without an entry has no log yet."""

    leader: int
    replicas: tuple[int, ...]
    ends: dict[int, int] = field(default_factory=dict)


@dataclass
class ScriptedCluster:
    """The state of the brokers, and the requests that they received. A test may change it between two answers
    (`before_answer`)."""

    partitions: dict[TopicPartition, Partition] = field(default_factory=dict)
    live: set[int] = field(default_factory=lambda: {1, 2, 3})
    fenced: set[int] = field(default_factory=set)
    racks: dict[int, str] = field(default_factory=dict)
    log_dirs: dict[int, list[str]] = field(default_factory=dict)
    moves: dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    """Replicas, adding, removing."""
    refusals: dict[TopicPartition, int] = field(default_factory=dict)
    serves_status: bool = False
    statuses: dict[TopicPartitionReplica, tuple[int, int]] = field(default_factory=dict)
    """Error code and lag."""
    before_answer: Callable[[Asked], None] = lambda _: None
    asked: list[tuple[int, Asked]] = field(default_factory=list)
    asked_moves: dict[TopicPartition, tuple[int, ...] | None] = field(default_factory=dict)
    configs: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _peers: dict[int, Peer] = field(default_factory=dict)

    async def start(self, nursery: trio.Nursery) -> "ScriptedCluster":
        apis = (*APIS, REPLICA_STATUS) if self.serves_status else APIS
        for broker_id in sorted(self.live | self.fenced):
            self._peers[broker_id] = await Peer(self._answer_of(broker_id), served(*(a.key for a in apis))).start(
                nursery
            )
        return self

    @property
    def bootstrap_servers(self) -> str:
        return self._peers[min(self._peers)].address

    def peer(self, broker_id: int) -> Peer:
        """The peer that answers as broker `broker_id`."""
        return self._peers[broker_id]

    def brokers_asked(self, api: Any) -> list[int]:
        """The brokers that received a request of that API, in order."""
        return [broker_id for broker_id, requested in self.asked if requested.api is api]

    def _answer_of(self, broker_id: int) -> Any:
        async def answer(asked: Asked) -> Message:
            self.before_answer(asked)
            self.asked.append((broker_id, asked))
            return _ANSWERS[asked.api.key](self, broker_id, asked.body)

        return answer

    def _metadata(self, _broker_id: int, body: Any) -> Message:
        names = [topic.name for topic in body.topics]
        return MetadataResponse(
            brokers=[self._peers[broker_id].as_broker(broker_id) for broker_id in sorted(self.live)],
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        partitions = [
            MetadataResponsePartition(
                partition_index=partition.partition_index,
                leader_id=found.leader,
                replica_nodes=found.replicas,
                isr_nodes=found.replicas,
            )
            for partition, found in self.partitions.items()
            if partition.topic_name == name
        ]
        return MetadataResponseTopic(
            error_code=0 if partitions else UNKNOWN_TOPIC_OR_PARTITION, name=name, partitions=partitions
        )

    def _describe_cluster(self, _broker_id: int, body: Any) -> Message:
        shown = self.live | self.fenced if body.include_fenced_brokers else self.live
        brokers = [
            DescribeClusterBroker(
                broker_id=broker_id,
                host="h",
                port=1,
                rack=self.racks.get(broker_id),
                is_fenced=broker_id in self.fenced,
            )
            for broker_id in sorted(shown)
        ]
        return DescribeClusterResponse(cluster_id="scripted", brokers=brokers)

    def _alter_configs(self, _broker_id: int, body: Any) -> Message:
        for resource in body.resources:
            for config in resource.configs:
                self.configs[resource.resource_name, config.name] = config.value
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(resource_type=one.resource_type, resource_name=one.resource_name)
                for one in body.resources
            ]
        )

    def _describe_log_dirs(self, broker_id: int, _body: Any) -> Message:
        paths = self.log_dirs.get(broker_id, ["/data"])
        return DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir=path) for path in paths])

    def _alter_log_dirs(self, _broker_id: int, body: Any) -> Message:
        return AlterReplicaLogDirsResponse(
            results=[
                AlterReplicaLogDirTopicResult(
                    topic_name=topic.name,
                    partitions=[AlterReplicaLogDirPartitionResult(partition_index=index) for index in topic.partitions],
                )
                for directory in body.dirs
                for topic in directory.topics
            ]
        )

    def _list_moves(self, _broker_id: int, body: Any) -> Message:
        wanted = (
            None if body.topics is None else {(t.name, index) for t in body.topics for index in t.partition_indexes}
        )
        return ListPartitionReassignmentsResponse(
            topics=[
                OngoingTopicReassignment(
                    name=partition.topic_name,
                    partitions=[
                        OngoingPartitionReassignment(
                            partition_index=partition.partition_index,
                            replicas=replicas,
                            adding_replicas=adding,
                            removing_replicas=removing,
                        )
                    ],
                )
                for partition, (replicas, adding, removing) in self.moves.items()
                if wanted is None or partition in wanted
            ]
        )

    def _alter_moves(self, _broker_id: int, body: Any) -> Message:
        responses = []
        for topic in body.topics:
            results = []
            for wanted in topic.partitions:
                partition = TopicPartition(topic.name, wanted.partition_index)
                self.asked_moves[partition] = None if wanted.replicas is None else tuple(wanted.replicas)
                code = self.refusals.get(partition, 0)
                result = ReassignablePartitionResponse(
                    partition_index=wanted.partition_index, error_code=code, error_message="no" if code else None
                )
                results.append(result)
            responses.append(ReassignableTopicResponse(name=topic.name, partitions=results))
        return AlterPartitionReassignmentsResponse(responses=responses)

    def _list_offsets(self, broker_id: int, body: Any) -> Message:
        assert body.replica_id == -2, "only so do followers answer"
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        self._end(broker_id, TopicPartition(topic.name, requested.partition_index))
                        for requested in topic.partitions
                    ],
                )
                for topic in body.topics
            ]
        )

    def _end(self, broker_id: int, partition: TopicPartition) -> ListOffsetsPartitionResponse:
        end = self.partitions[partition].ends.get(broker_id)
        return ListOffsetsPartitionResponse(
            partition_index=partition.partition_index,
            error_code=NOT_LEADER_OR_FOLLOWER if end is None else 0,
            offset=-1 if end is None else end,
        )

    def _replica_status(self, _broker_id: int, body: Any) -> Message:
        entries = []
        for requested in reversed(body.replica_status_requests):  # Each caller must find its own configs.
            code, lag = self.statuses[TopicPartitionReplica(requested.topic, requested.partition_id, requested.broker)]
            entry = ReplicaStatusEntry(
                topic=requested.topic,
                partition_id=requested.partition_id,
                broker=requested.broker,
                error_code=code,
                lag=lag,
            )
            entries.append(entry)
        return ReplicaStatusResponse(replica_status=entries)


_ANSWERS: dict[int, Callable[[ScriptedCluster, int, Any], Message]] = {
    METADATA.key: ScriptedCluster._metadata,
    DESCRIBE_CLUSTER.key: ScriptedCluster._describe_cluster,
    INCREMENTAL_ALTER_CONFIGS.key: ScriptedCluster._alter_configs,
    DESCRIBE_LOG_DIRS.key: ScriptedCluster._describe_log_dirs,
    ALTER_LOG_DIRS.key: ScriptedCluster._alter_log_dirs,
    LIST_REASSIGNMENTS.key: ScriptedCluster._list_moves,
    ALTER_REASSIGNMENTS.key: ScriptedCluster._alter_moves,
    LIST_OFFSETS.key: ScriptedCluster._list_offsets,
    REPLICA_STATUS.key: ScriptedCluster._replica_status,
}
