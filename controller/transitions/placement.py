"""From the image to new partitions: where replicas go, and the PartitionRecords that say so.

Automatic placement is rack-alternated round robin over live brokers (KIP-36); in profile `kafka` it is Apache Kafka's
striped placement over registered ones, fenced brokers included (docs/profiles.md). Manual assignments are checked as
Apache Kafka 4.3 checks them, with its texts.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from assignment import CannotPlace, ClusterView, place_round_robin, rack_alternated_order
from assignment.kafka.striped import place_striped
from assignment.random_source import RandomSource, random_source
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
    kafka = context.settings.profile == "kafka"
    brokers = _usable(image, kafka)
    if replication_factor > len(brokers) or not any(broker.live for broker in brokers):
        return _too_few(brokers, kafka, replication_factor)
    if partitions * replication_factor > context.replicas_left:
        return ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"{partitions} partitions with {replication_factor} replicas each are more replicas than the "
            f"{context.replicas_left} that this request may still place.",
        )
    context.replicas_left -= partitions * replication_factor
    racks = tuple(broker.rack for broker in brokers)
    if not kafka and None in racks:
        # Some brokers with a rack and some without: racks are ignored, as KIP-36's safe mode does.
        racks = (None,) * len(racks)
    view = _view(tuple(broker.broker_id for broker in brokers), racks, tuple(broker.fenced for broker in brokers))
    source = random_source(context.rng)
    try:
        if kafka:
            return place_striped(view, partitions, replication_factor, source)
        start, shift = _start_and_shift(view, source, present)
        return place_round_robin(view, partitions, replication_factor, start, shift, present.partition_count)
    except CannotPlace as reason:
        return ApiError(ErrorCode[reason.reason.name], str(reason))


def _usable(image: MetadataImage, kafka: bool) -> list[BrokerState]:
    """The brokers that may be given replicas, by id."""
    open_brokers = [broker for broker in image.brokers.values() if not broker.cordoned]
    # One that is on its way out takes nothing; once it is fenced, it is a fenced broker like others.
    usable = [broker for broker in open_brokers if broker.live or (kafka and broker.fenced)]
    return sorted(usable, key=lambda broker: broker.broker_id)


def _too_few(usable: Sequence[BrokerState], kafka: bool, replication_factor: int) -> ApiError:
    reason = (
        f"The target replication factor of {replication_factor} cannot be reached because only {len(usable)} broker(s) "
        f"are {'registered or some brokers have all their log directories cordoned' if kafka else 'live'}."
    )
    if usable and not any(broker.live for broker in usable):
        reason = "All brokers are currently fenced, or have all their log directories cordoned."
    return ApiError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): {reason}",
    )


def _start_and_shift(view: ClusterView, source: RandomSource, present: PresentPartitions) -> tuple[int, int]:
    if present.first_leader in view.broker_ids:
        # Go on round the ring where the topic began: so leaders stay even over old and new partitions together.
        order = range(len(view)) if view.racks[0] is None else rack_alternated_order(view)[0]
        at = int(np.flatnonzero(view.broker_ids[order] == present.first_leader)[0])
        return at, at
    return source.next_int(len(view)), source.next_int(len(view))


@lru_cache(maxsize=64)
def _view(broker_ids: tuple[int, ...], racks: tuple[str | None, ...], fenced: tuple[bool, ...]) -> ClusterView:
    return ClusterView(
        broker_ids=np.array(broker_ids, dtype=np.int32), racks=racks, fenced=np.array(fenced, dtype=bool)
    )


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
