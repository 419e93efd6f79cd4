"""Places one cluster shape with one policy. Spark is not used here.

The random source depends on seed, shape and policy only, so a result is the same on every machine and in every order of
computation. The replicas that brokers hold beforehand depend on seed and shape only, so they are the same for every
policy.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from klamm.assignment import (
    MAX_PLACEHOLDERS,
    NO_LIMIT,
    Algorithm,
    CannotPlace,
    ClusterView,
    PlacementSpec,
    fill_placeholders,
    place,
    rebalance,
)
from klamm.pipeline.errors import PipelineError
from klamm.pipeline.whatif.shapes import Shape
from klamm.protocol.near_names import did_you_mean

_DIGEST_BYTES: Final = 8
_WEIGHT_BITS: Final = 24
_REPLICAS_AT_ONCE: Final = 1 << 18
"""Placements with up to this many replicas in total are evaluated together, because each call has a fixed cost."""
_RACKS_AT_ONCE: Final = 62
"""The most racks that fit as bits into one number."""
_NOTHING_MADE: Final = dict.fromkeys(
    ("replica_spread", "leader_spread", "rack_violations", "placeholders", "over_limit", "moves", "digest")
)

Placement = NDArray[np.int32]
Counts = NDArray[np.int64]


class Made(NamedTuple):
    """The placement that a policy made on a cluster."""

    placement: Placement
    moves: int = 0
    """Replicas that were placed or moved after the creation of the topic."""
    live: int | None = None
    """The number of live brokers afterwards; None means all brokers that were not fenced before."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """A shape, and the replicas that its brokers hold beforehand."""

    shape: Shape
    racks: tuple[str | None, ...]
    held: Counts
    """int64[brokers]: replicas of other topics."""

    @property
    def unfenced(self) -> int:
        return self.shape.brokers - self.shape.fenced

    # Policies with the same view share it, because creating a view takes time, and placement caches data by view.
    @cached_property
    def unlimited(self) -> ClusterView:
        """The view for a placement without limits."""
        return self.view()

    @cached_property
    def limited(self) -> ClusterView:
        """The view for a placement within the limit."""
        return self.view(limit=self.shape.limit)

    def view(
        self, *, limit: int | None = None, live: int | None = None, placement: Placement | None = None
    ) -> ClusterView:
        """The view for a placement. Only the first `live` brokers are not fenced. The replica counts include
        `placement`."""
        there = self.held if placement is None else self.held + _replicas_on(placement, self.shape.brokers)
        return ClusterView(
            broker_ids=np.arange(1, self.shape.brokers + 1, dtype=np.int32),
            racks=self.racks,
            fenced=np.arange(self.shape.brokers) >= (self.unfenced if live is None else live),
            replica_counts=there,
            replica_limit=NO_LIMIT if limit is None else limit,
        )


Policy = Callable[[Cluster, np.random.Generator], Made]


def cluster_of(shape: Shape, seed: int) -> Cluster:
    """The cluster before the placement, the same for every policy."""
    held = np.zeros(shape.brokers, np.int64)
    if shape.held:
        # Raw words, because NumPy's distributions may change between versions (NEP 19).
        words = np.random.PCG64(np.random.SeedSequence([seed, shape.shape_id])).random_raw(shape.brokers)
        weights = (words >> np.uint64(64 - _WEIGHT_BITS)).astype(np.int64) + 1
        held = shape.held * weights // weights.sum()
        held[: shape.held - int(held.sum())] += 1
    return Cluster(shape, _racks(shape.brokers, shape.racks), held)


# Consecutive shapes often have the same size. Comparing a tuple with itself is fast, so the tuple is cached.
@lru_cache(maxsize=8)
def _racks(brokers: int, racks: int) -> tuple[str | None, ...]:
    return tuple(f"r{broker % racks}" if racks else None for broker in range(brokers))


def _replicas_on(placement: Placement, brokers: int) -> Counts:
    """The number of replicas of each broker, beginning with broker 1."""
    # Placeholders are counted as broker 0, which does not exist.
    return np.bincount(np.maximum(placement, 0).ravel(), minlength=brokers + 1)[1:]


def _spec(shape: Shape, **others: Any) -> PlacementSpec:
    return PlacementSpec(partitions=shape.partitions, replication_factor=shape.replication_factor, **others)


def _round_robin(cluster: Cluster, rng: np.random.Generator) -> Made:
    """Kafka's AdminUtils, with racks and without limits."""
    return Made(place(cluster.unlimited, _spec(cluster.shape), rng))


def _striped(cluster: Cluster, rng: np.random.Generator) -> Made:
    """Kafka's StripedReplicaPlacer, with racks, fenced brokers last, and without limits."""
    return Made(place(cluster.unlimited, _spec(cluster.shape, algorithm=Algorithm.STRIPED), rng))


def _limit_aware(cluster: Cluster, rng: np.random.Generator) -> Made:
    """Round robin within the limit (KIP-578)."""
    return Made(place(cluster.limited, _spec(cluster.shape), rng))


def _placeholders(cluster: Cluster, rng: np.random.Generator) -> Made:
    """The topic is created while the fenced brokers are offline (KIP-409), and placeholders are filled as these brokers
    return, one by one."""
    shape = cluster.shape
    placement = place(cluster.limited, _spec(shape, under_replicated=True), rng)
    before = left = int(np.count_nonzero(placement < 0))
    for broker_id in range(cluster.unfenced + 1, shape.brokers + 1):
        if not left:
            break
        back = cluster.view(limit=shape.limit, live=broker_id, placement=placement)
        placement = fill_placeholders(back, placement, broker_id)
        left = int(np.count_nonzero(placement < 0))
    return Made(placement, before - left, shape.brokers)


def _rebalance(cluster: Cluster, rng: np.random.Generator) -> Made:
    """Round robin on the first half of the live brokers, followed by a rebalance over all of them."""
    shape = cluster.shape
    few = max(min(cluster.unfenced, shape.replication_factor), (cluster.unfenced + 1) // 2)
    placement = place(cluster.view(live=few), _spec(shape), rng)
    evened = rebalance(cluster.view(limit=shape.limit, placement=placement), placement, rng)
    return Made(evened.placement, evened.moves)


POLICIES: Final[Mapping[str, Policy]] = {
    "round-robin": _round_robin,
    "striped": _striped,
    "limit-aware": _limit_aware,
    "placeholders": _placeholders,
    "rebalance": _rebalance,
}


def check_policies(policies: Sequence[str]) -> None:
    """Raise PipelineError for an unknown policy, for a repeated one, and for an empty list."""
    if not policies:
        raise PipelineError(f"no policy is named: there are {', '.join(POLICIES)}")
    for policy in policies:
        if policy not in POLICIES:
            raise PipelineError(
                f"there is no policy {policy!r} (known: {', '.join(POLICIES)}){did_you_mean(policy, POLICIES)}"
            )
        if policies.count(policy) > 1:
            raise PipelineError(f"policy {policy!r} is named twice")


def chance(seed: int, shape_id: int, policy: str) -> np.random.Generator:
    """The random source of a policy for a shape."""
    # A digest of the name is used, because Python's hash differs between processes.
    key = int.from_bytes(hashlib.blake2b(policy.encode(), digest_size=_DIGEST_BYTES).digest(), "big")
    return np.random.default_rng(np.random.SeedSequence([seed, shape_id, key]))


def try_policies(shape: Shape, policies: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """Rows of whatif.result, one for each policy."""
    cluster = cluster_of(shape, seed)
    at_once = max(1, _REPLICAS_AT_ONCE // (shape.partitions * shape.replication_factor))
    rows = []
    for first in range(0, len(policies), at_once):
        rows += _tried(cluster, policies[first : first + at_once], seed)
    return rows


def _tried(cluster: Cluster, policies: Sequence[str], seed: int) -> list[dict[str, Any]]:
    asked = {**cluster.shape._asdict(), "seed": seed, "headroom": _headroom(cluster)}
    made: dict[str, Made] = {}
    outcomes: dict[str, dict[str, Any]] = {}
    for policy in policies:
        try:
            made[policy] = POLICIES[policy](cluster, chance(seed, cluster.shape.shape_id, policy))
        except CannotPlace as error:
            outcomes[policy] = {**_NOTHING_MADE, "placed": False, "reason": f"{error.reason.name}: {error}"}
    outcomes.update(zip(made, _judged(cluster, list(made.values())), strict=True))
    return [{**asked, "policy": policy, **outcomes[policy]} for policy in policies]


def _headroom(cluster: Cluster) -> float | None:
    """The share of the room of all unfenced brokers that is left after the placement. It is negative if they have too
    little room."""
    shape = cluster.shape
    if shape.limit is None or not cluster.unfenced:
        return None
    room = int(np.maximum(shape.limit - cluster.held[: cluster.unfenced], 0).sum())
    return (room - shape.partitions * shape.replication_factor) / (shape.limit * cluster.unfenced)


def _judged(cluster: Cluster, made: Sequence[Made]) -> list[dict[str, Any]]:
    """The measures of each of several placements of one shape."""
    if not made:
        return []
    shape = cluster.shape
    # One array holds all placements, because each one is small and the number of calls determines the time.
    columns = np.stack([one.placement.T for one in made], axis=1)
    live = np.array([cluster.unfenced if one.live is None else one.live for one in made])
    # Each placement has its own range of broker numbers. Placeholders are counted as broker 0, which does not exist.
    size, width = len(made), shape.brokers + 1
    cells = np.maximum(columns, 0) + np.arange(0, size * width, width)[:, None]
    own, leads = (
        np.bincount(some.ravel(), minlength=size * width).reshape(size, width)[:, 1:] for some in (cells, cells[0])
    )
    loads, limit = cluster.held + own, NO_LIMIT if shape.limit is None else shape.limit
    judged = (
        _spread(loads, live),
        _spread(leads, live),
        _rack_violations(shape, columns),
        np.count_nonzero(columns < 0, axis=(0, 2)),
        np.count_nonzero((loads > limit) & (own > 0), axis=1),
    )
    return [
        {
            "placed": True,
            "reason": None,
            "replica_spread": replica_spread,
            "leader_spread": leader_spread,
            "rack_violations": rack_violations,
            "placeholders": placeholders,
            "over_limit": over_limit,
            "moves": one.moves,
            "digest": hashlib.blake2b(one.placement.astype("<i4").tobytes(), digest_size=_DIGEST_BYTES).hexdigest(),
        }
        for one, replica_spread, leader_spread, rack_violations, placeholders, over_limit in zip(
            made, *(numbers.tolist() for numbers in judged), strict=True
        )
    ]


def _spread(counts: Counts, live: Counts) -> Counts:
    """int64[placements]: the largest count minus the smallest one, over the first `live` brokers. `counts` is
    int64[placements, brokers], `live` int64[placements]."""
    there = np.arange(counts.shape[1]) < live[:, None]
    spread: Counts = counts.max(axis=1, initial=0, where=there) - counts.min(axis=1, initial=NO_LIMIT, where=there)
    return spread


def _rack_violations(shape: Shape, columns: Placement) -> Counts:
    """int64[placements]: the number of rows with two replicas in one rack while another rack has none. `columns` is
    int32[columns, placements, rows]."""
    rack_count = min(shape.racks, shape.brokers)
    racks_of_row = np.zeros(columns.shape[1:], np.int64)
    # Index 0 is no broker, and neither are the last ones, which the negative numbers of placeholders select.
    no_broker = np.full(MAX_PLACEHOLDERS, -1)
    rack_of = np.concatenate((no_broker[:1], np.arange(shape.brokers) % max(rack_count, 1), no_broker))
    for first in range(0, rack_count, _RACKS_AT_ONCE):
        bits = np.where(rack_of // _RACKS_AT_ONCE == first // _RACKS_AT_ONCE, 1 << rack_of % _RACKS_AT_ONCE, 0)
        racks_of_row += np.bitwise_count(reduce(np.bitwise_or, (bits[column] for column in columns)))
    most = np.minimum(np.count_nonzero(columns >= 0, axis=0), rack_count)
    violations: Counts = np.count_nonzero(racks_of_row < most, axis=1)
    return violations
