"""A cluster's metadata as plain values, to compare what several readers make of one log.

The readers are our own replay and Kafka's image, which comes as the records of its snapshot or as the shell's tree.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from klamm.controller.metadata.image import TOPIC_RESOURCE, MetadataImage
from klamm.protocol.fields import Message
from klamm.protocol.records.brokers import RegisterBrokerRecord
from klamm.protocol.records.cluster import FeatureLevelRecord
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.records.topics import TopicRecord

K = TypeVar("K")
V = TypeVar("V")


class PartitionState(NamedTuple):
    """One partition; ids of directories as text."""

    replicas: tuple[int, ...]
    directories: tuple[str, ...]
    isr: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int


class BrokerRegistration(NamedTuple):
    """One registered broker, fenced or not; ids as text."""

    broker_epoch: int
    incarnation_id: str
    end_points: tuple[tuple[str, str, int], ...]
    """Listener name, host and port."""
    features: tuple[tuple[str, int, int], ...]
    """Name, lowest and highest level, by name."""
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[str, ...]
    cordoned_log_dirs: tuple[str, ...] | None


@dataclass(slots=True)
class ClusterState:
    """All that Klamm writes into a log."""

    features: dict[str, int] = field(default_factory=dict)
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[tuple[str, int], PartitionState] = field(default_factory=dict)
    """By topic name and partition index."""
    configs: dict[tuple[int, str, str], str] = field(default_factory=dict)
    """By resource type, resource name and config name."""


def differences(ours: ClusterState, theirs: ClusterState, their_name: str) -> list[str]:
    """One line for each difference."""
    found: list[str] = []
    found += _differences("feature", ours.features, theirs.features, their_name)
    found += _differences("broker", ours.brokers, theirs.brokers, their_name)
    found += _differences("topic", ours.topic_ids, theirs.topic_ids, their_name)
    found += _differences("config", ours.configs, theirs.configs, their_name)
    found += _differences("partition", ours.partitions, theirs.partitions, their_name)
    return found


def _differences(what: str, ours: Mapping[K, V], theirs: Mapping[K, V], their_name: str) -> Iterator[str]:
    for key in [*ours, *(theirs.keys() - ours.keys())]:
        if ours.get(key) != theirs.get(key):
            yield f"{what} {key}: we have {ours.get(key)}, {their_name} {theirs.get(key)}"


def state_of_image(image: MetadataImage) -> ClusterState:
    """The state of an image that Klamm's replay made of the log."""
    state = ClusterState(features=dict(image.features))
    for broker in image.brokers.values():
        state.brokers[broker.broker_id] = BrokerRegistration(
            broker_epoch=broker.broker_epoch,
            incarnation_id=str(broker.incarnation_id),
            end_points=tuple((at.name, at.host, at.port) for at in broker.end_points),
            features=tuple(sorted(broker.features)),
            rack=broker.rack,
            fenced=broker.fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown,
            log_dirs=_texts(broker.log_dirs),
            cordoned_log_dirs=None if broker.cordoned_log_dirs is None else _texts(broker.cordoned_log_dirs),
        )
    for (resource_type, resource_name), configs in image.configs.items():
        for name, value in configs.items():
            state.configs[resource_type, resource_name, name] = value
    for topic in image.topics_by_name.values():
        state.topic_ids[topic.name] = str(topic.topic_id)
        for index in range(image.partition_count(topic)):
            partition = image.partitions.read(topic.row, index)
            state.partitions[topic.name, index] = PartitionState(
                replicas=partition.replicas,
                directories=_texts(partition.directories),
                isr=partition.isr,
                eligible_leader_replicas=partition.eligible_leader_replicas,
                last_known_elr=partition.last_known_elr,
                leader=partition.leader,
                leader_recovery_state=partition.leader_recovery_state,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
            )
    return state


def state_of_snapshot(records: Iterable[Message]) -> ClusterState:
    """The state in a snapshot, which has one complete record per thing."""
    state = ClusterState()
    names: dict[str, str] = {}
    for record in records:
        match record:
            case FeatureLevelRecord():
                state.features[record.name] = record.feature_level
            case RegisterBrokerRecord():
                state.brokers[record.broker_id] = _registration(record)
            case ConfigRecord():
                state.configs[record.resource_type, record.resource_name, record.name] = record.value or ""
            case TopicRecord():
                state.topic_ids[record.name] = str(record.topic_id)
                names[str(record.topic_id)] = record.name
            case PartitionRecord():
                state.partitions[names[str(record.topic_id)], record.partition_id] = _partition(record)
            case _:  # the real controller's own registration
                pass
    # Kafka's image (4.3) keeps the configs of a topic whose creation and deletion it reads together, as at a start.
    state.configs = {
        key: value for key, value in state.configs.items() if key[0] != TOPIC_RESOURCE or key[1] in state.topic_ids
    }
    return state


def _registration(record: RegisterBrokerRecord) -> BrokerRegistration:
    return BrokerRegistration(
        broker_epoch=record.broker_epoch,
        incarnation_id=str(record.incarnation_id),
        end_points=tuple((at.name, at.host, at.port) for at in record.end_points),
        features=tuple(sorted((f.name, f.min_supported_version, f.max_supported_version) for f in record.features)),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=_texts(record.log_dirs),
        cordoned_log_dirs=None if record.cordoned_log_dirs is None else _texts(record.cordoned_log_dirs),
    )


def _partition(record: PartitionRecord) -> PartitionState:
    return PartitionState(
        replicas=tuple(record.replicas),
        directories=_texts(record.directories),
        isr=tuple(record.isr),
        eligible_leader_replicas=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
        leader=record.leader,
        leader_recovery_state=record.leader_recovery_state,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
    )


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)
