"""From the image to new partitions: where replicas go, and the PartitionRecords that say so.

Automatic placement is rack-alternated round robin over live brokers (KIP-36); in profile `kafka` fenced brokers are
registered ones too and take what the live ones cannot (semantics.md). Manual assignments are checked as Apache Kafka
4.3 checks them, with its texts.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from assignment import CannotPlace, ClusterView, place_round_robin
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


def max_partitions_per_request(context: RequestContext) -> int:
    """How many partitions one request may make, by profile (semantics.md)."""
    if context.settings.profile == "kafka":
        return MAX_PARTITIONS_PER_REQUEST_KAFKA
    return MAX_PARTITIONS_PER_REQUEST_KIP


def place_partitions(
    image: MetadataImage, context: RequestContext, partitions: int, replication_factor: int, first_partition: int = 0
) -> Ints | ApiError:
    """Replicas of `partitions` new partitions: broker ids, shape (partitions, replication_factor)."""
    open_brokers = [broker for broker in image.brokers.values() if not broker.cordoned]
    brokers = sorted(open_brokers, key=lambda broker: broker.broker_id)
    live = [broker for broker in brokers if broker.live]
    kafka = context.settings.profile == "kafka"
    # One that is on its way out takes nothing; once it is fenced, it is a fenced broker like others.
    usable = [broker for broker in brokers if broker.fenced or broker.live] if kafka else live
    if replication_factor > len(usable) or not live:
        return _too_few(context, replication_factor, len(usable))
    first = min(replication_factor, len(live))
    try:
        chosen = _round_robin(live, context, partitions, first, first_partition)
        if first == replication_factor:
            return chosen
        fenced = [broker for broker in usable if not broker.live]
        rest = _round_robin(fenced, context, partitions, replication_factor - first, first_partition)
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
    first_partition: int,
) -> Ints:
    view = _view(tuple((broker.broker_id, broker.rack) for broker in brokers))
    start, shift = (int(context.rng.integers(len(brokers))) for _ in range(2))
    return place_round_robin(view, partitions, replication_factor, start, shift, first_partition)


@lru_cache(maxsize=64)
def _view(brokers: tuple[tuple[int, str | None], ...]) -> ClusterView:
    # Some brokers with a rack and some without: racks are ignored, as KIP-36's safe mode does.
    racks_known = all(rack is not None for _, rack in brokers)
    return ClusterView(
        broker_ids=np.array([broker_id for broker_id, _ in brokers], dtype=np.int32),
        racks=tuple(rack if racks_known else None for _, rack in brokers),
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
    ids = np.unique(replicas)
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
