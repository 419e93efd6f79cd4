"""The arguments and results of `klamm.AdminClient` about partitions, their replicas and their reassignments.

They are plain frozen values, as in `klamm.admin.types`, which describes results.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from klamm.admin.types import Result


class TopicPartition(NamedTuple):
    """One partition; its text form is that of Kafka's tools: `orders-0`."""

    topic_name: str
    partition_index: int

    def __str__(self) -> str:
        return f"{self.topic_name}-{self.partition_index}"


class TopicPartitionReplica(NamedTuple):
    """A replica: a partition on one broker."""

    topic_name: str
    partition_index: int
    broker_id: int

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.topic_name, self.partition_index)


class ElectionType(IntEnum):
    """Which replica an election may choose: the preferred leader only, or any live replica, which may lose records."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult(Result):
    """The result for one partition."""

    partition: TopicPartition

    @property
    def _subject(self) -> str:
        return f"partition {self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReassignment:
    """A reassignment in progress. `replicas` has the target first, then the replicas that are removed at its end."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus(Result):
    """How far a replica is (KIP-179); None if there is an error.

    `lag` is the number of messages behind the leader's log end; `status_time_ms` is the time of that, since the epoch.
    """

    replica: TopicPartitionReplica
    lag: int | None = None
    status_time_ms: int | None = None

    @property
    def _subject(self) -> str:
        return f"replica of partition {self.replica.partition} on broker {self.replica.broker_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEndOffset(Result):
    """The log end offset of one replica, which its next record will have; None if there is an error."""

    replica: TopicPartitionReplica
    log_end_offset: int | None = None

    @property
    def _subject(self) -> str:
        return f"replica of partition {self.replica.partition} on broker {self.replica.broker_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaResult(Result):
    """Whether the move of a replica into another log directory begins."""

    replica: TopicPartitionReplica

    @property
    def _subject(self) -> str:
        return f"replica of partition {self.replica.partition} on broker {self.replica.broker_id}"


@dataclass(frozen=True, slots=True)
class LogDirReplica:
    """The replica of one partition in a log directory.

    `offset_lag` is how far this copy is behind the high watermark *that its own broker knows*: in Apache Kafka, 0 on a
    follower that is catching up. A future copy replaces the present one when it has caught up (KIP-113).
    """

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir(Result):
    """A log directory of a broker. Sizes are in bytes; None if the broker does not return them."""

    broker_id: int
    path: str
    replicas: tuple[LogDirReplica, ...] = ()
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_cordoned: bool = False

    @property
    def _subject(self) -> str:
        return f"log directory {self.path!r} of broker {self.broker_id}"
