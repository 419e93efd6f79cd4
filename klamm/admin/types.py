"""The arguments and results of `klamm.AdminClient`: plain frozen values, no bytes, no I/O.

A result describes one item of an answer. Its `error` is None or the broker's reason, and `raise_for_error()` raises it
as `RequestFailed`. A value that the broker does not return (it is too old, or the item failed) is None, never -1. The
arguments raise TypeError if a field has a wrong type.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Self

from klamm.admin.checks import checked_items, expect, expect_assignments, expect_configs
from klamm.admin.errors import RequestFailed
from klamm.protocol.errors import ApiError
from klamm.protocol.uuid import Uuid


class ConfigResourceType(IntEnum):
    """The type of a resource that has configs."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The source of a config's value."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        # A later version of Kafka may have a source that is unknown here.
        return cls(0) if isinstance(value, int) else None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 means the broker's default (KIP-464).

    `replica_assignments` is a manual assignment: the broker ids of each partition index, with the preferred leader
    first. With an assignment, leave both numbers at -1. Brokers refuse a config value of None."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict)
    replica_assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expect("topic name", self.name, str)
        expect("num_partitions", self.num_partitions, int)
        expect("replication_factor", self.replication_factor, int)
        expect_configs(self.configs)
        expect_assignments(self.replica_assignments)


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """A topic that gets `total_count` partitions. `replica_assignments` has a list of broker ids per new partition, in
    order."""

    topic_name: str
    total_count: int
    replica_assignments: Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        expect("topic name", self.topic_name, str)
        expect("total_count", self.total_count, int)
        if self.replica_assignments is not None:
            for broker_ids in checked_items("replica_assignments", self.replica_assignments, Sequence):
                checked_items("broker ids", broker_ids, int)


@dataclass(frozen=True, slots=True)
class TopicAlteration:
    """The wanted state of a topic (KIP-179). -1 means no change.

    `replica_assignments` is a manual assignment: the broker ids of each partition index, with the preferred leader
    first. Without it, the controller chooses the replicas."""

    topic_name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expect("topic name", self.topic_name, str)
        expect("num_partitions", self.num_partitions, int)
        expect("replication_factor", self.replication_factor, int)
        expect_assignments(self.replica_assignments)


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """The resource whose configs are described or altered."""

    type: ConfigResourceType
    name: str

    def __post_init__(self) -> None:
        expect("resource type", self.type, ConfigResourceType)
        expect("resource name", self.name, str)

    @classmethod
    def topic(cls, topic_name: str) -> Self:
        return cls(ConfigResourceType.TOPIC, topic_name)

    @classmethod
    def broker(cls, broker_id: int | None = None) -> Self:
        """One broker's configs; without an id, the dynamic cluster-wide defaults."""
        return cls(ConfigResourceType.BROKER, "" if broker_id is None else str(broker_id))

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name!r}"


class ConfigOperation(IntEnum):
    """The operation on a config. Append and subtract are for lists only."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigAlteration:
    """The alteration of one config, such as `ConfigAlteration("retention.ms", "1000")`. The methods of the class make
    other alterations."""

    name: str
    value: str | None = None
    operation: ConfigOperation = ConfigOperation.SET

    def __post_init__(self) -> None:
        expect("operation", self.operation, ConfigOperation)
        expect_configs({self.name: self.value})

    @classmethod
    def delete(cls, name: str) -> Self:
        """Remove the config, so that the inherited value or the default applies."""
        return cls(name, None, ConfigOperation.DELETE)

    @classmethod
    def append(cls, name: str, items: str) -> Self:
        """Add items, separated by commas, to a list."""
        return cls(name, items, ConfigOperation.APPEND)

    @classmethod
    def subtract(cls, name: str, items: str) -> Self:
        """Remove items, separated by commas, from a list."""
        return cls(name, items, ConfigOperation.SUBTRACT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result for one item of a request."""

    error: ApiError | None = None

    @property
    def _subject(self) -> str:
        return "request"

    def raise_for_error(self) -> Self:
        """Returns the result itself, or raises its error as `RequestFailed`."""
        if self.error is not None:
            raise RequestFailed(self._subject, self.error)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResult(Result):
    """The result for one topic. If the request named it by id, the name may be missing. If the request named it by
    name, the id may be missing."""

    topic_name: str | None
    topic_id: Uuid | None = None

    @property
    def _subject(self) -> str:
        return f"topic {self.topic_name!r}" if self.topic_name is not None else f"topic id {self.topic_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic(TopicResult):
    """The state of a created topic, with the broker's defaults. With `validate_only`, the state that it would have."""

    num_partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A value of a config at one level. The strongest level is first."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One effective config. The value of a sensitive config is None."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceResult(Result):
    """The result for one resource."""

    resource: ConfigResource

    @property
    def _subject(self) -> str:
        return str(self.resource)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceConfigs(ResourceResult):
    """The configs of one resource, by name."""

    configs: Mapping[str, ConfigEntry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker and its address for clients. `fenced` is False if the response does not have this field."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription(Result):
    """One partition. `leader` is None while the partition has no leader. `replicas` has the preferred leader first.

    Negative ids in `replicas` are placeholders for missing brokers (KIP-409). Only `describe_topic_partitions` returns
    the last two members."""

    partition_index: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_eligible_leader_replicas: tuple[int, ...] = ()

    @property
    def _subject(self) -> str:
        return f"partition {self.partition_index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription(TopicResult):
    """A topic and its partitions, in the order of their indexes."""

    is_internal: bool = False
    partitions: tuple[PartitionDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """The metadata of one broker. `topics` has all requested topics. A topic that does not exist has an `error`."""

    cluster_id: str | None
    controller_id: int | None
    brokers: tuple[Broker, ...]
    topics: tuple[TopicDescription, ...]


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster and its brokers. In KRaft, `controller_id` is the id of any live broker."""

    cluster_id: str
    controller_id: int | None
    brokers: tuple[Broker, ...]
