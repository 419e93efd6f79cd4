"""Automatic placement: from the image to the replicas of new partitions (KIP-36, KIP-409, KIP-578).

The number of brokers decides first (INVALID_REPLICATION_FACTOR), then the limits (POLICY_VIOLATION). Profile `kip`
places over live brokers in turn, profile `kafka` in stripes over registered ones, fenced brokers last
(docs/profiles.md). What earlier items of the same request took is counted: it stands in the context.
"""

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from assignment import (
    Algorithm,
    CannotPlace,
    CannotPlaceReason,
    ClusterView,
    PlacementSpec,
    place,
    rack_alternated_order,
)
from controller.configs import min_insync_replicas, under_replicated_topic_creation_enabled
from controller.metadata.broker import BrokerState
from controller.metadata.columns import Ints
from controller.metadata.image import MetadataImage
from controller.outcome import RequestContext
from controller.transitions.limits import Limits, limits_for, partitions_held, replicas_held
from protocol.errors import ApiError, ErrorCode

MAX_PARTITIONS_PER_REQUEST_KIP = 1_000_000
MAX_PARTITIONS_PER_REQUEST_KAFKA = 10_000


class PresentPartitions(NamedTuple):
    """What a topic has already when it gets more partitions."""

    partition_count: int
    first_leader: int
    """The preferred leader of its partition 0."""


NO_PARTITIONS = PresentPartitions(0, -1)


class Wanted(NamedTuple):
    """What is to be placed, and for which topic: its limits and its min.insync.replicas count."""

    topic_name: str
    partitions: int
    replication_factor: int
    min_insync_replicas: int | None = None
    """As the request says it; None: the topic's own, or what it inherits."""
    present: PresentPartitions = NO_PARTITIONS


def max_partitions_per_request(context: RequestContext) -> int:
    """How many partitions one request may make, by profile (docs/profiles.md)."""
    if context.settings.profile == "kafka":
        return MAX_PARTITIONS_PER_REQUEST_KAFKA
    return MAX_PARTITIONS_PER_REQUEST_KIP


def place_partitions(image: MetadataImage, context: RequestContext, wanted: Wanted) -> Ints | ApiError:
    """Replicas of new partitions, int32[partitions, replication_factor]; negative ids are placeholders."""
    kafka = context.settings.profile == "kafka"
    open_brokers = [broker for broker in image.brokers.values() if not broker.cordoned]
    brokers = sorted(open_brokers, key=lambda broker: broker.broker_id)
    # One that is on its way out takes nothing; once it is fenced, it is a fenced broker like others.
    usable = [broker for broker in brokers if broker.live or (kafka and broker.fenced)]
    spec = _spec(image, context, wanted, usable)
    view = _view(usable, image, context, limits_for(image, context, wanted.topic_name))
    if refusal := _validate_brokers(context, spec, usable):
        return refusal
    if refusal := _validate_size(context, spec):
        return refusal
    try:
        placed = place(view, _starting_where_the_topic_began(spec, view, wanted.present), context.rng)
    except CannotPlace as reason:
        return _refusal(reason)
    context.taken.replicas_left -= placed.size
    return placed


def _spec(image: MetadataImage, context: RequestContext, wanted: Wanted, usable: list[BrokerState]) -> PlacementSpec:
    spec = PlacementSpec(
        partitions=wanted.partitions,
        replication_factor=wanted.replication_factor,
        algorithm=Algorithm.STRIPED if context.settings.profile == "kafka" else Algorithm.ROUND_ROBIN,
        first_partition=wanted.present.partition_count,
    )
    if wanted.replication_factor <= len(usable) or not under_replicated_topic_creation_enabled(
        image.configs, context.settings, context.broker_id
    ):
        return spec
    least = wanted.min_insync_replicas or min_insync_replicas(
        image.configs, context.settings, wanted.topic_name, context.broker_id
    )
    return replace(spec, under_replicated=True, min_insync_replicas=least)


def _starting_where_the_topic_began(
    spec: PlacementSpec, view: ClusterView, present: PresentPartitions
) -> PlacementSpec:
    """Round robin goes on round the ring, so that leaders stay even over old and new partitions together."""
    if (
        spec.algorithm is Algorithm.STRIPED
        or not present.partition_count
        or present.first_leader not in view.broker_ids
    ):
        return spec
    order = np.arange(len(view)) if view.racks[0] is None else rack_alternated_order(view)[0]
    return replace(spec, start_index=int(np.flatnonzero(view.broker_ids[order] == present.first_leader)[0]))


def _validate_brokers(context: RequestContext, spec: PlacementSpec, usable: list[BrokerState]) -> ApiError | None:
    """INVALID_REPLICATION_FACTOR when there are too few brokers and no placeholders may stand in for them."""
    live = sum(broker.live for broker in usable)
    if spec.under_replicated or (live and spec.replication_factor <= len(usable)):
        return None
    kafka = context.settings.profile == "kafka"
    reason = (
        f"The target replication factor of {spec.replication_factor} cannot be reached because only {len(usable)} "
        f"broker(s) are {'registered or some brokers have all their log directories cordoned' if kafka else 'live'}."
    )
    if usable and not live:
        reason = "All brokers are currently fenced, or have all their log directories cordoned."
    return ApiError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {spec.replication_factor} time(s): {reason}",
    )


def _validate_size(context: RequestContext, spec: PlacementSpec) -> ApiError | None:
    left = context.taken.replicas_left
    if spec.partitions * spec.replication_factor <= left:
        return None
    return ApiError(
        ErrorCode.POLICY_VIOLATION,
        f"{spec.partitions} partitions with {spec.replication_factor} replicas each are more replicas than the "
        f"{left} that this request may still place.",
    )


def _refusal(reason: CannotPlace) -> ApiError:
    message = reason.message
    if reason.reason is CannotPlaceReason.INVALID_REPLICATION_FACTOR:
        message = f"Unable to replicate the partition with placeholders: {message}"
    return ApiError(ErrorCode[reason.reason.name], message)


def _view(brokers: list[BrokerState], image: MetadataImage, context: RequestContext, limits: Limits) -> ClusterView:
    ids = tuple(broker.broker_id for broker in brokers)
    racks = tuple(broker.rack for broker in brokers)
    if None in racks and context.settings.profile == "kip":
        racks = (None,) * len(racks)  # with and without rack mixed: racks are ignored, as KIP-36's safe mode does
    fenced = tuple(broker.fenced for broker in brokers)
    if limits.limit_nothing:
        return _view_without_limits(ids, racks, fenced)
    return ClusterView(
        broker_ids=np.array(ids, dtype=np.int32),
        racks=racks,
        fenced=np.array(fenced, dtype=np.bool_),
        replica_counts=np.array([replicas_held(image, context, one) for one in ids], dtype=np.int64),
        replica_limit=limits.max_broker_partitions,
        partition_count=partitions_held(image, context),
        partition_limit=limits.max_partitions,
    )


@lru_cache(maxsize=64)
def _view_without_limits(
    broker_ids: tuple[int, ...], racks: tuple[str | None, ...], fenced: tuple[bool, ...]
) -> ClusterView:
    ids = np.array(broker_ids, dtype=np.int32)
    return ClusterView(broker_ids=ids, racks=racks, fenced=np.array(fenced, dtype=np.bool_))
