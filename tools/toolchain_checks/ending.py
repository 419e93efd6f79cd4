"""Compares the last answers that clients got with the content of the log: brokers, topics, partitions, configs."""

from collections.abc import Iterator

from klamm import Broker, PartitionDescription, TopicDescription
from klamm.controller.metadata.image import TOPIC_RESOURCE
from tools.toolchain_checks.cluster_state import BrokerRegistration, ClusterState, PartitionState
from tools.toolchain_checks.story import WIDE_PARTITIONS, Ending


def missing_from(ending: Ending) -> list[str]:
    """What the ending of a story lacks for the comparison to be meaningful."""
    partitions = [partition for topic in ending.topics for partition in topic.partitions]
    present = {
        "a fenced broker": any(broker.fenced for broker in ending.brokers),
        "a broker without a rack": any(broker.rack is None for broker in ending.brokers),
        "a topic made of runs of columns": any(len(topic.partitions) >= WIDE_PARTITIONS for topic in ending.topics),
        "a leader epoch above 2": any((partition.leader_epoch or 0) > 2 for partition in partitions),
        "a partition that waits for an eligible leader": any(
            partition.leader is None and partition.eligible_leader_replicas for partition in partitions
        ),
        "a partition below its minimum ISR": any(
            partition.leader is not None and partition.eligible_leader_replicas for partition in partitions
        ),
        "a topic with configs": any(ending.configs.values()),
    }
    return [what for what, is_there in present.items() if not is_there]


def differences_from_ending(state: ClusterState, ending: Ending) -> list[str]:
    """One line for each difference between the answers that clients got and the log."""
    return [
        *_brokers(state, ending),
        *_topics(state, ending),
        *_unseen(state, ending),
        *_configs(state, ending),
    ]


def _brokers(state: ClusterState, ending: Ending) -> Iterator[str]:
    shown = {broker.broker_id: broker for broker in ending.brokers}
    if shown.keys() != state.brokers.keys():
        yield f"clients saw brokers {sorted(shown)}, the log has {sorted(state.brokers)}"
    for broker_id in shown.keys() & state.brokers.keys():
        logged = _as_shown(broker_id, state.brokers[broker_id])
        if logged != shown[broker_id]:
            yield f"clients saw {shown[broker_id]}, the log has {logged}"
    # Metadata leaves fenced brokers out.
    unfenced = sorted(broker_id for broker_id, broker in state.brokers.items() if not broker.fenced)
    if [broker.broker_id for broker in ending.cluster.brokers] != unfenced:
        yield f"Metadata has brokers {[b.broker_id for b in ending.cluster.brokers]}, unfenced are {unfenced}"


def _as_shown(broker_id: int, broker: BrokerRegistration) -> Broker:
    _, host, port = broker.end_points[0]
    return Broker(broker_id, host, port, broker.rack, broker.fenced)


def _topics(state: ClusterState, ending: Ending) -> Iterator[str]:
    in_metadata = {topic.topic_name: topic for topic in ending.cluster.topics}
    if in_metadata.keys() != {topic.topic_name for topic in ending.topics}:
        yield f"Metadata and DescribeTopicPartitions have different topics: {sorted(map(str, in_metadata))}"
    for topic in ending.topics:
        name = topic.topic_name or ""
        if str(topic.topic_id) != state.topic_ids.get(name):
            yield f"clients saw {name} with id {topic.topic_id}, the log has {state.topic_ids.get(name)}"
        for partition in topic.partitions:
            key = (name, partition.partition_index)
            logged = state.partitions.get(key)
            if logged is None or not _is_as_shown(logged, partition):
                yield f"clients saw {name} {partition}, the log has {logged}"
        yield from _in_metadata(topic, in_metadata.get(name))


def _is_as_shown(logged: PartitionState, shown: PartitionDescription) -> bool:
    return (
        logged.replicas,
        logged.isr,
        None if logged.leader < 0 else logged.leader,
        logged.leader_epoch,
        logged.eligible_leader_replicas,
        logged.last_known_elr,
    ) == (
        shown.replicas,
        shown.isr,
        shown.leader,
        shown.leader_epoch,
        shown.eligible_leader_replicas,
        shown.last_known_eligible_leader_replicas,
    )


def _in_metadata(topic: TopicDescription, other: TopicDescription | None) -> Iterator[str]:
    """The same as Metadata has it: without eligible leader replicas, for which it has no field."""
    if other is None or other.topic_id != topic.topic_id or len(other.partitions) != len(topic.partitions):
        yield f"{topic.topic_name} is another one in Metadata"
        return
    for one, two in zip(topic.partitions, other.partitions, strict=True):
        if _facts(one) != _facts(two):
            yield f"{topic.topic_name}: DescribeTopicPartitions has {one}, Metadata {two}"


def _facts(partition: PartitionDescription) -> tuple[object, ...]:
    return (
        partition.partition_index,
        partition.leader,
        partition.leader_epoch,
        partition.replicas,
        partition.isr,
        partition.offline_replicas,
    )


def _unseen(state: ClusterState, ending: Ending) -> Iterator[str]:
    shown = {(topic.topic_name or "", p.partition_index) for topic in ending.topics for p in topic.partitions}
    for key in sorted(state.partitions.keys() - shown):
        yield f"clients did not see {key}"
    for name in sorted(state.topic_ids.keys() - {topic.topic_name or "" for topic in ending.topics}):
        yield f"clients did not see topic {name}"


def _configs(state: ClusterState, ending: Ending) -> Iterator[str]:
    logged: dict[str, dict[str, str | None]] = {name: {} for name in ending.configs}
    for (resource_type, resource_name, name), value in state.configs.items():
        if resource_type == TOPIC_RESOURCE:
            logged.setdefault(resource_name, {})[name] = value
    for name in logged.keys() | ending.configs.keys():
        if logged.get(name) != ending.configs.get(name):
            yield f"clients saw configs {ending.configs.get(name)} of {name}, the log has {logged.get(name)}"
