"""Small clusters that run into their limits, and what is asked of them: strategies for the placement tests.

Small on purpose: the oracles look at every row, and a limit that decides is met soonest where there is little room.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from assignment.cluster_view import NO_LIMIT, ClusterView, Int32Array
from assignment.kafka.java_random import JavaRandom
from assignment.place import Algorithm, PlacementSpec
from assignment.random_source import Rng

LARGEST_ID = 2**31 - 1
RACK_NAMES = ["", "a", "B", "\U0001f600", "\uff5e"]


@dataclass(frozen=True)
class Seed:
    """A seed that gives the same random source as often as it is asked, Java's or NumPy's."""

    number: int
    java: bool = True

    def rng(self) -> Rng:
        """A fresh source: whoever draws from it does not disturb the next."""
        return JavaRandom(self.number) if self.java else np.random.Generator(np.random.PCG64(self.number))


def seeds() -> st.SearchStrategy[Seed]:
    """Seeds of both kinds of random source."""
    return st.builds(Seed, st.integers(0, 2**32), st.booleans())


def small_cluster(
    headroom: list[int], racks: list[str | None] | None = None, limit: int = 20, **facts: Any
) -> ClusterView:
    """A view whose broker b, with id 10 + b, has `headroom[b]` places left below `limit`; negative is over it."""
    return ClusterView(
        broker_ids=np.arange(10, 10 + len(headroom), dtype=np.int32),
        racks=tuple(racks or [None] * len(headroom)),
        replica_counts=np.array([limit - room for room in headroom], dtype=np.int64),
        replica_limit=limit,
        **facts,
    )


@st.composite
def brokers(draw: st.DrawFn, size: int, racked: bool | None) -> tuple[Int32Array, tuple[str | None, ...]]:
    """Ids of any size in any order, and their racks: all have one, or (`racked` False) none has."""
    ids = st.lists(st.integers(0, 40) | st.integers(0, LARGEST_ID), min_size=size, max_size=size, unique=True)
    with_racks = draw(st.booleans()) if racked is None else racked
    rack = st.sampled_from(RACK_NAMES[: draw(st.integers(1, len(RACK_NAMES)))]) if with_racks else st.none()
    return np.array(draw(ids), dtype=np.int32), tuple(draw(rack) for _ in range(size))


@st.composite
def clusters(draw: st.DrawFn, *, most_room: int = 8) -> ClusterView:
    """Brokers with little room below their limit, some of them fenced, in a cluster that may be near its own limit."""
    size = draw(st.integers(1, 6))
    ids, racks = draw(brokers(size, racked=None))
    limit = draw(st.integers(most_room, most_room + 12))
    partition_count = draw(st.integers(0, 20))
    return ClusterView(
        broker_ids=ids,
        racks=racks,
        fenced=np.array([draw(st.booleans()) for _ in racks]),
        replica_counts=np.array([limit - draw(st.integers(-2, most_room)) for _ in racks]),
        replica_limit=limit,
        partition_count=partition_count,
        partition_limit=draw(st.just(NO_LIMIT) | st.integers(max(1, partition_count - 1), partition_count + 12)),
    )


@st.composite
def specs(draw: st.DrawFn, algorithm: Algorithm = Algorithm.ROUND_ROBIN) -> PlacementSpec:
    """A few rows of any width, with and without a fixed start."""
    return PlacementSpec(
        partitions=draw(st.integers(1, 10)),
        replication_factor=draw(st.integers(1, 5)),
        algorithm=algorithm,
        first_partition=draw(st.integers(-1, 20)),
        start_index=draw(st.none() | st.integers(0, 20)),
    )


@st.composite
def tight(
    draw: st.DrawFn, *, racked: bool | None = None, least_slack: int = 0, algorithm: Algorithm = Algorithm.ROUND_ROBIN
) -> tuple[ClusterView, PlacementSpec]:
    """Brokers with as many places as are asked for and up to two more, or `least_slack` fewer; then some get plenty.

    Most such placements must leave Kafka's. With the default slack one always exists.
    """
    size, rows = draw(st.integers(2, 6)), draw(st.integers(1, 9))
    spec = replace(draw(specs(algorithm)), partitions=rows, replication_factor=draw(st.integers(1, min(size, 4))))
    rooms = [draw(st.integers(0, rows)) for _ in range(size)]
    missing = rows * spec.replication_factor + draw(st.integers(least_slack, 2)) - sum(rooms)
    for broker in draw(st.permutations(range(size))):
        change = min(max(missing, -rooms[broker]), rows - rooms[broker])
        rooms[broker] += change
        missing -= change
    limit, over = rows + draw(st.integers(0, 9)), draw(st.integers(0, 3))
    counts = np.array([limit - room if room else limit + over for room in rooms])
    counts[list(draw(st.sets(st.integers(0, size - 1), max_size=size // 2)))] = 0
    ids, racks = draw(brokers(size + 1, racked))
    # One broker is left over: fenced, with room for everything, anywhere among the others. Nobody may ask it.
    fenced = np.zeros(size + 1, dtype=np.bool_)
    fenced[draw(st.integers(0, size))] = True
    all_counts = np.zeros(size + 1, dtype=np.int64)
    all_counts[~fenced] = counts
    view = ClusterView(ids, racks, fenced=fenced, replica_counts=all_counts, replica_limit=limit)
    return view if draw(st.booleans()) else view.live_only(), spec


def without_limits(view: ClusterView) -> ClusterView:
    """The same brokers where nothing limits them."""
    return replace(view, replica_limit=NO_LIMIT, partition_limit=NO_LIMIT)
