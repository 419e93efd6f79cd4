"""One cluster shape under one policy: no Spark here, so that it is the same wherever it runs.

Chance is keyed by seed, shape and policy: a result depends on nothing else, not on who computed it, when, or what
else was computed beside it. What the brokers hold beforehand is keyed by seed and shape: every policy finds the same.
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

_DIGEST_BYTES: Final = 8
_WEIGHT_BITS: Final = 24
_REPLICAS_AT_ONCE: Final = 1 << 18
"""Placements of so many are judged together: small ones, whose cost is that of the calls."""
_RACKS_AT_ONCE: Final = 62
"""Racks that are the bits of one number."""
_NOTHING_MADE: Final = dict.fromkeys(
    ("replica_spread", "leader_spread", "rack_violations", "placeholders", "over_limit", "moves", "digest")
)

Placement = NDArray[np.int32]
Counts = NDArray[np.int64]


class Made(NamedTuple):
    """What a policy made of a cluster."""

    placement: Placement
    moves: int = 0
    """Replicas put down after the topic was made."""
    live: int | None = None
    """So many of the brokers live afterwards; None: those that were not fenced."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """A shape, and what its brokers hold beforehand."""

    shape: Shape
    racks: tuple[str | None, ...]
    held: Counts
    """int64[brokers]: replicas of other topics."""

    @property
    def unfenced(self) -> int:
        return self.shape.brokers - self.shape.fenced

    # What two policies see alike is made once: a view is checked when it is made, and those who place keep what they
    # have found out about it.
    @cached_property
    def unlimited(self) -> ClusterView:
        """What a placement gets to see that knows no limit."""
        return self.view()

    @cached_property
    def limited(self) -> ClusterView:
        """What a placement gets to see that keeps to the limit."""
        return self.view(limit=self.shape.limit)

    def view(
        self, *, limit: int | None = None, live: int | None = None, placement: Placement | None = None
    ) -> ClusterView:
        """What a placement gets to see. Only the first `live` brokers are not fenced; the replicas of `placement` are
        counted, too."""
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
    """The cluster that every policy finds."""
    held = np.zeros(shape.brokers, np.int64)
    if shape.held:
        # Raw words: what NumPy makes of them may change from version to version (NEP 19).
        words = np.random.PCG64(np.random.SeedSequence([seed, shape.shape_id])).random_raw(shape.brokers)
        weights = (words >> np.uint64(64 - _WEIGHT_BITS)).astype(np.int64) + 1
        held = shape.held * weights // weights.sum()
        held[: shape.held - int(held.sum())] += 1
    return Cluster(shape, _racks(shape.brokers, shape.racks), held)


# Shapes that are placed one after the other are often of one size; the same tuple is soon known to be the same.
@lru_cache(maxsize=8)
def _racks(brokers: int, racks: int) -> tuple[str | None, ...]:
    return tuple(f"r{broker % racks}" if racks else None for broker in range(brokers))


def _replicas_on(placement: Placement, brokers: int) -> Counts:
    """How many replicas each broker has, the first of them broker 1."""
    # Placeholders, from -1 down, become 0, which is no broker either.
    return np.bincount(np.maximum(placement, 0).ravel(), minlength=brokers + 1)[1:]


def _spec(shape: Shape, **others: Any) -> PlacementSpec:
    return PlacementSpec(partitions=shape.partitions, replication_factor=shape.replication_factor, **others)


def _round_robin(cluster: Cluster, rng: np.random.Generator) -> Made:
    """Kafka's AdminUtils: racks, no limits."""
    return Made(place(cluster.unlimited, _spec(cluster.shape), rng))


def _striped(cluster: Cluster, rng: np.random.Generator) -> Made:
    """Kafka's StripedReplicaPlacer: racks, fenced brokers last, no limits."""
    return Made(place(cluster.unlimited, _spec(cluster.shape, algorithm=Algorithm.STRIPED), rng))


def _limit_aware(cluster: Cluster, rng: np.random.Generator) -> Made:
    """Round robin within the limit (KIP-578)."""
    return Made(place(cluster.limited, _spec(cluster.shape), rng))


def _placeholders(cluster: Cluster, rng: np.random.Generator) -> Made:
    """Made while the fenced brokers are away (KIP-409), and filled as they come back one after the other."""
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
    """Round robin on the first half of the live brokers, which then get the others for company."""
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
    """PipelineError for a policy that there is not, for one that is named twice, and for none."""
    if not policies:
        raise PipelineError(f"no policy is named: there are {', '.join(POLICIES)}")
    for policy in policies:
        if policy not in POLICIES:
            raise PipelineError(f"there is no policy {policy!r}: there are {', '.join(POLICIES)}")
        if policies.count(policy) > 1:
            raise PipelineError(f"policy {policy!r} is named twice")


def chance(seed: int, shape_id: int, policy: str) -> np.random.Generator:
    """What a policy draws from for a shape."""
    # A name's digest, not Python's hash of it, which is another one in every process.
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
    """The share of all that the limit allows the unfenced brokers which would be left; below 0 where they have too
    little room."""
    shape = cluster.shape
    if shape.limit is None or not cluster.unfenced:
        return None
    room = int(np.maximum(shape.limit - cluster.held[: cluster.unfenced], 0).sum())
    return (room - shape.partitions * shape.replication_factor) / (shape.limit * cluster.unfenced)


def _judged(cluster: Cluster, made: Sequence[Made]) -> list[dict[str, Any]]:
    """What is to be said of each of several placements of one shape."""
    if not made:
        return []
    shape = cluster.shape
    # A column of all placements after the other: each is few numbers, and what costs is the number of calls.
    columns = np.stack([one.placement.T for one in made], axis=1)
    live = np.array([cluster.unfenced if one.live is None else one.live for one in made])
    # Broker by broker, one placement after the other. Placeholders, from -1 down, become 0, which is no broker either.
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
    """The most on one of the first `live` brokers less the fewest: int64[placements], for int64[placements, brokers]
    and int64[placements]."""
    there = np.arange(counts.shape[1]) < live[:, None]
    spread: Counts = counts.max(axis=1, initial=0, where=there) - counts.min(axis=1, initial=NO_LIMIT, where=there)
    return spread


def _rack_violations(shape: Shape, columns: Placement) -> Counts:
    """int64[placements]: rows with two replicas in one rack while another rack has none of theirs, for
    int32[columns, placements, rows]."""
    rack_count = min(shape.racks, shape.brokers)
    racks_of_row = np.zeros(columns.shape[1:], np.int64)
    # Nobody's place is in front, and behind, where the placeholders' numbers lead to.
    nobody = np.full(MAX_PLACEHOLDERS, -1)
    rack_of = np.concatenate((nobody[:1], np.arange(shape.brokers) % max(rack_count, 1), nobody))
    for first in range(0, rack_count, _RACKS_AT_ONCE):
        bits = np.where(rack_of // _RACKS_AT_ONCE == first // _RACKS_AT_ONCE, 1 << rack_of % _RACKS_AT_ONCE, 0)
        racks_of_row += np.bitwise_count(reduce(np.bitwise_or, (bits[column] for column in columns)))
    most = np.minimum(np.count_nonzero(columns >= 0, axis=0), rack_count)
    violations: Counts = np.count_nonzero(racks_of_row < most, axis=1)
    return violations
