"""The steps of a case, as values: what is asked of the real cluster and of its twin in the same words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from klamm import ConfigAlteration, ConfigResource, ElectionType, NewPartitions, NewTopic, TopicPartition


@dataclass(frozen=True, slots=True)
class Reassign:
    """AlterPartitionReassignments. A target of None cancels."""

    targets: Mapping[TopicPartition, tuple[int, ...] | None]
    may_change_factor: bool = True


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """CreateTopics with one topic."""

    topic: NewTopic


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """CreatePartitions for one topic."""

    wanted: NewPartitions


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """DeleteTopics with one topic."""

    name: str


@dataclass(frozen=True, slots=True)
class SetConfigs:
    """IncrementalAlterConfigs of one resource."""

    resource: ConfigResource
    edits: tuple[ConfigAlteration, ...]


@dataclass(frozen=True, slots=True)
class Elect:
    """ElectLeaders. None: all partitions."""

    partitions: tuple[TopicPartition, ...] | None
    kind: ElectionType


@dataclass(frozen=True, slots=True)
class StopBroker:
    """A broker shuts down or is killed. The step ends when the controller has fenced it."""

    broker_id: int
    mode: Literal["shutdown", "crash"]


@dataclass(frozen=True, slots=True)
class StartBroker:
    """A broker comes back with its data. The step ends when it serves."""

    broker_id: int


Step: TypeAlias = Reassign | CreateTopic | AddPartitions | DeleteTopic | SetConfigs | Elect | StopBroker | StartBroker
