"""The requests of the benchmark of reassignments, ready to be sent, and what their answers say."""

from collections.abc import Sequence

from bench.raw_client import CREATE_TOPICS_VERSION, SERVER_TIMEOUT_MS, Refused, request_frame
from klamm.protocol.codec.requests import decode_response
from klamm.protocol.messages.partitions import alter_partition_reassignments, list_partition_reassignments
from klamm.protocol.messages.topics import create_topics

ALTER_VERSION = 1
LIST_VERSION = 0


def assigned_topic_frame(topic_name: str, assignments: Sequence[Sequence[int]]) -> bytes:
    """CreateTopics for one topic, with the replicas of each of its partitions."""
    rows = [
        create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
        for index, replicas in enumerate(assignments)
    ]
    topic = create_topics.CreatableTopic(name=topic_name, num_partitions=-1, replication_factor=-1, assignments=rows)
    return request_frame(create_topics.API, CREATE_TOPICS_VERSION, create_topics.CreateTopicsRequest(topics=[topic]))


def reassign_frame(topic_names: Sequence[str], targets: Sequence[Sequence[int] | None]) -> bytes:
    """AlterPartitionReassignments of all partitions of some topics to the same targets; None cancels."""
    partitions = [
        alter_partition_reassignments.ReassignablePartition(partition_index=index, replicas=target)
        for index, target in enumerate(targets)
    ]
    topics = [alter_partition_reassignments.ReassignableTopic(name=name, partitions=partitions) for name in topic_names]
    request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        timeout_ms=SERVER_TIMEOUT_MS, topics=topics
    )
    return request_frame(alter_partition_reassignments.API, ALTER_VERSION, request)


def list_frame(topic_names: Sequence[str] | None, partitions: Sequence[int] = ()) -> bytes:
    """ListPartitionReassignments: of these partitions of each of these topics; None: of all."""
    topics = None
    if topic_names is not None:
        topics = [
            list_partition_reassignments.ListPartitionReassignmentsTopics(name=name, partition_indexes=partitions)
            for name in topic_names
        ]
    request = list_partition_reassignments.ListPartitionReassignmentsRequest(
        timeout_ms=SERVER_TIMEOUT_MS, topics=topics
    )
    return request_frame(list_partition_reassignments.API, LIST_VERSION, request)


def refuse_unaltered(payload: bytes, partitions: int) -> None:
    """Raise `Refused` unless an AlterPartitionReassignments answer grants this many partitions, and nothing else."""
    _, response = decode_response(alter_partition_reassignments.API, ALTER_VERSION, payload)
    if response.error_code:
        raise Refused(f"AlterPartitionReassignments: error {response.error_code}, {response.error_message}")
    results = [(topic.name, result) for topic in response.responses for result in topic.partitions]
    for name, result in results:
        if result.error_code:
            at = f"{name}-{result.partition_index}"
            raise Refused(f"AlterPartitionReassignments {at}: error {result.error_code}, {result.error_message}")
    if len(results) != partitions:
        raise Refused(f"AlterPartitionReassignments answers {len(results):,} partitions of {partitions:,}")


def count_listed(payload: bytes) -> int:
    """The number of partitions in a ListPartitionReassignments answer."""
    _, response = decode_response(list_partition_reassignments.API, LIST_VERSION, payload)
    if response.error_code:
        raise Refused(f"ListPartitionReassignments: error {response.error_code}, {response.error_message}")
    return sum(len(topic.partitions) for topic in response.topics)
