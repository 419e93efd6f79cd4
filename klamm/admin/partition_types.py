"""Partitions, their replicas and their moves, as `klamm.AdminClient` is asked about them and tells about them.

Plain frozen values, as in `klamm.admin.types`, which says what a result is.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from klamm.admin.types import Result


class TopicPartition(NamedTuple):
    """One partition; as text what Kafka's tools write: `orders-0`."""

    topic_name: str
    partition_index: int

    def __str__(self) -> str:
        return f"{self.topic_name}-{self.partition_index}"


class TopicPartitionReplica(NamedTuple):
    """A partition on one broker."""

    topic_name: str
    partition_index: int
    broker_id: int

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.topic_name, self.partition_index)


class ElectionType(IntEnum):
    """Whom an election may choose: the preferred leader alone, or any replica that lives, at the price of records."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult(Result):
    """What became of one partition."""

    partition: TopicPartition

    @property
    def _subject(self) -> str:
        return f"partition {self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReassignment:
    """A move that is in progress. `replicas` has the target first, then those that leave when it is done."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus(Result):
    """How far a replica is (KIP-179), None where there is an error.

    `lag` is in messages behind the leader's log end, `status_time_ms` the time this was so, since the epoch.
    """

    replica: TopicPartitionReplica
    lag: int | None = None
    status_time_ms: int | None = None

    @property
    def _subject(self) -> str:
        return f"replica of partition {self.replica.partition} on broker {self.replica.broker_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEndOffset(Result):
    """The end of one replica's own log: the offset that its next record will have. None where there is an error."""

    replica: TopicPartitionReplica
    log_end_offset: int | None = None

    @property
    def _subject(self) -> str:
        return f"replica of partition {self.replica.partition} on broker {self.replica.broker_id}"


@dataclass(frozen=True, slots=True)
class LogDirReplica:
    """What a log directory holds of one partition.

    `offset_lag` is how far this copy is behind the high watermark *that its own broker knows*: 0 on a follower that is
    catching up, in Apache Kafka. A future copy is one that will take the place of the present one (KIP-113).
    """

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir(Result):
    """A log directory of a broker. Sizes in bytes are None where the broker does not tell."""

    broker_id: int
    path: str
    replicas: tuple[LogDirReplica, ...] = ()
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_cordoned: bool = False

    @property
    def _subject(self) -> str:
        return f"log directory {self.path!r} of broker {self.broker_id}"
