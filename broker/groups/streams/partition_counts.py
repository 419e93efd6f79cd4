"""How many partitions the internal topics of a topology have to have.

A repartition topic has those that the topology says, or as many as the largest input of the subtopologies that write
it. Topics that are joined (a copartition group) must have equally many; a changelog topic has as many as its
subtopology has tasks. Order of the steps, and texts: Kafka's InternalTopicManager and the classes it uses.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from klamm.broker.groups.consumer.topics import Topics
from klamm.broker.groups.streams.topology import Topology, TopologyFault
from klamm.controller.config_definitions.hash_order import in_hash_order
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.records.coordinator.streams_groups import Subtopology

CountOf: TypeAlias = Callable[[str], int | None]
"""The partitions of a topic that exists or whose partitions are decided."""


class IncorrectlyPartitioned(Exception):
    """Topics that are there, or that the topology sizes, do not fit together."""


def copartition_groups(topology: Topology) -> list[set[str]]:
    """The names of topics that have to have equally many partitions. Raises TopologyFault."""
    return [group for each in topology.subtopologies.values() for group in _members_of_groups(each)]


def decide_partition_counts(topology: Topology, groups: Iterable[set[str]], topics: Topics) -> dict[str, int]:
    """Partitions by internal topic; `groups` are those of `copartition_groups`. Raises IncorrectlyPartitioned and
    TopologyFault. All source topics exist."""
    decided: dict[str, int] = {}

    def count_of(name: str) -> int | None:
        topic = topics.named(name)
        return topic.partitions if topic is not None else decided.get(name)

    decided.update(_repartition_topics(topology.subtopologies.values(), count_of))
    _copartition(topology, groups, count_of, decided)
    for each in topology.subtopologies.values():
        tasks = task_count_of(each, count_of)
        if tasks is None:
            raise TopologyFault(
                ErrorCode.STREAMS_INVALID_TOPOLOGY, f"No source topics found for subtopology {each.subtopology_id}"
            )
        decided.update(dict.fromkeys((topic.name for topic in each.state_changelog_topics), tasks))
    return decided


def task_count_of(subtopology: Subtopology, count_of: CountOf) -> int | None:
    """The tasks of a subtopology: the partitions of its largest input. None: it has no input."""
    names = [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]
    counts = [count_of(name) for name in names]
    if None in counts:
        raise TopologyFault(ErrorCode.UNKNOWN_SERVER_ERROR)
    return max((count for count in counts if count is not None), default=None)


def _repartition_topics(subtopologies: Iterable[Subtopology], count_of: CountOf) -> dict[str, int]:
    subtopologies = list(subtopologies)
    counts = {
        topic.name: topic.partitions
        for each in subtopologies
        for topic in each.repartition_source_topics
        if topic.partitions
    }
    waiting = [(each, sink) for each in subtopologies for sink in each.repartition_sink_topics if sink not in counts]
    while waiting:
        still = []
        for each, sink in waiting:
            if sink in counts:
                continue
            size = _largest_known_input(each, counts, count_of)
            if size is None:
                still.append((each, sink))
            else:
                counts[sink] = size
        if len(still) == len(waiting):
            raise TopologyFault(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
                "that cannot be resolved.",
            )
        waiting = still
    if any(topic.name not in counts for each in subtopologies for topic in each.repartition_source_topics):
        raise TopologyFault(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
            "never used as a sink topic.",
        )
    return counts


def _largest_known_input(subtopology: Subtopology, counts: Mapping[str, int], count_of: CountOf) -> int | None:
    known = [counts.get(topic.name) for topic in subtopology.repartition_source_topics]
    known += [count_of(name) for name in subtopology.source_topics]
    return max((count for count in known if count is not None), default=None)


def _copartition(topology: Topology, groups: Iterable[set[str]], count_of: CountOf, decided: dict[str, int]) -> None:
    """Decide the partitions of repartition topics that are joined with others, group by group."""
    sized, unsized = set[str](), set[str]()
    for each in topology.subtopologies.values():
        for topic in each.repartition_source_topics:
            (sized if topic.partitions else unsized).add(topic.name)
    for group in groups:
        if group:
            decided.update(_of_group(group, sized, unsized, count_of))


def _members_of_groups(subtopology: Subtopology) -> list[set[str]]:
    sources, repartitioned = subtopology.source_topics, subtopology.repartition_source_topics
    members = []
    for group in subtopology.copartition_groups:
        if not all(0 <= index < len(sources) for index in group.source_topics) or not all(
            0 <= index < len(repartitioned) for index in group.repartition_source_topics
        ):
            raise TopologyFault(ErrorCode.UNKNOWN_SERVER_ERROR)
        names = {sources[index] for index in group.source_topics}
        members.append(names | {repartitioned[index].name for index in group.repartition_source_topics})
    return members


def _of_group(group: set[str], sized: set[str], unsized: set[str], count_of: CountOf) -> dict[str, int]:
    """The partitions of the repartition topics of one copartition group."""
    counts = {name: _known(name, count_of) for name in sorted(group)}
    repartitioned = {name: count for name, count in counts.items() if name in sized or name in unsized}
    others = {name: count for name, count in counts.items() if name not in repartitioned}
    if others:
        size = _equal(others.values(), others)
    elif sized:
        # Kafka looks at all sized topics of the topology here, not only at those of this group.
        size = _equal((_known(name, count_of) for name in sorted(sized)), repartitioned)
    else:
        size = max(repartitioned.values())
        if not size:
            names = ", ".join(in_hash_order(repartitioned))
            raise TopologyFault(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                f"All topics in the copartition group had undefined partition number: [{names}]",
            )
    for name in in_hash_order(repartitioned):
        if name in sized and repartitioned[name] != size:
            raise IncorrectlyPartitioned(
                f"Number of partitions [{repartitioned[name]}] of repartition topic [{name}] doesn't match number of "
                f"partitions [{size}] of the source topic."
            )
    return dict.fromkeys(repartitioned, size)


def _equal(counts: Iterable[int], shown: Mapping[str, int]) -> int:
    distinct = set(counts)
    if len(distinct) > 1:
        listed = ", ".join(f"{name}={shown[name]}" for name in sorted(shown))
        raise IncorrectlyPartitioned(f"Following topics do not have the same number of partitions: [{{{listed}}}]")
    return distinct.pop()


def _known(name: str, count_of: CountOf) -> int:
    count = count_of(name)
    if count is None:
        raise TopologyFault(ErrorCode.UNKNOWN_SERVER_ERROR)
    return count
