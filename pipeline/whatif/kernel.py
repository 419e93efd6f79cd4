"""Places cluster shapes with policies. Spark is not used here.

The random source depends on seed, shape and policy only, so a result is the same on every machine and in every order of
computation, and does not depend on the other shapes that are placed at the same time. The replicas that brokers hold
beforehand depend on seed and shape only, so they are the same for every policy.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np

from klamm.assignment import (
    NO_LIMIT,
    Algorithm,
    Asked,
    CannotPlace,
    ClusterView,
    PlacementSpec,
    fill_placeholders,
    place_together,
    rebalance,
)
from klamm.pipeline.errors import PipelineError
from klamm.pipeline.whatif.measures import DIGEST_BYTES, Counts, Placement, ToMeasure, measured
from klamm.pipeline.whatif.shapes import Shape
from klamm.protocol.near_names import did_you_mean

_WEIGHT_BITS: Final = 24
_REPLICAS_AT_ONCE: Final = 1 << 16
"""Shapes with about this many replicas in total are placed together. More of them would not fit into the cache of the
processor."""
_NOTHING_MADE: Final = dict.fromkeys(
    ("replica_spread", "leader_spread", "rack_violations", "placeholders", "over_limit", "moves", "digest")
)


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

    @property
    def unlimited(self) -> ClusterView:
        """The view for a placement without limits, for which the replicas that brokers hold do not matter."""
        return _unlimited_view(self.racks, self.unfenced)

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


Clusters = Sequence[Cluster]
Rngs = Sequence[np.random.Generator]
Results = list[Made | CannotPlace]
Policy = Callable[[Clusters, Rngs], Results]
"""The placement that a policy makes on each of several clusters, with a random source for each, or the reason why it
makes none."""


def cluster_of(shape: Shape, seed: int) -> Cluster:
    """The cluster before the placement, the same for every policy."""
    held = np.zeros(shape.brokers, np.int64)
    if shape.held:
        # Raw words, because NumPy's distributions may change between versions (NEP 19).
        words = _words_from(seed, shape.shape_id).random_raw(shape.brokers)
        weights = (words >> np.uint64(64 - _WEIGHT_BITS)).astype(np.int64) + 1
        held = shape.held * weights // weights.sum()
        held[: shape.held - int(held.sum())] += 1
    return Cluster(shape, _racks(shape.brokers, shape.racks), held)


# Placement caches data by view, and consecutive shapes often have the same brokers.
@lru_cache(maxsize=8)
def _unlimited_view(racks: tuple[str | None, ...], live: int) -> ClusterView:
    brokers = len(racks)
    return ClusterView(np.arange(1, brokers + 1, dtype=np.int32), racks, fenced=np.arange(brokers) >= live)


# Consecutive shapes often have the same size. Comparing a tuple with itself is fast, so the tuple is cached.
@lru_cache(maxsize=8)
def _racks(brokers: int, racks: int) -> tuple[str | None, ...]:
    return tuple(f"r{broker % racks}" if racks else None for broker in range(brokers))


def _replicas_on(placement: Placement, brokers: int) -> Counts:
    """The number of replicas of each broker, beginning with broker 1."""
    # Placeholders are counted as broker 0, which does not exist.
    return np.bincount(np.maximum(placement, 0).ravel(), minlength=brokers + 1)[1:]


def _round_robin(clusters: Clusters, rngs: Rngs) -> Results:
    """Kafka's AdminUtils, with racks and without limits."""
    return _created([cluster.unlimited for cluster in clusters], clusters, rngs)


def _striped(clusters: Clusters, rngs: Rngs) -> Results:
    """Kafka's StripedReplicaPlacer, with racks, fenced brokers last, and without limits."""
    return _created([cluster.unlimited for cluster in clusters], clusters, rngs, algorithm=Algorithm.STRIPED)


def _limit_aware(clusters: Clusters, rngs: Rngs) -> Results:
    """Round robin within the limit (KIP-578)."""
    return _created([cluster.limited for cluster in clusters], clusters, rngs)


def _placeholders(clusters: Clusters, rngs: Rngs) -> Results:
    """The topic is created while the fenced brokers are offline (KIP-409), and placeholders are filled as these brokers
    return, one by one."""
    created = _created([cluster.limited for cluster in clusters], clusters, rngs, under_replicated=True)
    return [
        made if isinstance(made, CannotPlace) else _filled(cluster, made.placement)
        for cluster, made in zip(clusters, created, strict=True)
    ]


def _filled(cluster: Cluster, placement: Placement) -> Made:
    shape = cluster.shape
    before = left = int(np.count_nonzero(placement < 0))
    for broker_id in range(cluster.unfenced + 1, shape.brokers + 1):
        if not left:
            break
        back = cluster.view(limit=shape.limit, live=broker_id, placement=placement)
        placement = fill_placeholders(back, placement, broker_id)
        left = int(np.count_nonzero(placement < 0))
    return Made(placement, before - left, shape.brokers)


def _rebalance(clusters: Clusters, rngs: Rngs) -> Results:
    """Round robin on the first half of the live brokers, followed by a rebalance over all of them."""
    few = [max(min(one.unfenced, one.shape.replication_factor), (one.unfenced + 1) // 2) for one in clusters]
    views = [cluster.view(live=live) for cluster, live in zip(clusters, few, strict=True)]
    return [
        made if isinstance(made, CannotPlace) else _evened(cluster, made.placement, rng)
        for cluster, made, rng in zip(clusters, _created(views, clusters, rngs), rngs, strict=True)
    ]


def _evened(cluster: Cluster, placement: Placement, rng: np.random.Generator) -> Made | CannotPlace:
    try:
        evened = rebalance(cluster.view(limit=cluster.shape.limit, placement=placement), placement, rng)
    except CannotPlace as error:
        return error
    return Made(evened.placement, evened.moves)


def _created(views: Sequence[ClusterView], clusters: Clusters, rngs: Rngs, **others: Any) -> Results:
    """The placement of each cluster's topic on a view of the cluster."""
    asked = []
    for view, cluster, rng in zip(views, clusters, rngs, strict=True):
        shape = cluster.shape
        spec = PlacementSpec(partitions=shape.partitions, replication_factor=shape.replication_factor, **others)
        asked.append(Asked(view, spec, rng))
    return [placed if isinstance(placed, CannotPlace) else Made(placed) for placed in place_together(asked)]


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


@cache
def _policy_key(policy: str) -> int:
    # A digest of the name is used, because Python's hash differs between processes.
    return int.from_bytes(hashlib.blake2b(policy.encode(), digest_size=DIGEST_BYTES).digest(), "big")


def chance(seed: int, shape_id: int, policy: str) -> np.random.Generator:
    """The random source of a policy for a shape."""
    return np.random.Generator(_words_from(seed, shape_id, _policy_key(policy)))


def _words_from(*numbers: int) -> np.random.PCG64:
    """`PCG64(SeedSequence(numbers))`. NumPy is slow in making words of 32 bits, the lowest first."""
    words = [number >> shift & 0xFFFFFFFF for number in numbers for shift in range(0, max(number.bit_length(), 1), 32)]
    return np.random.PCG64(np.random.SeedSequence(np.array(words, np.uint32)))


def try_policies(shapes: Sequence[Shape], policies: Sequence[str], seed: int) -> Iterator[dict[str, Any]]:
    """Rows of whatif.result, one for each policy and shape, in any order.

    Many shapes are placed and measured together. That is faster than one after the other and gives the same rows.
    """
    # Shapes with the same brokers are consecutive, because data about brokers is cached.
    ordered = sorted(shapes, key=lambda shape: (shape.replication_factor, shape.racks, shape.brokers))
    for _, alike in groupby(ordered, key=lambda shape: shape.replication_factor):
        batch: list[Shape] = []
        replicas = 0
        for shape in alike:
            batch.append(shape)
            replicas += shape.partitions * shape.replication_factor
            if replicas >= _REPLICAS_AT_ONCE:
                yield from _tried(batch, policies, seed)
                batch, replicas = [], 0
        if batch:
            yield from _tried(batch, policies, seed)


def _tried(shapes: Sequence[Shape], policies: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """The rows of shapes with the same replication factor."""
    clusters = [cluster_of(shape, seed) for shape in shapes]
    asked = [{**cluster.shape._asdict(), "seed": seed, "headroom": _headroom(cluster)} for cluster in clusters]
    rows, placed, to_measure = [], [], []
    for policy in policies:
        rngs = [chance(seed, shape.shape_id, policy) for shape in shapes]
        for cluster, one, made in zip(clusters, asked, POLICIES[policy](clusters, rngs), strict=True):
            if isinstance(made, CannotPlace):
                reason = f"{made.reason.name}: {made}"
                rows.append({**one, "policy": policy, **_NOTHING_MADE, "placed": False, "reason": reason})
            else:
                rows.append({**one, "policy": policy, "placed": True, "reason": None})
                placed.append(rows[-1])
                live = cluster.unfenced if made.live is None else made.live
                to_measure.append(ToMeasure(cluster.shape, cluster.held, made.placement, made.moves, live))
    for row, measures in zip(placed, measured(to_measure), strict=True):
        row.update(measures)
    return rows


def _headroom(cluster: Cluster) -> float | None:
    """The share of the room of all unfenced brokers that is left after the placement. It is negative if they have too
    little room."""
    shape = cluster.shape
    if shape.limit is None or not cluster.unfenced:
        return None
    room = int(np.maximum(shape.limit - cluster.held[: cluster.unfenced], 0).sum())
    return (room - shape.partitions * shape.replication_factor) / (shape.limit * cluster.unfenced)
