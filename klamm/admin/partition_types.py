"""The arguments and results of `klamm.AdminClient` about partitions, their replicas and their reassignments.

They are plain frozen values, as in `klamm.admin.types`, which describes results.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from klamm.admin.types import Result


class TopicPartition(NamedTuple):
    """One partition. Its text form is that of Kafka's tools, such as `orders-0`."""

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
    """The replicas that an election may choose: the preferred leader only, or any live replica. The second choice may
    lose records."""

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
    """A reassignment in progress. `replicas` has the target first, and then the replicas that the reassignment
    removes."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus(Result):
    """The lag of a replica (KIP-179).

    `lag` is the number of messages behind the leader's log end offset. `status_time_ms` is the time of this number, in
    ms since 1970. Both are None if there is an error."""

    replica: TopicPartitionReplica
    lag: int | None = None
    status_time_ms: int | None = None

    @property
    def _subject(self) -> str:
        return f"replica of partition {self.replica.partition} on broker {self.replica.broker_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEndOffset(Result):
    """The log end offset of one replica: the offset of its next record. None if there is an error."""

    replica: TopicPartitionReplica
    log_end_offset: int | None = None

    @property
    def _subject(self) -> str:
        return f"replica of partition {self.replica.partition} on broker {self.replica.broker_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaResult(Result):
    """The result of a request to move a replica into another log directory."""

    replica: TopicPartitionReplica

    @property
    def _subject(self) -> str:
        return f"replica of partition {self.replica.partition} on broker {self.replica.broker_id}"


@dataclass(frozen=True, slots=True)
class LogDirReplica:
    """The replica of one partition in a log directory.

    `offset_lag` is the number of messages behind the high watermark that the replica's broker knows. In Apache Kafka it
    is 0 on a follower that is catching up. A future replica replaces the present one when it has caught up (KIP-113).
    """

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir(Result):
    """A log directory of a broker. Sizes are in bytes, or None if the broker does not return them."""

    broker_id: int
    path: str
    replicas: tuple[LogDirReplica, ...] = ()
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_cordoned: bool = False

    @property
    def _subject(self) -> str:
        return f"log directory {self.path!r} of broker {self.broker_id}"
