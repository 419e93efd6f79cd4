"""The end points of an application's processes, with the partitions that each can be asked about."""

from collections.abc import Iterable, Mapping

from klamm.assignment.kafka.java_hash_map import hash_order
from klamm.broker.groups.consumer.topics import Topics
from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.groups.streams.internal_topics import ConfiguredSubtopology, ConfiguredTopology
from klamm.broker.groups.streams.member import Member
from klamm.protocol.messages.streams.streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition


def partitions_by_endpoint(
    group: StreamsGroup, updated: Member, topology: ConfiguredTopology, topics: Topics
) -> list[EndpointToPartitions]:
    """One entry for each member with an end point; `updated` is one as it will be."""
    others = [member for member in group.in_table_order() if member.member_id != updated.member_id]
    subtopologies = topology.subtopologies or {}
    return [
        EndpointToPartitions(
            user_endpoint=Endpoint(host=member.user_endpoint.host, port=member.user_endpoint.port),
            active_partitions=_partitions(member.assigned.active, subtopologies, topics),
            standby_partitions=_partitions(member.assigned.standby, subtopologies, topics),
        )
        for member in (*others, updated)
        if member.user_endpoint is not None
    ]


def _partitions(
    tasks: Mapping[str, Iterable[int]], subtopologies: Mapping[str, ConfiguredSubtopology], topics: Topics
) -> list[TopicPartition]:
    found = []
    for subtopology_id, indexes in tasks.items():
        subtopology = subtopologies.get(subtopology_id)
        for name in sorted(subtopology.input_topics()) if subtopology is not None else ():
            topic = topics.named(name)
            if topic is not None:
                found.append(TopicPartition(topic=name, partitions=_within(sorted(indexes), topic.partitions)))
    return found


def _within(tasks: list[int], size: int) -> list[int]:
    """The tasks of a topic of this size, in the order of a HashSet. Where there are more tasks than partitions, Kafka
    takes the first ones, whichever these are."""
    if size < len(tasks):
        return tasks[:size]
    return [tasks[at] for at in hash_order(tasks)]
