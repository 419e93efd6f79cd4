"""DescribeLogDirs (35): which replicas the broker that was asked hosts, and in which directory.

A simulated broker has one log directory, named by its `log.dirs` or `log.dir`. Its total size is unknown (-1, as in
KIP-827). Partitions that do not exist, or have no replica on this broker, are omitted. The offset lag is always 0, as
on a real broker: it compares the replica with the high watermark that the broker knows, which is never above the
replica's end offset. ReplicaStatus returns how far a replica is behind its leader.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.data.data_plane import DataPlane
from klamm.controller.authorizer import AclOperation
from klamm.controller.config_definitions.table import broker_definitions
from klamm.controller.context import RequestContext
from klamm.controller.metadata.columns import Ints, among
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.outcome import Outcome
from klamm.controller.settings import Settings
from klamm.protocol.columns import Columns
from klamm.protocol.messages.brokers.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle_describe_log_dirs(
    brokers: SimulatedBrokers, image: MetadataImage, request: DescribeLogDirsRequest, context: RequestContext
) -> Outcome:
    """The one directory, with the replicas asked for; with all replicas on the broker if the request names no
    topics."""
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
    found = ((topic, _kept(image, topic, broker.broker_id, indexes)) for topic, indexes in wanted)
    broker_id, now_ms = broker.broker_id, context.now_ms
    topics = [
        DescribeLogDirsTopic(name=topic.name, partitions=_described(brokers.data, topic, kept, broker_id, now_ms))
        for topic, kept in found
        if len(kept)
    ]
    log_dir = _log_dir(context.settings, broker.broker_id)
    return Outcome(
        DescribeLogDirsResponse(
            results=[DescribeLogDirsResult(log_dir=log_dir, topics=topics, is_cordoned=broker.cordoned)]
        )
    )


def _kept(image: MetadataImage, topic: Topic, broker_id: int, indexes: Ints | None) -> Ints:
    """The partitions of a topic of which the broker has a replica, out of those asked for."""
    hosted = [
        table.partition_index[owned.rows][(table.replicas[owned.rows] == broker_id).any(axis=1)]
        for owned, table in image.partitions.topic_ranges(topic.row)
    ]
    kept = np.sort(np.concatenate([np.empty(0, dtype=np.int32), *hosted]))
    return kept if indexes is None else kept[among(kept, indexes)]


def _described(
    data: DataPlane, topic: Topic, kept: Ints, broker_id: int, now_ms: int
) -> Columns[DescribeLogDirsPartition]:
    """The replicas with their sizes in bytes. The few topics with records are looked up; the size of all others is
    0."""
    columns: dict[str, Any] = {"partition_index": kept}
    if held := data.partitions_of(topic.topic_id):
        sizes = columns["partition_size"] = np.zeros(len(kept), dtype=np.int64)
        for position, index in enumerate(kept.tolist()):
            if (found := held.get(index)) is not None:
                sizes[position] = found.log.size_below(found.log_end_offset(broker_id, now_ms))
    return Columns(DescribeLogDirsPartition, len(kept), columns)


def _log_dir(settings: Settings, broker_id: int) -> str:
    static = settings.static_configs_of(broker_id)
    dirs = static.get("log.dirs") or static.get("log.dir") or broker_definitions()["log.dir"].default or ""
    return dirs.split(",")[0].strip()
