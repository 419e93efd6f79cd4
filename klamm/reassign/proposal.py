"""`--generate`: prints the current assignment of topics and a proposed one on the listed brokers. Changes nothing.

Each topic is placed by the striped algorithm as if it were new, as in Apache Kafka 4.3's tool, and keeps its
replication factor. The placement is random, so each run proposes another assignment.
"""

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from klamm.admin.client import AdminClient
from klamm.admin.partition_types import TopicPartition
from klamm.admin.types import Broker, TopicDescription
from klamm.assignment import Algorithm, CannotPlace, ClusterView, JavaRandom, PlacementSpec, place
from klamm.assignment.wording import counted
from klamm.reassign.files import as_file, as_text
from klamm.reassign.report import ReassignFailed, Report, joined


async def generate(
    admin: AdminClient, topic_names: Sequence[str], broker_ids: Sequence[int], *, rack_aware: bool
) -> Report:
    """Propose an assignment. Raises `ReassignFailed` if none exists and for brokers that are not live, and
    `RequestFailed` for unknown topics."""
    seen = await admin.metadata(topic_names)
    brokers = _chosen((await admin.describe_cluster()).brokers, broker_ids, rack_aware)
    current: dict[TopicPartition, Sequence[int]] = {}
    proposed: dict[TopicPartition, Sequence[int]] = {}
    for topic in sorted(seen.topics, key=lambda one: one.topic_name or ""):
        topic.raise_for_error()
        partitions = [TopicPartition(topic.topic_name or "", p.partition_index) for p in topic.partitions]
        current.update(zip(partitions, (p.replicas for p in topic.partitions), strict=True))
        proposed.update(zip(partitions, _placed(topic, brokers), strict=True))
    return _report(as_file(current), as_file(proposed))


def _chosen(live: Sequence[Broker], broker_ids: Sequence[int], rack_aware: bool) -> list[Broker]:
    """The brokers to place on, by id."""
    by_id = {broker.broker_id: broker for broker in live}
    unknown = [broker_id for broker_id in broker_ids if broker_id not in by_id]
    if unknown:
        raise ReassignFailed(
            f"--broker-list: not live: {joined(unknown)}; the live brokers are {joined(sorted(by_id))}"
        )
    chosen = [by_id[broker_id] for broker_id in sorted(broker_ids)]
    without_rack = [broker.broker_id for broker in chosen if broker.rack is None]
    if not rack_aware:
        return [Broker(broker.broker_id, broker.host, broker.port) for broker in chosen]
    if 0 < len(without_rack) < len(chosen):
        known = f"brokers {joined(without_rack)} have no rack, but the others have one"
        raise ReassignFailed(f"--broker-list: {known}; --disable-rack-aware ignores racks")
    return chosen


def _placed(topic: TopicDescription, brokers: Sequence[Broker]) -> list[list[int]]:
    view = ClusterView(
        broker_ids=np.array([broker.broker_id for broker in brokers], dtype=np.int64),
        racks=tuple(broker.rack for broker in brokers),
    )
    replication_factor = len(topic.partitions[0].replicas)
    if len(brokers) < replication_factor:
        named = f"--broker-list names {counted(len(brokers), 'broker')}"
        raise ReassignFailed(f"{named}, topic {topic.topic_name!r} has {counted(replication_factor, 'replica')}")
    spec = PlacementSpec(
        partitions=len(topic.partitions),
        replication_factor=replication_factor,
        algorithm=Algorithm.STRIPED,
    )
    try:
        placed: list[list[int]] = place(view, spec, JavaRandom(secrets.randbits(63))).tolist()
    except CannotPlace as error:
        raise ReassignFailed(f"topic {topic.topic_name!r}: {error}") from None
    return placed


def _report(current: dict[str, Any], proposed: dict[str, Any]) -> Report:
    lines = (
        "Current partition replica assignment",
        as_text(current),
        "",
        "Proposed partition reassignment configuration",
        as_text(proposed),
    )
    return Report(lines, {"current": current, "proposed": proposed})
