"""Topics as Metadata describes them, with all their partitions.

Few partitions are described one by one. Many are one run of columns, and each topic has a slice of it. If there are
many topics, the topics are columns, too.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from klamm.controller.handlers.topics.partition_columns import PartitionColumns, lengths, only, read_partitions
from klamm.controller.metadata.broker_set import BrokerSet
from klamm.controller.metadata.image import INTERNAL_TOPICS, MetadataImage, Topic
from klamm.controller.metadata.live_replicas import LiveReplicas
from klamm.protocol.columns import Columns, ColumnsSlice, Parts
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics.metadata import MetadataResponsePartition, MetadataResponseTopic

FEW_PARTITIONS = 8
"""Up to this many partitions are read and encoded faster one by one than as columns."""
MANY_TOPICS = 64
"""From this number of topics on, the topics are columns."""


FIRST_VERSION_WITH_LISTENER_NOT_FOUND = 6


class Online(NamedTuple):
    """The brokers that the answer names, and the replicas on them whose log directories are online."""

    brokers: BrokerSet
    replicas: LiveReplicas
    first_unfenced: int
    """The lowest id of an unfenced broker, with any listeners; -1: there is none."""
    elsewhere: BrokerSet | None
    """Unfenced brokers without the listener that was asked: the answer does not name them as leaders. None: no such
    broker."""
    elsewhere_code: ErrorCode

    @classmethod
    def of(cls, image: MetadataImage, listener_name: str | None, api_version: int) -> Self:
        unfenced = image.unfenced_brokers()
        first = int(unfenced.ids[0]) if len(unfenced) else -1
        elsewhere = without_listener(image, unfenced, listener_name)
        told = unfenced if elsewhere is None else unfenced.without(*elsewhere.ids.tolist())
        is_known = api_version >= FIRST_VERSION_WITH_LISTENER_NOT_FOUND
        code = ErrorCode.LISTENER_NOT_FOUND if is_known else ErrorCode.LEADER_NOT_AVAILABLE
        return cls(told, LiveReplicas(image, told), first, elsewhere, code)


def without_listener(image: MetadataImage, unfenced: BrokerSet, listener_name: str | None) -> BrokerSet | None:
    """The unfenced brokers that have no listener of this name; None if all have one, or no name is asked for."""
    if listener_name is None:
        return None
    absent = [one for one in unfenced.ids.tolist() if image.brokers[one].end_point(listener_name) is None]
    return BrokerSet(absent) if absent else None


def describe_all(
    image: MetadataImage, topics: Sequence[Topic], online: Online, *, drop_dead: bool
) -> Sequence[MetadataResponseTopic]:
    """The topics, in the order given; as `Columns` if there are many. With `drop_dead`, replicas on dead brokers are
    omitted (Metadata version 0)."""
    if len(topics) < MANY_TOPICS:
        return describe_each(image, topics, online, drop_dead=drop_dead)
    read = read_partitions(image, topics, online.replicas)
    names = [topic.name for topic in topics]
    topic_ids = b"".join([topic.topic_id for topic in topics])
    return Columns(
        MetadataResponseTopic,
        len(topics),
        {
            "name": np.array(names, object),
            "topic_id": np.frombuffer(topic_ids, np.uint8).reshape(-1, 16),
            "is_internal": np.fromiter(map(INTERNAL_TOPICS.__contains__, names), bool, len(names)),
            "partitions": Parts(_partitions(read, online, drop_dead), read.bounds),
        },
    )


def describe_each(
    image: MetadataImage, topics: Sequence[Topic], online: Online, *, drop_dead: bool, copied: bool = False
) -> list[MetadataResponseTopic]:
    """The same, one message per topic. With `copied` the messages do not change when the cluster does."""
    answers = [
        MetadataResponseTopic(name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal)
        for topic in topics
    ]
    if sum(map(image.partition_count, topics)) <= FEW_PARTITIONS:
        for answer, topic in zip(answers, topics, strict=True):
            answer.partitions = _one_by_one(image, topic, online, drop_dead)
        return answers
    read = read_partitions(image, topics, online.replicas, copied=copied)
    columns = _partitions(read, online, drop_dead)
    for answer, (first, end) in zip(answers, pairwise(read.bounds.tolist()), strict=True):
        answer.partitions = ColumnsSlice(columns, first, end)
    return answers


def _one_by_one(image: MetadataImage, topic: Topic, online: Online, drop_dead: bool) -> list[MetadataResponsePartition]:
    described = []
    for index in range(image.partition_count(topic)):
        partition = image.partitions.read(topic.row, index)
        dead = [replica for replica in partition.replicas if replica not in online.brokers]
        is_elsewhere = online.elsewhere is not None and partition.leader in online.elsewhere
        answer = MetadataResponsePartition(
            error_code=ErrorCode.NONE if partition.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            offline_replicas=[
                replica
                for replica, directory in zip(partition.replicas, partition.directories, strict=True)
                if replica in dead or not image.brokers[replica].has_directory(directory)
            ],
        )
        if is_elsewhere:
            answer.error_code, answer.leader_id = online.elsewhere_code, -1
        if drop_dead and dead:
            answer.error_code = answer.error_code or ErrorCode.REPLICA_NOT_AVAILABLE
            answer.replica_nodes = [replica for replica in partition.replicas if replica not in dead]
            answer.isr_nodes = [replica for replica in partition.isr if replica not in dead]
        described.append(answer)
    return described


def _partitions(read: PartitionColumns, online: Online, drop_dead: bool) -> Columns[MetadataResponsePartition]:
    replicas, isr, leader_id = read.replicas, read.isr, read.leader_id
    error_code = np.where(read.leader_id < 0, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE).astype(np.int16)
    if online.elsewhere is not None:
        is_elsewhere = online.elsewhere.holds(leader_id)
        error_code[is_elsewhere] = online.elsewhere_code
        leader_id = np.where(is_elsewhere, np.int32(-1), leader_id)
    if drop_dead:
        replicas, isr = only(replicas, online.brokers), only(isr, online.brokers)
        any_dead = lengths(replicas) < lengths(read.replicas)
        error_code[(error_code == ErrorCode.NONE) & any_dead] = ErrorCode.REPLICA_NOT_AVAILABLE
    return Columns(
        MetadataResponsePartition,
        len(read.partition_index),
        {
            "error_code": error_code,
            "partition_index": read.partition_index,
            "leader_id": leader_id,
            "leader_epoch": read.leader_epoch,
            "replica_nodes": replicas,
            "isr_nodes": isr,
            "offline_replicas": read.offline_replicas,
        },
    )
