"""Strategies for the placement tests: small clusters close to their limits, and placement requests.

They are small because the oracles are slow, and because limits matter more often if there is little room.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from klamm.assignment.cluster_view import NO_LIMIT, ClusterView, Int32Array
from klamm.assignment.kafka.java_random import JavaRandom
from klamm.assignment.place import Algorithm, PlacementSpec
from klamm.assignment.random_source import Rng

LARGEST_ID = 2**31 - 1
Racks = tuple[str | None, ...]
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


def seeded() -> st.SearchStrategy[Random]:
    """A source of chance for a whole case: drawn one by one, most values would be the simplest there are."""
    return st.integers(0, 2**32).map(Random)


def some_ids(chance: Random, size: int) -> Int32Array:
    """Broker ids in any order, small ones and ids of any size."""
    return np.array(chance.sample(range(41 if chance.random() < 0.8 else LARGEST_ID + 1), size), dtype=np.int32)


def some_racks(chance: Random, size: int, *, racked: bool | None = None, mixed: bool = False) -> Racks:
    """Racks of any sizes, or none at all (`racked` False, or by chance); `mixed`: at times for some brokers only."""
    if racked is False or (racked is None and chance.random() < 0.3):
        return (None,) * size
    names: list[str | None] = [*RACK_NAMES[: chance.choice((1, 2, 3, 3, 4, 5))]]
    if mixed and chance.random() < 0.3:
        names.append(None)
    return tuple(chance.choice(names) for _ in range(size))


@st.composite
def clusters(draw: st.DrawFn, *, most_room: int = 8, mixed: bool = False) -> ClusterView:
    """Brokers with little room below their limit, some of them fenced, in a cluster that may be near its own limit."""
    chance = draw(seeded())
    size = chance.choice((1, 2, 3, 4, 5, 6, 7, 7))
    limit = chance.randint(most_room, most_room + 12)
    partition_count, fenced = chance.randint(0, 20), chance.choice((0, 0.2, 0.5))
    return ClusterView(
        broker_ids=some_ids(chance, size),
        racks=some_racks(chance, size, mixed=mixed),
        fenced=np.array([chance.random() < fenced for _ in range(size)]),
        replica_counts=np.array([limit - chance.randint(-2, most_room) for _ in range(size)]),
        replica_limit=limit,
        partition_count=partition_count,
        partition_limit=chance.choice((NO_LIMIT, max(1, partition_count + chance.randint(-1, 9)))),
    )


@st.composite
def specs(draw: st.DrawFn, algorithm: Algorithm = Algorithm.ROUND_ROBIN) -> PlacementSpec:
    """A few rows of any width, with and without a fixed start."""
    chance = draw(seeded())
    return PlacementSpec(
        partitions=chance.randint(1, 10),
        replication_factor=chance.choice((1, 2, 2, 2, 3, 3, 4, 5)),
        algorithm=algorithm,
        first_partition=chance.choice((-1, 0, chance.randint(1, 20))),
        start_index=chance.choice((None, chance.randint(0, 20))),
    )


@st.composite
def asked(
    draw: st.DrawFn, algorithm: Algorithm = Algorithm.ROUND_ROBIN, *, mixed: bool = False
) -> tuple[ClusterView, PlacementSpec]:
    """Any cluster and any rows; the limit of the cluster is often just enough for them, or just not."""
    view, spec, chance = draw(clusters(mixed=mixed)), draw(specs(algorithm)), draw(seeded())
    if chance.random() < 0.4:
        view = replace(view, partition_limit=view.partition_count + max(spec.partitions + chance.randint(-1, 1), 1))
    return view, spec


@st.composite
def tight(
    draw: st.DrawFn,
    *,
    racked: bool | None = None,
    mixed: bool = False,
    least_slack: int = 0,
    algorithm: Algorithm = Algorithm.ROUND_ROBIN,
) -> tuple[ClusterView, PlacementSpec]:
    """Brokers with as many places as are asked for and up to two more, or `least_slack` fewer; then some get plenty.

    Most such placements must leave Kafka's. With the default slack one always exists.
    """
    spec, chance = draw(specs(algorithm)), draw(seeded())
    size, rows = chance.randint(2, 6), chance.randint(1, 9)
    spec = replace(spec, partitions=rows, replication_factor=chance.randint(1, min(size, 4)))
    places = [chance.randint(0, rows) for _ in range(size)]
    missing = rows * spec.replication_factor + chance.randint(least_slack, 2) - sum(places)
    for broker in chance.sample(range(size), size):
        change = min(max(missing, -places[broker]), rows - places[broker])
        places[broker] += change
        missing -= change
    limit, over = rows + chance.randint(0, 9), chance.randint(0, 3)
    counts = np.array([limit - room if room else limit + over for room in places])
    counts[chance.sample(range(size), chance.choice((0, 0, chance.randint(0, size // 2))))] = 0
    ids, racks = some_ids(chance, size + 1), some_racks(chance, size + 1, racked=racked, mixed=mixed)
    # One broker is left over: fenced, with room for everything, anywhere among the others. Nobody may ask it.
    fenced = np.zeros(size + 1, dtype=np.bool_)
    fenced[chance.randint(0, size)] = True
    all_counts = np.zeros(size + 1, dtype=np.int64)
    all_counts[~fenced] = counts
    view = ClusterView(ids, racks, fenced=fenced, replica_counts=all_counts, replica_limit=limit)
    return chance.choice((view, view.live_only())), spec


def without_limits(view: ClusterView) -> ClusterView:
    """The same brokers where nothing limits them."""
    return replace(view, replica_limit=NO_LIMIT, partition_limit=NO_LIMIT)
