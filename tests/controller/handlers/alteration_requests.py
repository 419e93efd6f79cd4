"""Short forms of requests that alter topics (KIP-179), and of their answers, for tables of cases."""

from collections.abc import Mapping, Sequence
from typing import Any

from klamm.protocol.messages.topics.alter_topics import AlterTopicRequest, AlterTopicsRequest, PartitionAssignment
from tests.controller.handlers.cluster import ENOUGH_TIME_MS, DrivenCluster

SAME = -1


def altered(
    name: str, count: int = SAME, factor: int = SAME, assignment: Mapping[int, Sequence[int]] | None = None
) -> AlterTopicRequest:
    """A topic with another partition count, another replication factor, or brokers by partition index."""
    return AlterTopicRequest(
        topic=name,
        num_partitions=count,
        replication_factor=factor,
        partition_assignment=[
            PartitionAssignment(partition_id=index, brokers=list(brokers))
            for index, brokers in (assignment or {}).items()
        ],
    )


def request(*topics: AlterTopicRequest, timeout: int = ENOUGH_TIME_MS, **fields: Any) -> AlterTopicsRequest:
    return AlterTopicsRequest(alter_topic_requests=topics, timeout=timeout, **fields)


def answered(response: Any) -> list[tuple[str, int]]:
    return [(one.topic, one.error_code) for one in response.topic_errors]


def alter(cluster: DrivenCluster, *topics: AlterTopicRequest, broker_id: int = 1, **fields: Any) -> list[int]:
    """The error codes, in the order of the answer."""
    return [code for _, code in answered(cluster.ask(request(*topics, **fields), broker_id=broker_id))]


def refusal(cluster: DrivenCluster, topic: AlterTopicRequest) -> tuple[int, str]:
    """Code and text of one topic's refusal."""
    [result] = cluster.ask(request(topic)).topic_errors
    return result.error_code, result.error_message or ""


def replicas(cluster: DrivenCluster, name: str = "t") -> list[tuple[int, ...]]:
    return [partition.replicas for partition in cluster.partitions(name)]
