"""The topology of a Kafka Streams application, as its members send it and the group's record keeps it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from klamm.controller.config_definitions.hash_order import in_hash_order
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.messages.streams import streams_group_heartbeat as message
from klamm.protocol.records.coordinator.streams_groups import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)


class TopologyFault(Exception):
    """Nothing can be made of the topology; `code` and `text` are for the client."""

    def __init__(self, code: ErrorCode, text: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class Topology:
    """The subtopologies by id, in the order of a HashMap: Kafka walks one where the order shows."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]
    reader_of: Mapping[str, str]
    """The subtopology that reads a topic, by the topic's name."""

    def required_topics(self) -> list[str]:
        """The topics that have to exist for the tasks to run, in the order of a HashSet."""
        return in_hash_order(
            name
            for each in self.subtopologies.values()
            for name in (
                *each.source_topics,
                *_names(each.repartition_source_topics),
                *_names(each.state_changelog_topics),
            )
        )


def topology_of(value: StreamsGroupTopologyValue) -> Topology:
    """The topology in a record. Raises TopologyFault for what Kafka's coordinator fails at: a subtopology that is there
    twice, a negative epoch."""
    by_id = {each.subtopology_id: each for each in value.subtopologies}
    if len(by_id) < len(value.subtopologies) or value.epoch < 0:
        raise TopologyFault(ErrorCode.UNKNOWN_SERVER_ERROR)
    ordered = {name: by_id[name] for name in in_hash_order(by_id)}
    reader_of = {}
    for name, each in ordered.items():
        reader_of.update(dict.fromkeys(each.source_topics, name))
        reader_of.update(dict.fromkeys(_names(each.repartition_source_topics), name))
    return Topology(value.epoch, ordered, reader_of)


def topology_record(topology: message.Topology) -> StreamsGroupTopologyValue:
    """The topology of a request in the form of its record."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=list(each.source_topics),
                source_topic_regex=list(each.source_topic_regex),
                repartition_sink_topics=list(each.repartition_sink_topics),
                repartition_source_topics=_topics(each.repartition_source_topics),
                state_changelog_topics=_topics(each.state_changelog_topics),
                copartition_groups=[
                    CopartitionGroup(
                        source_topics=list(group.source_topics),
                        source_topic_regex=list(group.source_topic_regex),
                        repartition_source_topics=list(group.repartition_source_topics),
                    )
                    for group in each.copartition_groups
                ],
            )
            for each in topology.subtopologies
        ],
    )


def _topics(topics: Iterable[message.TopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[TopicConfig(key=each.key, value=each.value) for each in topic.topic_configs],
        )
        for topic in topics
    ]


def _names(topics: Iterable[TopicInfo]) -> list[str]:
    return [topic.name for topic in topics]
