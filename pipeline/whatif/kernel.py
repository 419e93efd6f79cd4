"""One cluster shape under one policy: no Spark here, so that it is the same wherever it runs.

Chance is keyed by seed, shape and policy: a result depends on nothing else, not on who computed it, when, or what
else was computed beside it. What the brokers hold beforehand is keyed by seed and shape: every policy finds the same.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assignment import (
    NO_LIMIT,
    Algorithm,
    CannotPlace,
    ClusterView,
    PlacementSpec,
    fill_placeholders,
    place,
    rebalance,
)
from pipeline.errors import PipelineError
from pipeline.whatif.shapes import Shape

_DIGEST_BYTES: Final = 8
_WEIGHT_BITS: Final = 24
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


class Cluster(NamedTuple):
    """A shape, and what its brokers hold beforehand."""

    shape: Shape
    racks: tuple[str | None, ...]
    held: Counts
    """int64[brokers]: replicas of other topics."""

    @property
    def unfenced(self) -> int:
        return self.shape.brokers - self.shape.fenced

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
    racks = tuple(f"r{broker % shape.racks}" if shape.racks else None for broker in range(shape.brokers))
    held = np.zeros(shape.brokers, np.int64)
    if shape.held:
        # Raw words: what NumPy makes of them may change from version to version (NEP 19).
        words = np.random.PCG64(np.random.SeedSequence([seed, shape.shape_id])).random_raw(shape.brokers)
        weights = (words >> np.uint64(64 - _WEIGHT_BITS)).astype(np.int64) + 1
        held = shape.held * weights // weights.sum()
        held[: shape.held - int(held.sum())] += 1
    return Cluster(shape, racks, held)


def _replicas_on(placement: Placement, brokers: int) -> Counts:
    """How many replicas each broker has, the first of them broker 1."""
    # Placeholders, from -1 down, become 0, which is no broker either.
    return np.bincount(np.maximum(placement, 0).ravel(), minlength=brokers + 1)[1:]


def _spec(shape: Shape, **others: Any) -> PlacementSpec:
    return PlacementSpec(partitions=shape.partitions, replication_factor=shape.replication_factor, **others)


def _round_robin(cluster: Cluster, rng: np.random.Generator) -> Made:
    """Kafka's AdminUtils: racks, no limits."""
    return Made(place(cluster.view(), _spec(cluster.shape), rng))


def _striped(cluster: Cluster, rng: np.random.Generator) -> Made:
    """Kafka's StripedReplicaPlacer: racks, fenced brokers last, no limits."""
    return Made(place(cluster.view(), _spec(cluster.shape, algorithm=Algorithm.STRIPED), rng))


def _limit_aware(cluster: Cluster, rng: np.random.Generator) -> Made:
    """Round robin within the limit (KIP-578)."""
    return Made(place(cluster.view(limit=cluster.shape.limit), _spec(cluster.shape), rng))


def _placeholders(cluster: Cluster, rng: np.random.Generator) -> Made:
    """Made while the fenced brokers are away (KIP-409), and filled as they come back one after the other."""
    shape = cluster.shape
    placement = place(cluster.view(limit=shape.limit), _spec(shape, under_replicated=True), rng)
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
    asked = {**shape._asdict(), "seed": seed, "headroom": _headroom(cluster)}
    rows = []
    for policy in policies:
        try:
            made = POLICIES[policy](cluster, chance(seed, shape.shape_id, policy))
        except CannotPlace as error:
            outcome = {**_NOTHING_MADE, "placed": False, "reason": f"{error.reason.name}: {error}"}
        else:
            outcome = {**_judged(cluster, made), "placed": True, "reason": None}
        rows.append({**asked, "policy": policy, **outcome})
    return rows


def _headroom(cluster: Cluster) -> float | None:
    """The share of all that the limit allows the unfenced brokers which would be left; below 0 where they have too
    little room."""
    shape = cluster.shape
    if shape.limit is None or not cluster.unfenced:
        return None
    room = int(np.maximum(shape.limit - cluster.held[: cluster.unfenced], 0).sum())
    return (room - shape.partitions * shape.replication_factor) / (shape.limit * cluster.unfenced)


def _judged(cluster: Cluster, made: Made) -> dict[str, Any]:
    shape, placement = cluster.shape, made.placement
    live = cluster.unfenced if made.live is None else made.live
    own = _replicas_on(placement, shape.brokers)
    loads, leads = (cluster.held + own)[:live], _replicas_on(placement[:, 0], shape.brokers)[:live]
    over = 0 if shape.limit is None else np.count_nonzero((cluster.held + own > shape.limit) & (own > 0))
    return {
        "replica_spread": int(loads.max() - loads.min()),
        "leader_spread": int(leads.max() - leads.min()),
        "rack_violations": _rack_violations(shape, placement),
        "placeholders": int(np.count_nonzero(placement < 0)),
        "over_limit": int(over),
        "moves": made.moves,
        "digest": hashlib.blake2b(placement.astype("<i4").tobytes(), digest_size=_DIGEST_BYTES).hexdigest(),
    }


def _rack_violations(shape: Shape, placement: Placement) -> int:
    """Rows with two replicas in one rack while another rack has none of theirs."""
    rack_count = min(shape.racks, shape.brokers)
    if rack_count <= 1:
        return 0
    # The last one, which is where the placeholders' numbers end up, is no rack.
    rack_of = np.append(np.arange(-1, shape.brokers) % shape.racks, -1)
    racks = rack_of[np.maximum(placement, 0).T - (placement.T < 0)]
    distinct, real = np.zeros(len(placement), np.int64), np.zeros(len(placement), np.int64)
    for column, own in enumerate(racks):
        there = own >= 0
        real += there
        distinct += there & ~(racks[:column] == own).any(axis=0)
    return int(np.count_nonzero((distinct < real) & (distinct < rack_count)))
