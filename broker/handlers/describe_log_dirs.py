"""DescribeLogDirs (35): which replicas the broker that was asked hosts, and in which directory.

The directories are those of the broker's `log.dirs` or `log.dir`. Their total size is unknown (-1, as in KIP-827).
Partitions that do not exist, or have no replica on this broker, are omitted, and so are replicas for which the broker
has not chosen a directory yet. The offset lag of a replica is always 0, as on a real broker: it compares the replica
with the high watermark that the broker knows, which is never above the replica's end offset. That of a future replica
is how far it is behind the present one. ReplicaStatus returns how far a replica is behind its leader.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.log_dirs.directories import LogDir, LogDirs, new_log_dirs
from klamm.controller.authorizer import AclOperation
from klamm.controller.context import RequestContext
from klamm.controller.metadata.columns import Ints, among
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.outcome import Outcome
from klamm.protocol.columns import Columns
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from klamm.protocol.uuid import Uuid


def handle_describe_log_dirs(
    brokers: SimulatedBrokers, image: MetadataImage, request: DescribeLogDirsRequest, context: RequestContext
) -> Outcome:
    """The directories, with the replicas asked for; with all replicas on the broker if the request names no topics."""
    denied = context.refuse_cluster(AclOperation.DESCRIBE)
    if denied:
        # The first versions have no field for the error: their answer has no directories instead.
        return Outcome(DescribeLogDirsResponse(error_code=denied.code))
    broker = image.brokers.get(-1 if context.requester.asked_broker_id is None else context.requester.asked_broker_id)
    if broker is None:
        return Outcome(DescribeLogDirsResponse())
    wanted: Iterable[tuple[Topic, Ints | None]]
    if request.topics is None:
        wanted = ((topic, None) for topic in image.topics_by_name.values())
    else:
        named: dict[str, list[int]] = {}
        for entry in request.topics:
            named.setdefault(entry.topic, []).extend(entry.partitions)
        known = ((image.topics_by_name.get(name), indexes) for name, indexes in named.items())
        wanted = ((topic, np.array(indexes, np.int32)) for topic, indexes in known if topic is not None)
    replicas = _Replicas(brokers, image, broker.broker_id, context.now_ms)
    found = [(topic, _kept(image, topic, broker.broker_id, indexes)) for topic, indexes in wanted]
    log_dirs = _log_dirs(brokers, context, broker.broker_id)
    if len(log_dirs.all) > 1:
        results = [_of_several(replicas, one, found) for one in log_dirs.all]
    else:
        topics = [replicas.described(topic, kept) for topic, kept in found if len(kept)]
        results = [DescribeLogDirsResult(log_dir=log_dirs.all[0].path, topics=topics)]
    cordoned = broker.cordoned_log_dirs or ()
    for result, directory in zip(results, log_dirs.all, strict=True):
        result.is_cordoned = directory.directory_id in cordoned or broker.cordoned
    return Outcome(DescribeLogDirsResponse(results=results))


def _log_dirs(brokers: SimulatedBrokers, context: RequestContext, broker_id: int) -> LogDirs:
    simulated = brokers.by_id.get(broker_id)
    if simulated is not None:
        return simulated.log_dirs
    return new_log_dirs(context.settings, context.cluster.cluster_id or "", broker_id)


def _of_several(replicas: "_Replicas", directory: LogDir, found: Sequence[tuple[Topic, Ints]]) -> DescribeLogDirsResult:
    """One of several directories: the replicas that are in it, and those that are moved into it."""
    if not directory.is_online:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path)
    topics = []
    for topic, kept in found:
        present = replicas.in_directory(topic, kept, directory)
        future = replicas.future(topic, kept, directory)
        if len(present) and future:
            rows = [replicas.described_one(topic, index) for index in present.tolist()]
            topics.append(DescribeLogDirsTopic(name=topic.name, partitions=[*rows, *future]))
        elif len(present):
            topics.append(replicas.described(topic, present))
        elif future:
            topics.append(DescribeLogDirsTopic(name=topic.name, partitions=future))
    return DescribeLogDirsResult(log_dir=directory.path, topics=topics)


def _kept(image: MetadataImage, topic: Topic, broker_id: int, indexes: Ints | None) -> Ints:
    """The partitions of a topic of which the broker has a replica, out of those asked for."""
    hosted = [
        table.partition_index[owned.rows][(table.replicas[owned.rows] == broker_id).any(axis=1)]
        for owned, table in image.partitions.topic_ranges(topic.row)
    ]
    kept = np.sort(np.concatenate([np.empty(0, dtype=np.int32), *hosted]))
    return kept if indexes is None else kept[among(kept, indexes)]


class _Replicas:
    """The replicas on one broker, as they are described."""

    def __init__(self, brokers: SimulatedBrokers, image: MetadataImage, broker_id: int, now_ms: int) -> None:
        self._data, self._work = brokers.data, brokers.log_dir_work
        self._image, self._broker_id, self._now_ms = image, broker_id, now_ms
        self._moved: dict[Uuid, list[int]] = {}
        for (topic_id, index), _ in self._work.moves.of_broker(broker_id):
            self._moved.setdefault(topic_id, []).append(index)
        self._chosen: dict[Uuid, dict[int, Uuid]] = {}
        for (topic_id, index), chosen in self._work.placed.chosen_of(broker_id).items():
            self._chosen.setdefault(topic_id, {})[index] = chosen

    def described(self, topic: Topic, kept: Ints) -> DescribeLogDirsTopic:
        """The replicas with their sizes in bytes. The few topics with records are looked up; the size of all others is
        0."""
        columns: dict[str, Any] = {"partition_index": kept}
        if held := self._data.partitions_of(topic.topic_id):
            sizes = columns["partition_size"] = np.zeros(len(kept), dtype=np.int64)
            for position, index in enumerate(kept.tolist()):
                if (found := held.get(index)) is not None:
                    sizes[position] = found.log.size_below(found.log_end_offset(self._broker_id, self._now_ms))
        partitions = Columns(DescribeLogDirsPartition, len(kept), columns)
        return DescribeLogDirsTopic(name=topic.name, partitions=partitions)

    def described_one(self, topic: Topic, index: int) -> DescribeLogDirsPartition:
        """One replica."""
        found = self._data.find(topic.topic_id, index)
        size = 0 if found is None else found.log.size_below(found.log_end_offset(self._broker_id, self._now_ms))
        return DescribeLogDirsPartition(partition_index=index, partition_size=size)

    def in_directory(self, topic: Topic, kept: Ints, directory: LogDir) -> Ints:
        """Those of the broker's replicas of a topic that are in a directory, ascending."""
        number = self._image.partitions.directory_ids.known(directory.directory_id)
        chosen = self._chosen.get(topic.topic_id, {})
        parts = [np.array([one for one, at in chosen.items() if at == directory.directory_id], dtype=np.int32)]
        if number is not None:
            for owned, table in self._image.partitions.topic_ranges(topic.row):
                rows = owned.rows
                own = (table.replicas[rows] == self._broker_id) & (table.directories[rows] == number)
                here = table.partition_index[rows][own.any(axis=1)]
                parts.append(here[~among(here, list(chosen))])
        present = np.sort(np.concatenate(parts))
        return present[among(present, kept)]

    def future(self, topic: Topic, kept: Ints, directory: LogDir) -> list[DescribeLogDirsPartition]:
        """The replicas of a topic that are moved into a directory, as far as they are there."""
        described = []
        for index in sorted(self._moved.get(topic.topic_id, ())):
            future = self._work.moves.find(self._broker_id, (topic.topic_id, index))
            if future is None or future.directory_id != directory.directory_id or index not in kept:
                continue
            found = self._data.find(topic.topic_id, index)
            end = self._work.moves.end_offset(self._broker_id, future, found, self._now_ms)
            there = found is not None and self._broker_id in found.replicas
            lag = found.log_end_offset(self._broker_id, self._now_ms) - end if found is not None and there else 0
            size = 0 if found is None else found.log.size_below(end)
            described.append(
                DescribeLogDirsPartition(partition_index=index, partition_size=size, offset_lag=lag, is_future_key=True)
            )
        return described
