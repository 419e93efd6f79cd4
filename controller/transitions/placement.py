"""Automatic placement: from the image to the replicas of new partitions (KIP-36, KIP-409, KIP-578).

The number of brokers is checked first (INVALID_REPLICATION_FACTOR), then the limits (POLICY_VIOLATION). Profile `kip`
places replicas on live brokers in turn. Profile `kafka` places them in stripes over registered brokers, fenced ones
last (docs/profiles.md). The context counts what earlier items of the same request have taken.
"""

from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from klamm.assignment import (
    Algorithm,
    CannotPlace,
    CannotPlaceReason,
    ClusterView,
    PlacementSpec,
    place,
    rack_alternated_order,
)
from klamm.assignment.wording import counted
from klamm.controller.configs import min_insync_replicas, under_replicated_topic_creation_enabled
from klamm.controller.context import RequestContext
from klamm.controller.metadata.broker import BrokerState
from klamm.controller.metadata.columns import Ints
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.usage import UNLIMITED_TOPICS
from klamm.controller.transitions.broker_kinds import fitting, is_mixed, kind_of_brokers, wants_real
from klamm.controller.transitions.limits import UNLIMITED, limits_in_force, partitions_held, replicas_held
from klamm.protocol.errors import ApiError, ErrorCode

MAX_PARTITIONS_PER_REQUEST_KIP = 1_000_000
MAX_PARTITIONS_PER_REQUEST_KAFKA = 10_000


class PresentPartitions(NamedTuple):
    """The partitions that a topic has before it gets more."""

    partition_count: int
    first_leader: int
    """The preferred leader of its partition 0."""


NO_PARTITIONS = PresentPartitions(0, -1)


class Wanted(NamedTuple):
    """The partitions to place, and the topic whose limits and min.insync.replicas apply."""

    topic_name: str
    partitions: int
    replication_factor: int
    min_insync_replicas: int | None = None
    """The value in the request; None: the topic's own value, or the one that it inherits."""
    present: PresentPartitions = NO_PARTITIONS


def max_partitions_per_request(context: RequestContext) -> int:
    """The most partitions that one request may create, by profile (docs/profiles.md)."""
    if context.settings.profile == "kafka":
        return MAX_PARTITIONS_PER_REQUEST_KAFKA
    return MAX_PARTITIONS_PER_REQUEST_KIP


class Placer:
    """Places the items of one request. The brokers and the limits, which all items share, are looked up once.

    With `live_only` neither fenced brokers nor placeholders replace live brokers that are missing (KIP-179).
    """

    def __init__(self, image: MetadataImage, context: RequestContext, *, live_only: bool = False) -> None:
        self._image = image
        self._context = context
        self._kafka = context.settings.profile == "kafka"
        self._live_only = live_only
        # Only Kafka's own placement uses fenced brokers.
        self._fenced_too = self._kafka and not live_only
        self._limits = limits_in_force(image, context)
        self._is_mixed = is_mixed(image)
        self._candidates: dict[bool, _Candidates] = {}
        """The brokers to place on, by whether the topic is one of real brokers; one entry if there is one kind."""

    def place(self, wanted: Wanted) -> Ints | ApiError:
        """Replicas of new partitions, int32[partitions, replication_factor]; negative ids are placeholders."""
        context, among = self._context, self._candidates_for(wanted.topic_name)
        spec = self._spec(wanted, among)
        kind = kind_of_brokers(self._image, context.settings, wanted.topic_name) if self._is_mixed else ""
        if refusal := _validate_brokers(spec, among, kind, fenced_too=self._fenced_too):
            return refusal
        if refusal := _validate_size(context, spec):
            return refusal
        view = self._view(wanted, among)
        try:
            placed = place(view, _starting_where_the_topic_began(spec, view, wanted.present), context.rng)
        except CannotPlace as reason:
            return _refusal(reason)
        context.ledger.replicas_left -= placed.size
        return placed

    def _candidates_for(self, topic_name: str) -> "_Candidates":
        image, context = self._image, self._context
        real = self._is_mixed and wants_real(image, context.settings, topic_name)
        if real not in self._candidates:
            brokers = fitting(image, context.settings, topic_name)
            self._candidates[real] = _candidates(
                image, context, brokers, fenced_too=self._fenced_too, kafka=self._kafka
            )
        return self._candidates[real]

    def _spec(self, wanted: Wanted, among: "_Candidates") -> PlacementSpec:
        context, image = self._context, self._image
        algorithm = Algorithm.STRIPED if self._kafka else Algorithm.ROUND_ROBIN
        spec = _fully_replicated(
            wanted.partitions, wanted.replication_factor, algorithm, wanted.present.partition_count
        )
        if (
            self._live_only
            or wanted.replication_factor <= len(among.broker_ids)
            or not under_replicated_topic_creation_enabled(
                image.configs, context.settings, context.requester.asked_broker_id
            )
        ):
            return spec
        least = wanted.min_insync_replicas or min_insync_replicas(
            image.configs, context.settings, wanted.topic_name, context.requester.asked_broker_id
        )
        return replace(spec, under_replicated=True, min_insync_replicas=least)

    def _view(self, wanted: Wanted, among: "_Candidates") -> ClusterView:
        limits = UNLIMITED if wanted.topic_name in UNLIMITED_TOPICS else self._limits
        # A row names a broker at most once, so limits with room for all new rows on every broker are no restriction.
        more = self._context.ledger.partitions + wanted.partitions
        if (
            among.most_held + more <= limits.max_broker_partitions
            and self._image.usage.partitions + more <= limits.max_partitions
        ):
            return _view_without_limits(among.broker_ids, among.racks, among.fenced)
        held = [replicas_held(self._image, self._context, broker_id) for broker_id in among.broker_ids]
        return ClusterView(
            broker_ids=np.array(among.broker_ids, dtype=np.int32),
            racks=among.racks,
            fenced=np.array(among.fenced, dtype=np.bool_),
            replica_counts=np.array(held, dtype=np.int64),
            replica_limit=limits.max_broker_partitions,
            partition_count=partitions_held(self._image, self._context),
            partition_limit=limits.max_partitions,
        )


class _Candidates(NamedTuple):
    """The brokers that may get replicas, by id, and how many of them are live."""

    broker_ids: tuple[int, ...]
    racks: tuple[str | None, ...]
    fenced: tuple[bool, ...]
    live: int
    most_held: int
    """The most replicas that one of them has."""


def _candidates(
    image: MetadataImage,
    context: RequestContext,
    brokers: Collection[BrokerState],
    *,
    fenced_too: bool,
    kafka: bool,
) -> _Candidates:
    # A broker in controlled shutdown gets no replicas; once it is fenced, it is treated as any fenced broker.
    found = [one for one in brokers if not one.cordoned and (one.live or (fenced_too and one.fenced))]
    usable = sorted(found, key=lambda broker: broker.broker_id)
    racks = tuple(broker.rack for broker in usable)
    if None in racks and not kafka:
        # If only some brokers have a rack, racks are ignored, as in KIP-36's safe mode.
        racks = (None,) * len(racks)
    return _Candidates(
        tuple(broker.broker_id for broker in usable),
        racks,
        tuple(broker.fenced for broker in usable),
        sum(broker.live for broker in usable),
        max((replicas_held(image, context, broker.broker_id) for broker in usable), default=0),
    )


@lru_cache(maxsize=64)
def _fully_replicated(
    partitions: int, replication_factor: int, algorithm: Algorithm, first_partition: int
) -> PlacementSpec:
    return PlacementSpec(
        partitions=partitions,
        replication_factor=replication_factor,
        algorithm=algorithm,
        first_partition=first_partition,
    )


def _starting_where_the_topic_began(
    spec: PlacementSpec, view: ClusterView, present: PresentPartitions
) -> PlacementSpec:
    """Let round robin continue where the topic began, so that leaders are even over old and new partitions together."""
    if (
        spec.algorithm is Algorithm.STRIPED
        or not present.partition_count
        or present.first_leader not in view.broker_ids
    ):
        return spec
    order = np.arange(len(view)) if view.racks[0] is None else rack_alternated_order(view)[0]
    return replace(spec, start_index=int(np.flatnonzero(view.broker_ids[order] == present.first_leader)[0]))


def _validate_brokers(spec: PlacementSpec, among: _Candidates, kind: str, *, fenced_too: bool) -> ApiError | None:
    """INVALID_REPLICATION_FACTOR if there are too few brokers and placeholders may not replace them. `kind` names the
    brokers that the topic may be on, if there are others."""
    usable, live = len(among.broker_ids), among.live
    if spec.under_replicated or (live and spec.replication_factor <= usable):
        return None
    found = "registered or some brokers have all their log directories cordoned" if fenced_too else "live"
    reason = (
        f"The target replication factor of {spec.replication_factor} cannot be reached because only {usable} "
        f"{kind}broker(s) are {found}."
    )
    if usable and not live:
        reason = f"All {kind}brokers are currently fenced, or have all their log directories cordoned."
    return ApiError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {spec.replication_factor} time(s): {reason}",
    )


def _validate_size(context: RequestContext, spec: PlacementSpec) -> ApiError | None:
    left = context.ledger.replicas_left
    if spec.partitions * spec.replication_factor <= left:
        return None
    return ApiError(
        ErrorCode.POLICY_VIOLATION,
        f"{counted(spec.partitions, 'partition')} with replication factor {spec.replication_factor} would exceed what "
        f"this request may still place, {counted(left, 'replica')}.",
    )


def _refusal(reason: CannotPlace) -> ApiError:
    message = reason.message
    if reason.reason is CannotPlaceReason.INVALID_REPLICATION_FACTOR:
        message = f"Unable to replicate the partition with placeholders: {message}"
    return ApiError(ErrorCode[reason.reason.name], message)


@lru_cache(maxsize=64)
def _view_without_limits(
    broker_ids: tuple[int, ...], racks: tuple[str | None, ...], fenced: tuple[bool, ...]
) -> ClusterView:
    ids = np.array(broker_ids, dtype=np.int32)
    return ClusterView(broker_ids=ids, racks=racks, fenced=np.array(fenced, dtype=np.bool_))
