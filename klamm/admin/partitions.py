"""What `klamm.AdminClient` asks about partitions: where they are, their moves, elections, and how far replicas are.

Moves and elections are asked of any broker, which has its controller decide. How far a replica is, only the leader of
its partition knows (KIP-179), and what lies on its disks only the broker itself.
"""

from collections.abc import Iterable, Sequence
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
    ReplicaStatus,
    TopicPartition,
    TopicPartitionReplica,
)
from klamm.admin.types import ClusterMetadata
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers import describe_log_dirs
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
    """The requests about partitions; `klamm.AdminClient` is one, and says what is raised."""

    async def metadata(
        self, topics: Iterable[str | Uuid] | None = None, *, allow_auto_topic_creation: bool = False
    ) -> ClusterMetadata:
        """Brokers and topics: those named (by name or id), all of them with None, none with an empty list.

        A topic that is not there is one with an `error`.
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
        """Move partitions to these brokers, the preferred leader first; None ends the move of a partition (KIP-455).

        One result per partition, in the broker's order; without an error the move has begun, or ended.
        """
        body = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            timeout_ms=timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
            topics=partition_decoding.encode_reassignments(targets),
        )
        return partition_decoding.decode_reassigned(await self._request(alter_partition_reassignments.API, body))

    async def list_partition_reassignments(
        self, partitions: Iterable[_Asked] | None = None, *, timeout_ms: int = SERVER_TIMEOUT_MS
    ) -> tuple[PartitionReassignment, ...]:
        """The moves in progress: of these partitions, or of all with None."""
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
        """Elect a leader for these partitions, or with None for all that need one; a result per partition tried."""
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
        """The log directories of these brokers, or of all live ones, and what they hold of these partitions, or of all.

        Each broker is asked itself, in the order given; one that is not live is `ClusterUnreachable`.
        """
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

    async def replica_status(self, replicas: Iterable[_AskedReplica]) -> tuple[ReplicaStatus, ...]:
        """How far replicas are behind the leaders of their partitions (KIP-179); a result each, in the order asked.

        Each partition's leader is asked. Where there is none, where it has moved on (error 6) or cannot be reached,
        the metadata is looked up once more and the new leader is asked; what it says stands. If that cannot be reached
        either, another broker says that it is not the leader (6). Apache Kafka does not serve this:
        `NotSupportedByBroker`.
        """
        wanted = partition_decoding.checked_replicas(replicas)
        found = await self._ask_leaders(wanted, last_time=False)
        astray = [replica for replica in wanted if _is_astray(found.get(replica))]
        found |= await self._ask_leaders(astray, last_time=True)
        return tuple(found[replica] for replica in wanted if replica in found)

    async def _ask_leaders(
        self, replicas: Sequence[TopicPartitionReplica], last_time: bool
    ) -> dict[TopicPartitionReplica, ReplicaStatus]:
        """Answers of the leaders; where there is none, any broker tells what is the matter."""
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
                # It may have crashed, and still count as the leader for a while.
                answer = await self._request(replica_status.API, body)
            results = map(partition_decoding.decode_replica_status, answer.replica_status)
            found.update((result.replica, result) for result in results)
        return found

    async def replica_end_offsets(self, replicas: Iterable[_AskedReplica]) -> tuple[ReplicaEndOffset, ...]:
        """Where each replica's own log ends; a result each, in the order asked.

        Each broker is asked itself, by ListOffsets as the replica id that Kafka keeps for debugging (-2), which
        followers answer, too. A replica that has no log yet is a result with an error; those on brokers that cannot
        be asked are left out.
        """
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
        """The metadata of topics, after which each live broker can be asked itself."""
        seen = await self.metadata(topic_names)
        self._learn_brokers(seen.brokers)
        return seen


def _is_astray(status: ReplicaStatus | None) -> bool:
    """Whether a status did not come from the leader."""
    return status is None or (status.error is not None and status.error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _live_leaders(seen: ClusterMetadata) -> dict[TopicPartition, int]:
    live = {broker.broker_id for broker in seen.brokers}
    return {
        TopicPartition(topic.topic_name or "", partition.partition_index): partition.leader
        for topic in seen.topics
        for partition in topic.partitions
        if partition.leader in live
    }
