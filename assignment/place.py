"""Places the replicas of new partitions: as Kafka does if that is within the limits, otherwise by quotas.

First, the placement of Apache Kafka is made (KIP-36's round robin, or the KRaft controller's striped placement). If it
breaks no limit of KIP-578, it is the result, id for id. Otherwise every broker gets a quota within its limit, and rows
are made that use up the quotas. That succeeds whenever Σ min(headroom, partitions) ≥ partitions × replication factor,
that is, whenever any placement exists. Striped placement also uses fenced brokers if the live ones have too little
room. If there are fewer brokers than replicas in a row, placeholders fill the row (KIP-409).
"""

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

import numpy as np

from klamm.assignment.cluster_view import NO_LIMIT, ClusterView, Int32Array, Int64Array
from klamm.assignment.errors import CannotPlace, CannotPlaceReason
from klamm.assignment.kafka.round_robin import place_validated, validate_round_robin
from klamm.assignment.kafka.striped import Stripes, place_stripes_together, validate_striped
from klamm.assignment.limited.within_limits import ToPlace, place_within_limits
from klamm.assignment.random_source import RandomSource, Rng, random_source
from klamm.assignment.wording import counted
from klamm.quick_dataclasses import dataclass

MAX_PLACEHOLDERS: Final = 16
"""The most placeholders in one row."""


_NOTHING_PLACED: Final = np.empty((0, 0), dtype=np.int32)


class Algorithm(Enum):
    """The placement algorithm that is used if its result is within the limits. The values are `klamm assign`'s."""

    ROUND_ROBIN = "round-robin"
    STRIPED = "striped"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementSpec:
    """A request for a placement. Raises ValueError for values that are invalid on every cluster."""

    partitions: int
    replication_factor: int
    algorithm: Algorithm = Algorithm.ROUND_ROBIN
    """Or its value, "round-robin" or "striped"."""
    first_partition: int = 0
    """The index of the first new partition; a negative one counts as 0. Striped placement ignores it."""
    start_index: int | None = None
    """Round robin: the ring position of partition 0's leader, and the first shift. None: both are drawn at random."""
    under_replicated: bool = False
    """Whether placeholders may take the places of missing brokers (KIP-409)."""
    min_insync_replicas: int = 1
    """`min.insync.replicas`, at least 1. Placeholders need as many live brokers, or a whole row's if that is fewer."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "algorithm", Algorithm(self.algorithm))
        for name in ("partitions", "replication_factor", "first_partition", "min_insync_replicas"):
            if type(getattr(self, name)) is not int:
                raise ValueError(f"{name.replace('_', ' ')}: a whole number, not {getattr(self, name)!r}")
        if self.start_index is not None and self.start_index < 0:
            raise ValueError(f"the start index is 0 or more, not {self.start_index}")
        if self.min_insync_replicas < 1:
            raise ValueError(f"the smallest number of in-sync replicas is 1 or more, not {self.min_insync_replicas}")


class Asked(NamedTuple):
    """The arguments of `place`."""

    view: ClusterView
    spec: PlacementSpec
    rng: Rng


class _Draft(NamedTuple):
    """A valid request."""

    usable: ClusterView
    """The brokers that may get replicas."""
    spec: PlacementSpec
    real: int
    """The number of real replicas in each row."""
    source: RandomSource
    stripes: Stripes | None
    """None for round robin."""


def place(view: ClusterView, spec: PlacementSpec, rng: Rng) -> Int32Array:
    """The brokers of `spec.partitions` new partitions, int32[partitions, replication_factor]; column 0 leads.

    The same view, spec and state of `rng` give the same placement on every machine. Negative ids -1, -2, … at the end
    of the rows are placeholders. Raises CannotPlace: INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR and MIXED_RACKS in
    Kafka's order and words, decided by the number of brokers alone; then POLICY_VIOLATION for the limits (KIP-578).
    """
    (placed,) = place_together([Asked(view, spec, rng)])
    if isinstance(placed, CannotPlace):
        raise placed
    return placed


def place_together(clusters: Sequence[Asked]) -> list[Int32Array | CannotPlace]:
    """The result of `place` for each of several clusters, or the error that it raises. Every cluster has a random
    number generator of its own.

    For clusters with some 1,000 new partitions this is nearly twice as fast as one call for each.
    """
    results: list[Int32Array | CannotPlace] = []
    drafts: dict[int, _Draft] = {}
    for number, (view, spec, rng) in enumerate(clusters):
        try:
            drafts[number] = _draft(view, spec, random_source(rng))
            results.append(_NOTHING_PLACED)
        except CannotPlace as error:
            results.append(error)
    beyond = {}
    for (number, draft), placed in zip(drafts.items(), _as_kafka_places(list(drafts.values())), strict=True):
        if _within_limits(draft.usable, placed):
            results[number] = _with_placeholders(placed, draft.spec.replication_factor)
        else:
            beyond[number] = draft
    if beyond:
        limited = place_within_limits([_without_kafka(draft) for draft in beyond.values()])
        for (number, draft), placed in zip(beyond.items(), limited, strict=True):
            results[number] = _with_placeholders(placed, draft.spec.replication_factor)
    return results


def _draft(view: ClusterView, spec: PlacementSpec, source: RandomSource) -> _Draft:
    """Draws random numbers as Kafka does before it validates a request, and raises CannotPlace."""
    if spec.algorithm is Algorithm.STRIPED:
        usable, stripes = view, Stripes(view, source)
        real = _real_replicas(view, usable, spec)
        validate_striped(usable, spec.partitions, real, spec.first_partition)
    else:
        usable, stripes = view.live_only(), None
        real = _real_replicas(view, usable, spec)
        validate_round_robin(usable, spec.partitions, real, spec.first_partition)
    _validate_limits(usable, spec, real)
    return _Draft(usable, spec, real, source, stripes)


def _as_kafka_places(drafts: Sequence[_Draft]) -> list[Int32Array]:
    """The placements of Apache Kafka, which may exceed the limits."""
    striped = [(one.stripes, one.spec.partitions, one.real) for one in drafts if one.stripes is not None]
    in_stripes = iter(place_stripes_together(striped) if striped else ())
    return [_round_robin(one) if one.stripes is None else next(in_stripes) for one in drafts]


def _without_kafka(draft: _Draft) -> ToPlace:
    """What to place within the limits instead."""
    usable = draft.usable if draft.stripes is None else _with_no_rack_as_a_rack(draft.usable)
    return ToPlace(usable, draft.spec.partitions, draft.real, draft.source)


def _real_replicas(view: ClusterView, usable: ClusterView, spec: PlacementSpec) -> int:
    """The number of real replicas per row: the replication factor, or fewer if placeholders are allowed."""
    asked, there = spec.replication_factor, len(usable)
    if not spec.under_replicated or asked <= there:
        return asked
    live = len(usable) if usable is not view else int(view.live.sum())
    needed = min(spec.min_insync_replicas, asked)
    if live < needed:
        raise CannotPlace(
            CannotPlaceReason.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {asked} with {counted(live, 'live broker')}; at least {needed} must be live for the "
            f"other replicas to be placeholders (min.insync.replicas={spec.min_insync_replicas}).",
        )
    if asked - there > MAX_PLACEHOLDERS:
        raise CannotPlace(
            CannotPlaceReason.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {asked} with {counted(there, 'broker')} would take {asked - there} placeholders for "
            f"each partition, more than {MAX_PLACEHOLDERS}.",
        )
    return there


def _round_robin(draft: _Draft) -> Int32Array:
    view, spec, real, source, _ = draft
    if spec.start_index is None:
        start, shift = source.next_int(len(view)), source.next_int(len(view))
    else:
        start = shift = spec.start_index
    return place_validated(view, spec.partitions, real, start, shift, spec.first_partition)


def _validate_limits(view: ClusterView, spec: PlacementSpec, real: int) -> None:
    """Raise CannotPlace, POLICY_VIOLATION, if no placement on the view's brokers is within the limits."""
    if view.partition_count + spec.partitions > view.partition_limit:
        raise _beyond(view, spec, f"the cluster has {counted(view.partition_count, 'partition')}")
    if view.replica_limit == NO_LIMIT:
        return
    capacity = np.minimum(view.room, spec.partitions)
    room, wanted = int(capacity.sum()), spec.partitions * real
    if room < wanted:
        brokers = counted(len(view), "broker")
        raise _beyond(view, spec, f"{brokers} with room for {room} of {counted(wanted, 'replica')}")
    # One live broker per row is enough, because the other replicas may be on fenced brokers (`with_live_leaders`).
    if (room := int(capacity[view.live].sum())) < spec.partitions:
        brokers = counted(int(view.live.sum()), "live broker")
        raise _beyond(view, spec, f"{brokers} with room for {room} of {counted(spec.partitions, 'leader')}")


def _beyond(view: ClusterView, spec: PlacementSpec, have: str) -> CannotPlace:
    return CannotPlace(
        CannotPlaceReason.POLICY_VIOLATION,
        f"{counted(spec.partitions, 'partition')} with replication factor {spec.replication_factor} would exceed the "
        f"limits (max.broker.partitions={view.replica_limit}, max.partitions={view.partition_limit}): {have}.",
    )


def _within_limits(view: ClusterView, placed: Int32Array) -> bool:
    if view.replica_limit == NO_LIMIT:
        return True
    room = view.room
    if room.min() >= len(placed):
        return True  # a row has a broker at most once
    return bool((_replicas_on(view, placed) <= room).all())


def _replicas_on(view: ClusterView, placed: Int32Array) -> Int64Array:
    """int64[n]: the number of replicas on each broker. All replicas are on brokers of the view."""
    highest = int(view.broker_ids.max())
    if highest <= placed.size:
        return np.bincount(placed.ravel(), minlength=highest + 1).take(view.broker_ids)
    return np.bincount(view.index_of(placed).ravel(), minlength=len(view))


def _with_no_rack_as_a_rack(view: ClusterView) -> ClusterView:
    """The view, in which all brokers without a rack share one rack that sorts first, if some brokers have a rack."""
    if None not in view.racks or set(view.racks) == {None}:
        return view
    return replace(view, racks=tuple("" if rack is None else f"/{rack}" for rack in view.racks))


def _with_placeholders(placed: Int32Array, replication_factor: int) -> Int32Array:
    missing = replication_factor - placed.shape[1]
    if not missing:
        return placed
    placeholders = np.broadcast_to(np.arange(-1, -1 - missing, -1, dtype=np.int32), (len(placed), missing))
    return np.concatenate((placed, placeholders), axis=1)
