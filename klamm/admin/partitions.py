"""The requests of `klamm.AdminClient` about partitions: metadata, reassignments, elections and the lag of replicas.

Any broker accepts reassignments and elections, and its controller decides them. Only the leader of a partition knows
how far its replicas are (KIP-179), and only a broker itself knows its log directories.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from klamm.admin import decoding, partition_decoding
from klamm.admin.checks import checked_items, expect
from klamm.admin.connections import SERVER_TIMEOUT_MS, AdminConnections
from klamm.admin.errors import ClusterUnreachable
from klamm.admin.partition_types import (
    ElectionType,
    LogDir,
    PartitionReassignment,
    PartitionResult,
    ReplicaEndOffset,
    ReplicaResult,
    ReplicaStatus,
    TopicPartition,
    TopicPartitionReplica,
)
from klamm.admin.types import ClusterMetadata
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers import alter_replica_log_dirs, describe_log_dirs
from klamm.protocol.messages.data import list_offsets
from klamm.protocol.messages.partitions import (
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
    replica_status,
)
from klamm.protocol.messages.topics import metadata
from klamm.protocol.uuid import Uuid

_Asked = TopicPartition | tuple[str, int]
_AskedReplica = TopicPartitionReplica | tuple[str, int, int]


class PartitionRequests(AdminConnections):
    """The requests about partitions; `klamm.AdminClient` derives from this class and documents the exceptions."""

    async def metadata(
        self, topics: Iterable[str | Uuid] | None = None, *, allow_auto_topic_creation: bool = False
    ) -> ClusterMetadata:
        """Brokers, and topics by name or id. None means all topics, and an empty list means no topics.

        A topic that does not exist has an `error`.
        """
        wanted = None if topics is None else checked_items("topics", topics, str, Uuid)
        body = metadata.MetadataRequest(
            topics=None if wanted is None else [decoding.encode_topic_reference(topic) for topic in wanted],
            allow_auto_topic_creation=allow_auto_topic_creation,
        )
        return decoding.decode_metadata(await self._request(metadata.API, body))

    async def alter_partition_reassignments(
        self,
        targets: partition_decoding.Targets,
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: int = SERVER_TIMEOUT_MS,
    ) -> tuple[PartitionResult, ...]:
        """Reassign partitions to these brokers, with the preferred leader first. None cancels a reassignment (KIP-455).

        Returns one result per partition, in the broker's order. Without an error, the reassignment has begun, or was
        cancelled."""
        body = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            timeout_ms=timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
            topics=partition_decoding.encode_reassignments(targets),
        )
        return partition_decoding.decode_reassigned(await self._request(alter_partition_reassignments.API, body))

    async def list_partition_reassignments(
        self, partitions: Iterable[_Asked] | None = None, *, timeout_ms: int = SERVER_TIMEOUT_MS
    ) -> tuple[PartitionReassignment, ...]:
        """The reassignments in progress, of these partitions. None means all partitions."""
        asked = None if partitions is None else partition_decoding.by_topic(partitions)
        body = list_partition_reassignments.ListPartitionReassignmentsRequest(
            timeout_ms=timeout_ms,
            topics=None
            if asked is None
            else [
                list_partition_reassignments.ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
                for name, indexes in asked.items()
            ],
        )
        return partition_decoding.decode_reassignments(await self._request(list_partition_reassignments.API, body))

    async def elect_leaders(
        self,
        partitions: Iterable[_Asked] | None = None,
        election_type: ElectionType = ElectionType.PREFERRED,
        *,
        timeout_ms: int = SERVER_TIMEOUT_MS,
    ) -> tuple[PartitionResult, ...]:
        """Elect leaders of these partitions. None means all partitions that need an election. Returns one result per
        attempted election."""
        asked = None if partitions is None else partition_decoding.by_topic(partitions)
        expect("election_type", election_type, ElectionType)
        body = elect_leaders.ElectLeadersRequest(
            election_type=election_type,
            topic_partitions=None
            if asked is None
            else [elect_leaders.TopicPartitions(topic=name, partitions=indexes) for name, indexes in asked.items()],
            timeout_ms=timeout_ms,
        )
        return partition_decoding.decode_elected(await self._request(elect_leaders.API, body))

    async def describe_log_dirs(
        self, broker_ids: Iterable[int] | None = None, *, partitions: Iterable[_Asked] | None = None
    ) -> tuple[LogDir, ...]:
        """The log directories of brokers, with their replicas. `broker_ids` None means all live brokers, `partitions`
        None means all partitions.

        The client asks each broker directly, in the order of `broker_ids`. A broker that is not live raises
        ClusterUnreachable."""
        asked = None if partitions is None else partition_decoding.by_topic(partitions)
        wanted = None if broker_ids is None else checked_items("broker ids", broker_ids, int)
        body = describe_log_dirs.DescribeLogDirsRequest(
            topics=None
            if asked is None
            else [describe_log_dirs.DescribableLogDirTopic(topic=name, partitions=p) for name, p in asked.items()]
        )
        live = [broker.broker_id for broker in (await self._routes(())).brokers]
        log_dirs: list[LogDir] = []
        for broker_id in live if wanted is None else wanted:
            answer = await self._request(describe_log_dirs.API, body, broker_id)
            log_dirs += partition_decoding.decode_log_dirs(broker_id, answer)
        return tuple(log_dirs)

    async def alter_replica_log_dirs(
        self, directories: Mapping[TopicPartitionReplica, str] | Mapping[tuple[str, int, int], str]
    ) -> tuple[ReplicaResult, ...]:
        """Move replicas into these log directories of their brokers (KIP-113). Returns one result per replica.

        The client asks each broker directly. A broker that is not live raises ClusterUnreachable. Without an error, the
        move has begun. `describe_log_dirs` has the future replica until the move is complete."""
        results: list[ReplicaResult] = []
        await self._routes(())
        for broker_id, body in partition_decoding.by_broker(directories).items():
            answer = await self._request(alter_replica_log_dirs.API, body, broker_id)
            results += partition_decoding.decode_moves(broker_id, answer)
        return tuple(results)

    async def replica_status(self, replicas: Iterable[_AskedReplica]) -> tuple[ReplicaStatus, ...]:
        """The lag of replicas behind the leaders of their partitions (KIP-179). Returns one result per replica, in
        their order.

        The client asks the leader of each partition. If the leader is missing, has changed (error 6) or cannot be
        reached, the client requests the metadata once more and asks the new leader. If it cannot reach the new leader,
        the result has error 6. Apache Kafka does not support this API, and the method raises `NotSupportedByBroker`."""
        wanted = partition_decoding.checked_replicas(replicas)
        found = await self._ask_leaders(wanted, last_time=False)
        astray = [replica for replica in wanted if _is_astray(found.get(replica))]
        found |= await self._ask_leaders(astray, last_time=True)
        return tuple(found[replica] for replica in wanted if replica in found)

    async def _ask_leaders(
        self, replicas: Sequence[TopicPartitionReplica], last_time: bool
    ) -> dict[TopicPartitionReplica, ReplicaStatus]:
        """Answers of the leaders; for a partition without one, any broker's answer, which has the error."""
        found: dict[TopicPartitionReplica, ReplicaStatus] = {}
        if not replicas:
            return found
        leaders = _live_leaders(await self._routes(sorted({replica.topic_name for replica in replicas})))
        by_leader: dict[int | None, dict[TopicPartitionReplica, None]] = {}
        for replica in replicas:
            by_leader.setdefault(leaders.get(replica.partition), {})[replica] = None
        for leader, theirs in by_leader.items():
            body = partition_decoding.encode_replica_status(theirs)
            try:
                answer = await self._request(replica_status.API, body, leader)
            except ClusterUnreachable:
                if leader is None:
                    raise
                if not last_time:
                    continue
                # A broker that crashed counts as the leader until the controller notices.
                answer = await self._request(replica_status.API, body)
            results = map(partition_decoding.decode_replica_status, answer.replica_status)
            found.update((result.replica, result) for result in results)
        return found

    async def replica_end_offsets(self, replicas: Iterable[_AskedReplica]) -> tuple[ReplicaEndOffset, ...]:
        """The log end offset of each replica. Returns one result per replica, in their order.

        The client sends ListOffsets to each broker, with the replica id that Kafka reserves for debugging (-2).
        Followers answer it, too. A replica without a log has a result with an error. Replicas on unreachable brokers
        have no result."""
        wanted = partition_decoding.checked_replicas(replicas)
        live = {broker.broker_id for broker in (await self._routes(())).brokers}
        by_broker: dict[int, list[TopicPartitionReplica]] = {}
        for replica in wanted:
            if replica.broker_id in live:
                by_broker.setdefault(replica.broker_id, []).append(replica)
        found: dict[TopicPartitionReplica, ReplicaEndOffset] = {}
        for broker_id, theirs in by_broker.items():
            with suppress(ClusterUnreachable):
                body = partition_decoding.encode_end_offsets(theirs)
                answer = await self._request(list_offsets.API, body, broker_id)
                found.update(
                    (result.replica, result) for result in partition_decoding.decode_end_offsets(broker_id, answer)
                )
        return tuple(found[replica] for replica in wanted if replica in found)

    async def _routes(self, topic_names: Iterable[str]) -> ClusterMetadata:
        """The metadata of topics. It also has the addresses that are needed to ask each live broker directly."""
        seen = await self.metadata(topic_names)
        self._learn_brokers(seen.brokers)
        return seen


def _is_astray(status: ReplicaStatus | None) -> bool:
    """Whether a status is not from the leader."""
    return status is None or (status.error is not None and status.error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _live_leaders(seen: ClusterMetadata) -> dict[TopicPartition, int]:
    live = {broker.broker_id for broker in seen.brokers}
    return {
        TopicPartition(topic.topic_name or "", partition.partition_index): partition.leader
        for topic in seen.topics
        for partition in topic.partitions
        if partition.leader in live
    }
