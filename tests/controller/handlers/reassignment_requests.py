"""Short forms of requests about reassignments and elections, and of their answers, for tables of cases."""

from collections.abc import Mapping, Sequence
from typing import Any

from klamm.protocol.messages.partitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.messages.partitions.elect_leaders import ElectLeadersRequest, TopicPartitions
from klamm.protocol.messages.partitions.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.controller.handlers.cluster import ENOUGH_TIME_MS, DrivenCluster

Item = tuple[int, str | None]
"""Error code and text."""


def moved(topic_name: str, *targets: Sequence[int] | None) -> ReassignableTopic:
    """A request with a target for partition 0, 1, …; None cancels."""
    return moved_some(topic_name, dict(enumerate(targets)))


def moved_some(topic_name: str, targets: Mapping[int, Sequence[int] | None]) -> ReassignableTopic:
    partitions = [
        ReassignablePartition(partition_index=index, replicas=None if target is None else list(target))
        for index, target in targets.items()
    ]
    return ReassignableTopic(name=topic_name, partitions=partitions)


def reassign(
    cluster: DrivenCluster,
    *topics: ReassignableTopic,
    timeout_ms: int = ENOUGH_TIME_MS,
    allowed: bool = True,
    **asked: Any,
) -> AlterPartitionReassignmentsResponse:
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms, allow_replication_factor_change=allowed, topics=topics
    )
    response: AlterPartitionReassignmentsResponse = cluster.ask(request, **asked)
    return response


def items(response: AlterPartitionReassignmentsResponse) -> list[Item]:
    return [(one.error_code, one.error_message) for topic in response.responses for one in topic.partitions]


def move(cluster: DrivenCluster, topic_name: str, *targets: Sequence[int] | None, **fields: Any) -> list[int]:
    """The error codes of one topic."""
    return [code for code, _ in items(reassign(cluster, moved(topic_name, *targets), **fields))]


Moving = tuple[list[int], list[int], list[int]]


def in_progress(cluster: DrivenCluster, topics: Mapping[str, Sequence[int]] | None = None) -> dict[str, Moving]:
    """Replicas, adding and removing replicas of partitions, such as t-0, in the order of the answer."""
    requested = None
    if topics is not None:
        requested = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=list(indexes))
            for name, indexes in topics.items()
        ]
    response = cluster.ask(ListPartitionReassignmentsRequest(topics=requested, timeout_ms=0))
    assert (response.error_code, response.error_message) == (0, None)
    return {
        f"{topic.name}-{one.partition_index}": (
            list(one.replicas),
            list(one.adding_replicas),
            list(one.removing_replicas),
        )
        for topic in response.topics
        for one in topic.partitions
    }


def elect(
    cluster: DrivenCluster,
    wanted: Mapping[str, Sequence[int]] | None,
    election_type: int = 0,
    timeout_ms: int = ENOUGH_TIME_MS,
    **asked: Any,
) -> tuple[int, dict[str, list[tuple[int, int, str | None]]]]:
    """The error code of the response, and for each topic the index, code and text of its partitions."""
    topics = None
    if wanted is not None:
        topics = [TopicPartitions(topic=name, partitions=list(indexes)) for name, indexes in wanted.items()]
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=topics, timeout_ms=timeout_ms)
    response = cluster.ask(request, **asked)
    return response.error_code, {
        topic.topic: [(one.partition_id, one.error_code, one.error_message) for one in topic.partition_result]
        for topic in response.replica_election_results
    }
