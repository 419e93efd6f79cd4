"""The first checks of every API about records: whether the partition exists, its replica, its leader, leader epoch.

A partition that never held a record has no `ReplicatedLog`: its replicas are those in the image, and its log is empty.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import fields
from typing import TypeAlias, TypeVar

from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.offline_replicas import offline_replicas
from klamm.broker.data.partition_log import PartitionLog
from klamm.broker.data.record_room import NO_ROOM
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.metadata.partition import Partition
from klamm.protocol.errors import ErrorCode
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartlyOffline(Partition):
    """A partition that never held a record, some of whose replicas are in log directories that are offline."""

    offline_replicas: tuple[int, ...] = ()


_FIELDS = [one.name for one in fields(Partition)]
Hosted: TypeAlias = ReplicatedLog | Partition
"""A partition, with its records if it ever had any. Both types have `leader`, `leader_epoch`, `isr` and `replicas`."""
EndPointT = TypeVar("EndPointT")
WantedT = TypeVar("WantedT")

ANY_EPOCH = -1
"""In place of the leader epoch that a client knows: the epochs are not compared."""


def find_topic(image: MetadataImage, name: str, topic_id: Uuid | None, denied: Collection[str]) -> Topic | ErrorCode:
    """The topic of this id, or, without an id, of this name; else an error: UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION, or TOPIC_AUTHORIZATION_FAILED for a name in `denied`, whether the topic exists or
    not."""
    topic = image.topics_by_name.get(name) if topic_id is None else image.topics_by_id.get(topic_id)
    if topic is None and topic_id is not None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if (name if topic is None else topic.name) in denied:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return topic or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def by_topic(asked: Iterable[tuple[str, Iterable[tuple[int, WantedT]]]]) -> dict[str, dict[int, WantedT]]:
    """The entries by topic and partition: the last entry of a partition applies, and a topic without partitions is
    omitted, as in Kafka."""
    wanted: dict[str, dict[int, WantedT]] = {}
    for topic_name, partitions in asked:
        if found := dict(partitions):
            wanted.setdefault(topic_name, {}).update(found)
    return wanted


def find_partition(image: MetadataImage, data: DataPlane, topic: Topic, partition_index: int) -> Hosted | None:
    """The partition, or None if the topic has no such one."""
    replicated = data.find(topic.topic_id, partition_index)
    if replicated is not None:
        return replicated
    try:
        partition = image.partitions.read(topic.row, partition_index)
    except KeyError:
        return None
    offline = offline_replicas(image, partition)
    if not offline:
        return partition
    return PartlyOffline(**{name: getattr(partition, name) for name in _FIELDS}, offline_replicas=offline)


def validate_hosted(
    hosted: Hosted, broker_id: int | None, current_leader_epoch: int = ANY_EPOCH, *, leader_only: bool = True
) -> ErrorCode:
    """NONE if the broker can answer for the partition. KAFKA_STORAGE_ERROR if the log directory of its replica is
    offline; NOT_LEADER_OR_FOLLOWER if it has no replica or another broker leads; FENCED_LEADER_EPOCH or
    UNKNOWN_LEADER_EPOCH if the client's epoch is older or newer than the partition's."""
    if isinstance(hosted, ReplicatedLog | PartlyOffline) and broker_id in hosted.offline_replicas:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if broker_id not in hosted.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if current_leader_epoch not in (ANY_EPOCH, hosted.leader_epoch):
        older = current_leader_epoch < hosted.leader_epoch
        return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
    if leader_only and hosted.leader != broker_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def log_of(hosted: Hosted) -> PartitionLog:
    """The log of a partition; if it never held a record, an empty log in the epoch of its leader."""
    if isinstance(hosted, ReplicatedLog):
        return hosted.log
    log = PartitionLog(NO_ROOM)
    log.begin_leader_epoch(hosted.leader_epoch)
    return log


def log_end_offset(hosted: Hosted, broker_id: int | None, now_ms: int) -> int:
    """The offset behind the last record that the broker's replica has."""
    if isinstance(hosted, ReplicatedLog) and broker_id is not None:
        return hosted.log_end_offset(broker_id, now_ms)
    return 0


def high_watermark(hosted: Hosted, now_ms: int) -> int:
    """The offset below which records are committed."""
    return hosted.high_watermark(now_ms) if isinstance(hosted, ReplicatedLog) else 0


def last_stable_offset(hosted: Hosted, high_watermark: int) -> int:
    """The offset below which readers of committed records may read (KIP-98)."""
    return hosted.last_stable_offset(high_watermark) if isinstance(hosted, ReplicatedLog) else 0


def end_points(
    image: MetadataImage, leaders: Iterable[int], listener_name: str | None, make: Callable[..., EndPointT]
) -> list[EndPointT]:
    """The end points of those leaders that have this listener, for clients that asked another broker (KIP-951)."""
    return [
        make(node_id=leader, host=at.host, port=at.port, rack=broker.rack)
        for leader in dict.fromkeys(leaders)
        if (broker := image.brokers.get(leader)) is not None and (at := broker.end_point(listener_name)) is not None
    ]
