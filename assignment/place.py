"""Places the replicas of new partitions: as Kafka does if that is within the limits, otherwise by quotas.

First, the placement of Apache Kafka is made (KIP-36's round robin, or the KRaft controller's striped placement). If it
breaks no limit of KIP-578, it is the result, id for id. Otherwise every broker gets a quota within its limit, and rows
are made that use up the quotas. That succeeds whenever Σ min(headroom, partitions) ≥ partitions × replication factor,
that is, whenever any placement exists. Striped placement also uses fenced brokers if the live ones have too little
room. If there are fewer brokers than replicas in a row, placeholders fill the row (KIP-409).
"""

from dataclasses import replace
from enum import Enum
from typing import Final

import numpy as np

from klamm.assignment.cluster_view import NO_LIMIT, BoolArray, ClusterView, Int32Array, Int64Array
from klamm.assignment.errors import CannotPlace, CannotPlaceReason
from klamm.assignment.kafka.rack_order import rack_alternated_order
from klamm.assignment.kafka.round_robin import place_validated, validate_round_robin
from klamm.assignment.kafka.striped import Stripes, validate_striped
from klamm.assignment.limited.fill_rows import fill_rows
from klamm.assignment.limited.leaders import balance_leaders, leaders_first
from klamm.assignment.limited.live_leaders import with_live_leaders
from klamm.assignment.limited.quotas import rack_numbers, widest_quotas
from klamm.assignment.random_source import RandomSource, Rng, random_source
from klamm.assignment.ranks import rank_within
from klamm.assignment.wording import counted
from klamm.quick_dataclasses import dataclass

MAX_PLACEHOLDERS: Final = 16
"""The most placeholders in one row."""

MAX_REPLICAS_WITH_EVENEST_LEADERS: Final = 1_000_000
"""Up to this many replicas, leaders per broker are as even as possible. With more, brokers that are filled to their
limit lead in proportion to their replicas, and only the leaders on other brokers are evened out. That takes linear
time."""


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


def place(view: ClusterView, spec: PlacementSpec, rng: Rng) -> Int32Array:
    """The brokers of `spec.partitions` new partitions, int32[partitions, replication_factor]; column 0 leads.

    The same view, spec and state of `rng` give the same placement on every machine. Negative ids -1, -2, … at the end
    of the rows are placeholders. Raises CannotPlace: INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR and MIXED_RACKS in
    Kafka's order and words, decided by the number of brokers alone; then POLICY_VIOLATION for the limits (KIP-578).
    """
    source = random_source(rng)
    if spec.algorithm is Algorithm.STRIPED:
        usable = view
        stripes = Stripes(view, source)  # first, because Kafka draws random numbers before it validates the request
        real = _real_replicas(view, usable, spec)
        validate_striped(usable, spec.partitions, real, spec.first_partition)
        _validate_limits(usable, spec, real)
        placed = stripes.place(spec.partitions, real)
    else:
        usable = view.live_only()
        real = _real_replicas(view, usable, spec)
        validate_round_robin(usable, spec.partitions, real, spec.first_partition)
        _validate_limits(usable, spec, real)
        placed = _round_robin(usable, spec, real, source)
    if not _within_limits(usable, placed):
        if spec.algorithm is Algorithm.STRIPED:
            usable = _with_no_rack_as_a_rack(usable)
        placed = _limited(usable, spec, real, source)
    return _with_placeholders(placed, spec.replication_factor)


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


def _round_robin(view: ClusterView, spec: PlacementSpec, real: int, source: RandomSource) -> Int32Array:
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
    return bool((np.bincount(view.index_of(placed).ravel(), minlength=len(view)) <= room).all())


def _with_no_rack_as_a_rack(view: ClusterView) -> ClusterView:
    """The view, in which all brokers without a rack share one rack that sorts first, if some brokers have a rack."""
    if None not in view.racks or set(view.racks) == {None}:
        return view
    return replace(view, racks=tuple("" if rack is None else f"/{rack}" for rack in view.racks))


def _limited(view: ClusterView, spec: PlacementSpec, real: int, source: RandomSource) -> Int32Array:
    """A placement within the limits; one must exist. Fenced brokers get only replicas that do not fit on live ones."""
    enough = int(np.minimum(view.headroom, spec.partitions).sum()) >= spec.partitions * real
    return _filled(view.live_only() if enough else view, spec.partitions, real, source)


def _filled(view: ClusterView, partitions: int, width: int, source: RandomSource) -> Int32Array:
    ring = np.roll(_ring(view), -source.next_int(len(view)))
    rack_of = rack_numbers(view.racks)
    capacity = np.minimum(view.room, partitions)
    on_live = np.where(view.live, capacity, 0) if view.fenced.any() else None
    quotas = widest_quotas(capacity, np.zeros_like(capacity), rack_of, partitions, width, ring, on_live)
    rows = fill_rows(quotas, rack_of, partitions, source)
    if on_live is not None:
        rows = with_live_leaders(rows, view.live, rack_of)
    elif rows.size <= MAX_REPLICAS_WITH_EVENEST_LEADERS:
        rows = balance_leaders(rows, len(view))
    else:
        rows = _with_even_leaders_where_room_is_left(rows, quotas < view.room)
    return view.broker_ids[rows[_leaders_in_turn(rows[:, 0], ring)]]


def _with_even_leaders_where_room_is_left(rows: Int64Array, roomy: BoolArray) -> Int64Array:
    """Even out the leaders among brokers with room left. The other brokers keep the leaders that they have."""
    theirs = np.flatnonzero(roomy[rows[:, 0]])
    number = np.cumsum(roomy) - 1  # among those with room
    candidates = np.where(roomy[rows[theirs]], number[rows[theirs]], -1)
    leader = balance_leaders(candidates, int(roomy.sum()))[:, 0]
    rows[theirs] = leaders_first(rows[theirs], np.flatnonzero(roomy)[leader])
    return rows


def _ring(view: ClusterView) -> Int64Array:
    return np.arange(len(view)) if None in view.racks else rack_alternated_order(view)[0]


def _leaders_in_turn(leader: Int64Array, ring: Int64Array) -> Int64Array:
    """An order of the rows in which brokers lead in turn, in the order of the ring, each as often as it can."""
    led = np.bincount(leader, minlength=len(ring))[leader]
    # The i-th of q rows that a broker leads gets the position (2i + 1) / 2q. One correctly rounded division gives the
    # same result on every machine.
    way = (2 * rank_within(leader) + 1) / (2 * led)
    return np.lexsort((np.argsort(ring)[leader], way))


def _with_placeholders(placed: Int32Array, replication_factor: int) -> Int32Array:
    missing = replication_factor - placed.shape[1]
    if not missing:
        return placed
    placeholders = np.broadcast_to(np.arange(-1, -1 - missing, -1, dtype=np.int32), (len(placed), missing))
    return np.concatenate((placed, placeholders), axis=1)
