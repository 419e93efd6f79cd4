"""Replication throttles of reassignments, set and removed as by Apache Kafka's tool: broker and topic configs (KIP-73).

A broker's rate limits only the replicas that the topic's config lists as throttled: for leaders the replicas that hold
the partition already, for followers the added ones.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from klamm.admin.client import AdminClient
from klamm.admin.errors import RequestFailed
from klamm.admin.partition_types import PartitionReassignment, TopicPartition
from klamm.admin.types import ConfigAlteration, ConfigResource
from klamm.reassign.files import Target
from klamm.reassign.report import joined

BROKER_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LOG_DIR_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
THROTTLED_REPLICAS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


async def set_throttle(
    admin: AdminClient,
    bytes_per_second: int,
    targets: Iterable[Target],
    current: Mapping[TopicPartition, tuple[int, ...]],
    in_progress: Iterable[PartitionReassignment],
) -> None:
    """Set the throttle of new reassignments and of those in progress. Raises `RequestFailed` at the first refusal."""
    moves = _moves(targets, current, in_progress)
    alterations: dict[ConfigResource, list[ConfigAlteration]] = {}
    for topic_name in sorted({partition.topic_name for partition in moves}):
        listed: tuple[list[str], list[str]] = ([], [])
        for (name, index), sides in sorted(moves.items()):
            for replicas, side in zip(sides, listed, strict=True):
                side += [f"{index}:{broker_id}" for broker_id in sorted(replicas) if name == topic_name]
        alterations[ConfigResource.topic(topic_name)] = [
            ConfigAlteration(name, ",".join(replicas))
            for name, replicas in zip(THROTTLED_REPLICAS, listed, strict=True)
        ]
    rates = [ConfigAlteration(name, str(bytes_per_second)) for name in BROKER_RATES]
    for broker_id in sorted({broker_id for sides in moves.values() for side in sides for broker_id in side}):
        alterations[ConfigResource.broker(broker_id)] = rates
    await _alter(admin, alterations)


def _moves(
    targets: Iterable[Target],
    current: Mapping[TopicPartition, tuple[int, ...]],
    in_progress: Iterable[PartitionReassignment],
) -> dict[TopicPartition, tuple[set[int], set[int]]]:
    """For each partition the broker ids that send its records, and those that receive them."""
    moving = {move.partition: move for move in in_progress}
    moves = {
        partition: (set(move.replicas) - set(move.adding_replicas), set(move.adding_replicas))
        for partition, move in moving.items()
    }
    for target in targets:
        sources = moves[target.partition][0] if target.partition in moves else set(current[target.partition])
        moves[target.partition] = (sources, set(target.replicas) - sources)
    return moves


class Cleared(NamedTuple):
    """The result of removing throttles: the report's lines and content, and the reason if some were not removed."""

    lines: tuple[str, ...]
    content: dict[str, Any]
    failure: str | None


async def clear_throttles(admin: AdminClient, topic_names: Iterable[str]) -> Cleared:
    """Remove the throttles of all live brokers and of these topics. As in Kafka's tool, a missing topic is a failure;
    the throttles of the other topics are removed all the same."""
    seen = await admin.metadata(set(topic_names))
    missing = [RequestFailed(f"topic {topic.topic_name!r}", topic.error) for topic in seen.topics if topic.error]
    brokers = sorted(broker.broker_id for broker in seen.brokers)
    topics = sorted(topic.topic_name or "" for topic in seen.topics if topic.error is None)
    await _alter(
        admin,
        {
            **{ConfigResource.broker(one): _deletions((*BROKER_RATES, LOG_DIR_RATE)) for one in brokers},
            **{ConfigResource.topic(one): _deletions(THROTTLED_REPLICAS) for one in topics},
        },
    )
    lines = [f"Clearing broker-level throttles on broker{'s' * (len(brokers) != 1)} {joined(brokers)}"]
    if topics:
        lines.append(f"Clearing topic-level throttles on topic{'s' * (len(topics) != 1)} {joined(topics)}")
    failure = f"some throttles were not removed: {'; '.join(map(str, missing))}" if missing else None
    return Cleared(tuple(lines), {"brokers": brokers, "topics": topics}, failure)


def _deletions(names: Iterable[str]) -> list[ConfigAlteration]:
    return [ConfigAlteration.delete(name) for name in names]


async def _alter(admin: AdminClient, alterations: Mapping[ConfigResource, Iterable[ConfigAlteration]]) -> None:
    for result in await admin.incremental_alter_configs(alterations):
        result.raise_for_error()
