"""A topology beside the topics that exist: its tasks, the internal topics that it needs, or why it cannot run yet."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice
from typing import Final

from klamm.broker.groups.consumer.topics import Topics
from klamm.broker.groups.limits import MAX_TASKS_OF_GROUP
from klamm.broker.groups.streams.partition_counts import (
    IncorrectlyPartitioned,
    copartition_groups,
    decide_partition_counts,
    task_count_of,
)
from klamm.broker.groups.streams.topology import Topology, TopologyFault
from klamm.controller.config_definitions.hash_order import in_hash_order
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.records.coordinator.streams_groups import Subtopology, TopicInfo

_SHOWN_TOPICS: Final = 3


class StatusCode(IntEnum):
    """What a member should know about its group, in a heartbeat's response."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic, as it has to be."""

    name: str
    partitions: int
    replication_factor: int
    """0: the cluster's default."""
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology with its number of tasks."""

    tasks: int
    source_topics: frozenset[str]
    repartition_sinks: frozenset[str]
    repartition_sources: Mapping[str, InternalTopic]
    changelogs: Mapping[str, InternalTopic]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)

    def input_topics(self) -> frozenset[str]:
        return self.source_topics | self.repartition_sources.keys()


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """The subtopologies in the order of their ids; None if their tasks cannot be counted."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: Mapping[str, InternalTopic] = field(default_factory=dict)
    """The internal topics that do not exist, in the order of Kafka's HashMap."""
    fault: tuple[StatusCode, str] | None = None
    """Why tasks cannot be assigned yet. None: they can."""

    @property
    def is_ready(self) -> bool:
        return self.fault is None


def configure(topology: Topology, topics: Topics) -> ConfiguredTopology:
    """Raises TopologyFault if no topics would help."""
    groups = copartition_groups(topology)
    missing = sorted(
        {name for each in topology.subtopologies.values() for name in each.source_topics if topics.named(name) is None}
    )
    if missing:
        text = f"Source topics {_shown(missing)} are missing."
        return ConfiguredTopology(topology.epoch, None, fault=(StatusCode.MISSING_SOURCE_TOPICS, text))
    try:
        decided = decide_partition_counts(topology, groups, topics)
        configured = {
            name: _configured(topology.subtopologies[name], topics, decided) for name in sorted(topology.subtopologies)
        }
        _refuse_too_many(configured.values())
        to_create = _missing_topics(topology, configured.values(), topics)
    except IncorrectlyPartitioned as wrong:
        return ConfiguredTopology(topology.epoch, None, fault=(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, str(wrong)))
    fault = None
    if to_create:
        fault = StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_shown(to_create)}"
    return ConfiguredTopology(topology.epoch, configured, to_create, fault)


def _configured(subtopology: Subtopology, topics: Topics, decided: Mapping[str, int]) -> ConfiguredSubtopology:
    def count_of(name: str) -> int | None:
        topic = topics.named(name)
        return topic.partitions if topic is not None else decided.get(name)

    tasks = task_count_of(subtopology, count_of)
    if tasks is None or tasks < 1:
        raise TopologyFault(ErrorCode.UNKNOWN_SERVER_ERROR)
    return ConfiguredSubtopology(
        tasks=tasks,
        source_topics=frozenset(subtopology.source_topics),
        repartition_sinks=frozenset(subtopology.repartition_sink_topics),
        repartition_sources=_internal(subtopology.repartition_source_topics, decided),
        changelogs=_internal(subtopology.state_changelog_topics, decided),
    )


def _internal(infos: Collection[TopicInfo], decided: Mapping[str, int]) -> dict[str, InternalTopic]:
    found = {}
    for info in infos:
        configs = {each.key: each.value for each in info.topic_configs}
        partitions = info.partitions or decided.get(info.name, 0)
        if partitions < 1 or len(configs) < len(info.topic_configs) or info.name in found:
            # Kafka's coordinator fails: a negative number, a config or a topic that is there twice.
            raise TopologyFault(ErrorCode.UNKNOWN_SERVER_ERROR)
        found[info.name] = InternalTopic(info.name, partitions, info.replication_factor, configs)
    return found


def _refuse_too_many(subtopologies: Iterable[ConfiguredSubtopology]) -> None:
    count = sum(each.tasks for each in subtopologies)
    if count > MAX_TASKS_OF_GROUP:
        raise TopologyFault(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"The topology has {count} tasks, which is more than {MAX_TASKS_OF_GROUP}.",
        )


def _missing_topics(
    topology: Topology, subtopologies: Iterable[ConfiguredSubtopology], topics: Topics
) -> dict[str, InternalTopic]:
    wanted: dict[str, InternalTopic] = {}
    for each in subtopologies:
        wanted.update(each.repartition_sources)
        wanted.update(each.changelogs)
    missing = {name: wanted[name] for name in in_hash_order(wanted)}
    for name in topology.required_topics():
        topic = topics.named(name)
        expected = missing.pop(name, None) if topic is not None else None
        if topic is not None and expected is not None and topic.partitions != expected.partitions:
            raise IncorrectlyPartitioned(
                f"Existing topic {name} has different number of partitions: expected {expected.partitions}, "
                f"found {topic.partitions}"
            )
    return missing


def _shown(names: Collection[str]) -> str:
    more = len(names) - _SHOWN_TOPICS
    text = ", ".join(islice(names, _SHOWN_TOPICS))
    return text if more <= 0 else f"{text} and {more} additional topics"
