"""From the image to new partitions: where replicas go, and the PartitionRecords that say so.

Automatic placement is rack-alternated round robin over live brokers (KIP-36); in profile `kafka` fenced brokers are
registered ones too and take what the live ones cannot (docs/profiles.md). Manual assignments are checked as Apache
Kafka 4.3 checks them, with its texts.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from assignment import CannotPlace, ClusterView, place_round_robin, rack_alternated_order
from controller.metadata.broker import BrokerState
from controller.metadata.columns import Ints
from controller.metadata.image import MetadataImage
from controller.outcome import Record, RequestContext
from protocol.columns import Columns
from protocol.errors import ApiError, ErrorCode
from protocol.records.partitions import PartitionRecord
from protocol.uuid import Uuid

MAX_PARTITIONS_PER_REQUEST_KIP = 1_000_000
MAX_PARTITIONS_PER_REQUEST_KAFKA = 10_000
NO_RACK = "\0"
"""Stands for "no rack" where that is a rack: nobody's rack is called so."""
FEW_PARTITIONS = 8
"""Up to here records one by one are made and encoded faster than columns are (measured: about equal at 12)."""


class PresentPartitions(NamedTuple):
    """What a topic has already when it gets more partitions."""

    partition_count: int
    first_leader: int
    """The preferred leader of its partition 0."""


NO_PARTITIONS = PresentPartitions(0, -1)


def max_partitions_per_request(context: RequestContext) -> int:
    """How many partitions one request may make, by profile (docs/profiles.md)."""
    if context.settings.profile == "kafka":
        return MAX_PARTITIONS_PER_REQUEST_KAFKA
    return MAX_PARTITIONS_PER_REQUEST_KIP


def place_partitions(
    image: MetadataImage,
    context: RequestContext,
    partitions: int,
    replication_factor: int,
    present: PresentPartitions = NO_PARTITIONS,
) -> Ints | ApiError:
    """Replicas of `partitions` new partitions behind those present: broker ids, (partitions, replication_factor)."""
    open_brokers = [broker for broker in image.brokers.values() if not broker.cordoned]
    brokers = sorted(open_brokers, key=lambda broker: broker.broker_id)
    live = [broker for broker in brokers if broker.live]
    kafka = context.settings.profile == "kafka"
    # One that is on its way out takes nothing; once it is fenced, it is a fenced broker like others.
    usable = [broker for broker in brokers if broker.fenced or broker.live] if kafka else live
    if replication_factor > len(usable) or not live:
        return _too_few(context, replication_factor, len(usable))
    if partitions * replication_factor > context.replicas_left:
        return ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"{partitions} partitions with {replication_factor} replicas each are more replicas than the "
            f"{context.replicas_left} that this request may still place.",
        )
    context.replicas_left -= partitions * replication_factor
    first = min(replication_factor, len(live))
    try:
        chosen = _round_robin(live, context, partitions, first, present)
        if first == replication_factor:
            return chosen
        fenced = [broker for broker in usable if not broker.live]
        rest = _round_robin(fenced, context, partitions, replication_factor - first, present)
    except CannotPlace as reason:
        return ApiError(ErrorCode[reason.reason.name], str(reason))
    return np.concatenate((chosen, rest), axis=1)


def _too_few(context: RequestContext, replication_factor: int, usable: int) -> ApiError:
    counted = (
        "registered or some brokers have all their log directories cordoned"
        if context.settings.profile == "kafka"
        else "live"
    )
    return ApiError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
        f"{replication_factor} cannot be reached because only {usable} broker(s) are {counted}.",
    )


def _round_robin(
    brokers: Sequence[BrokerState],
    context: RequestContext,
    partitions: int,
    replication_factor: int,
    present: PresentPartitions,
) -> Ints:
    ids = tuple(broker.broker_id for broker in brokers)
    view = _view(ids, _racks(brokers, context))
    if present.first_leader in ids and context.settings.profile == "kip":
        # Go on round the ring where the topic began: so leaders stay even over old and new partitions together.
        start = shift = _place_in_ring(view, present.first_leader)
    else:
        start, shift = (int(context.rng.integers(len(brokers))) for _ in range(2))
    return place_round_robin(view, partitions, replication_factor, start, shift, present.partition_count)


def _place_in_ring(view: ClusterView, broker_id: int) -> int:
    order = range(len(view)) if view.racks[0] is None else rack_alternated_order(view)[0]
    return int(np.flatnonzero(view.broker_ids[order] == broker_id)[0])


def _racks(brokers: Sequence[BrokerState], context: RequestContext) -> tuple[str | None, ...]:
    racks = tuple(broker.rack for broker in brokers)
    if None not in racks:
        return racks
    if context.settings.profile == "kafka" and set(racks) != {None}:
        # To Kafka's controller "no rack" is one rack of its own.
        return tuple(NO_RACK if rack is None else rack for rack in racks)
    # Some brokers with a rack and some without: racks are ignored, as KIP-36's safe mode does.
    return (None,) * len(racks)


@lru_cache(maxsize=64)
def _view(broker_ids: tuple[int, ...], racks: tuple[str | None, ...]) -> ClusterView:
    return ClusterView(broker_ids=np.array(broker_ids, dtype=np.int32), racks=racks)


def validate_manual_replicas(
    image: MetadataImage, broker_ids: Sequence[int], replication_factor: int | None
) -> ApiError | None:
    """INVALID_REPLICA_ASSIGNMENT for a list that is empty, names a broker twice or one that is not registered, or
    differs in length from `replication_factor` (None: the first list decides)."""
    if not broker_ids:
        return _bad_assignment("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker_id in sorted(broker_ids):
        if broker_id == previous:
            return _bad_assignment(f"The manual partition assignment includes the broker {broker_id} more than once.")
        if broker_id not in image.brokers:
            return _bad_assignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
        previous = broker_id
    if replication_factor is not None and len(broker_ids) != replication_factor:
        return _bad_assignment(
            f"The manual partition assignment includes a partition with {len(broker_ids)} replica(s), but this is "
            f"not consistent with previous partitions, which have {replication_factor} replica(s)."
        )
    return None


def validate_some_live(image: MetadataImage, partition_index: int, broker_ids: Sequence[int]) -> ApiError | None:
    """INVALID_REPLICA_ASSIGNMENT if no broker of a manual assignment could lead the partition."""
    if any(image.brokers[broker_id].live for broker_id in broker_ids):
        return None
    return _bad_assignment(
        f"All brokers specified in the manual partition assignment for partition {partition_index} are fenced or in "
        "controlled shutdown."
    )


def _bad_assignment(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def new_partition_records(
    brokers: Mapping[int, BrokerState], topic_id: Uuid, first_partition: int, replicas: Ints
) -> Sequence[Record]:
    """The records of new partitions: the live replicas are in sync and the first of them leads."""
    if len(replicas) <= FEW_PARTITIONS:
        return _one_by_one(brokers, topic_id, first_partition, replicas)
    ids = np.array(sorted(brokers), dtype=np.int32)
    at = np.searchsorted(ids, replicas)
    alive = np.array([brokers[broker_id].live for broker_id in ids.tolist()])[at]
    if not (alive == alive[0]).all():
        return _one_by_one(brokers, topic_id, first_partition, replicas)
    known = b"".join([brokers[broker_id].default_directory for broker_id in ids.tolist()])
    isr = replicas[:, alive[0]]
    return [
        Columns(
            PartitionRecord,
            len(replicas),
            {
                "partition_id": np.arange(first_partition, first_partition + len(replicas), dtype=np.int32),
                "topic_id": topic_id,
                "replicas": replicas,
                "isr": isr,
                "leader": isr[:, 0],
                "leader_epoch": 0,
                "partition_epoch": 0,
                "directories": np.frombuffer(known, dtype=np.uint8).reshape(-1, 16)[at],
            },
        )
    ]


def _one_by_one(
    brokers: Mapping[int, BrokerState], topic_id: Uuid, first_partition: int, replicas: Ints
) -> list[Record]:
    records: list[Record] = []
    for position, row in enumerate(replicas.tolist()):
        isr = [replica for replica in row if brokers[replica].live]
        records.append(
            PartitionRecord(
                partition_id=first_partition + position,
                topic_id=topic_id,
                replicas=row,
                isr=isr,
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[brokers[replica].default_directory for replica in row],
            )
        )
    return records
