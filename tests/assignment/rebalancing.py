"""Generates placements to rebalance, and finds the best result for them: by a flow, and by exhaustive search.

Brokers are numbered from 0 here. Only the views are shared with `assignment`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import networkx as nx
import numpy as np
from hypothesis import strategies as st

from klamm.assignment.cluster_view import NO_LIMIT, ClusterView
from klamm.assignment.errors import CannotPlace
from klamm.assignment.rebalance import Rebalanced, rebalance
from tests.assignment.oracles import Rack, spread_of
from tests.assignment.strategies import Seed, seeded

STRANGER, FIRST_ID, ANY_SEED = 900, 10, Seed(1)
RACKS: tuple[tuple[str | None, ...], ...] = ((None,), ("a",), ("a", "b"), ("a", "b", "c"), ("a", "b", None))


@dataclass
class Situation:
    """Rows of brokers 0 to n - 1, or a stranger, or placeholders; broker b has the id 10 + b."""

    rows: tuple[tuple[int, ...], ...]
    racks: tuple[str | None, ...]
    held: tuple[int, ...]
    limit: int = NO_LIMIT
    fenced: int = -1
    chosen: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        everybody = range(len(self.racks))
        self.usable = [b for b in (everybody if self.chosen is None else self.chosen) if b != self.fenced]
        self.real = [[b for b in row if b >= 0] for row in self.rows]
        self.replicas = sum(map(len, self.real))
        # Where a broker in use has no rack, everybody is one.
        ignored = any(self.racks[b] is None for b in self.usable)
        self.rack_of: list[Rack] = list(everybody) if ignored else list(self.racks)
        self.room = [min(max(self.limit - held, 0), len(self.rows)) for held in self.held]
        self.own = [sum(b in row for row in self.rows) for b in everybody]
        self.keeping = [max(pair) for pair in zip(self.own, self.room, strict=True)]
        self.above_limit = sum(max(self.own[b] - self.room[b], 0) for b in self.usable)
        self.placement = np.array([[b if b < 0 else b + FIRST_ID for b in row] for row in self.rows], dtype=np.int32)

    def quality(self) -> tuple[int, int]:
        """Distinct racks of all rows, and the sum of squares of the replicas per broker."""
        return spread_of(self.real, self.rack_of), sum((self.held[b] + self.own[b]) ** 2 for b in self.usable)

    def view(self) -> ClusterView:
        numbers = np.arange(len(self.racks), dtype=np.int32)
        counts = np.array(self.held) + np.array(self.own)
        return ClusterView(numbers + FIRST_ID, self.racks, numbers == self.fenced, counts, self.limit)

    def rebalanced(self, seed: Seed = ANY_SEED) -> Rebalanced:
        chosen = None if self.chosen is None else [broker + FIRST_ID for broker in self.chosen]
        return rebalance(self.view(), self.placement, seed.rng(), chosen)

    def outcome(self, seed: Seed) -> Rebalanced | CannotPlace:
        try:
            return self.rebalanced(seed)
        except CannotPlace as refusal:
            return refusal

    def after(self, result: Rebalanced) -> "Situation":
        rows = [[b if b < 0 else b - FIRST_ID for b in row] for row in result.placement.tolist()]
        return replace(self, rows=tuple(map(tuple, rows)))


def best_by_flow(case: Situation) -> tuple[int, int, int]:
    """Most racks, then least Σ loads², then fewest moves: a flow of least cost from rows through their racks."""
    dearer = case.replicas + 1
    max_cost = dearer * (1 + sum((case.held[broker] + len(case.rows)) ** 2 for broker in case.usable))
    network = nx.MultiDiGraph()
    network.add_nodes_from([("source", {"demand": -case.replicas}), ("sink", {"demand": case.replicas})])
    for broker in case.usable:
        for load in range(case.held[broker], case.held[broker] + case.room[broker]):
            network.add_edge(("broker", broker), "sink", capacity=1, weight=dearer * (2 * load + 1))
    for row, members in enumerate(case.real):
        network.add_edge("source", ("row", row), capacity=len(members), weight=0)
        for rack in {case.rack_of[broker] for broker in case.usable}:
            network.add_edge(("row", row), ("rack", row, rack), capacity=1, weight=-max_cost)
            network.add_edge(("row", row), ("rack", row, rack), capacity=len(members), weight=0)
        for broker in case.usable:
            weight = 0 if broker in members else 1
            network.add_edge(("rack", row, case.rack_of[broker]), ("broker", broker), capacity=1, weight=weight)
    cost, _ = nx.network_simplex(network)
    below, rest = divmod(cost, max_cost)
    return -int(below), int(rest // dearer) + sum(case.held[broker] ** 2 for broker in case.usable), int(rest % dearer)


def best_by_trying(case: Situation) -> tuple[int, int, int]:
    """The same, by looking at every placement there is."""
    found = []
    for rows in product(*(combinations(case.usable, len(members)) for members in case.real)):
        other = replace(case, rows=rows)
        moves = sum(len(set(row) - set(members)) for row, members in zip(rows, case.real, strict=True))
        found.append((other.above_limit, -other.quality()[0], other.quality()[1], moves))
    _, spread, squares, moves = min(found)
    return -spread, squares, moves


def most_placed(case: Situation, most: Sequence[int], *, over_may_gain: bool) -> int:
    """Maximum flow: replicas that find a broker, none with more than `most` of them."""
    network = nx.DiGraph()
    network.add_nodes_from(("source", "sink"))
    for broker in case.usable:
        network.add_edge(("broker", broker), "sink", capacity=most[broker])
    for row, members in enumerate(case.real):
        network.add_edge("source", ("row", row), capacity=len(members))
        for broker in case.usable:
            if over_may_gain or case.own[broker] <= case.room[broker] or broker in members:
                network.add_edge(("row", row), ("broker", broker), capacity=1)
    return int(nx.maximum_flow_value(network, "source", "sink"))


def least_above_limits(case: Situation) -> int | None:
    """Replicas above limits if nobody who is over its limit now gains any; None where replicas have nowhere to go."""
    if most_placed(case, case.room, over_may_gain=True) == case.replicas:
        return 0
    # What fits within the limits is part of a flow of all: augmenting takes nothing away.
    within = most_placed(case, case.room, over_may_gain=False)
    return case.replicas - within if most_placed(case, case.keeping, over_may_gain=False) == case.replicas else None


@st.composite
def situations(draw: st.DrawFn, tight: bool = False, slack: int = 0, ragged: bool = False, most: int = 8) -> Situation:
    """Lopsided placements. `tight`: brokers have room for all replicas, just so, or for less with `slack` below 0."""
    chance = draw(seeded())
    size = chance.choice((1, 2, 3, 4) if most < 4 else (2, 3, 4, 5, 6))
    width = chance.randint(1, min(size, 4))
    liked = [chance.randint(1, 9) for _ in range(size)]
    rows = []
    for _ in range(chance.randint(1, most)):
        row = sorted(range(size), key=lambda broker: chance.random() ** (1 / liked[broker]), reverse=True)[:width]
        row[-1] = STRANGER if chance.random() < 0.1 else row[-1]
        gap = chance.randrange(width) if ragged else 0
        rows.append((*row[: width - gap], *range(-1, -1 - gap, -1)))
    names = chance.choice(RACKS)
    racks = tuple(chance.choice(names) for _ in range(size))
    held = tuple(chance.choice((0, chance.randint(0, 6))) for _ in range(size))
    case = Situation(
        tuple(rows), racks, held, fenced=chance.randrange(size) if size > width and chance.random() < 0.4 else -1
    )
    if chance.random() < 0.3:
        case = replace(
            case,
            chosen=tuple(chance.sample(case.usable, chance.randint(min(width, len(case.usable)), len(case.usable)))),
        )
    if tight:
        limits = [replace(case, limit=limit) for limit in range(1, 99)]
        enough = next(new.limit for new in limits if sum(new.room[b] for b in new.usable) >= new.replicas)
        case = replace(case, limit=max(1, enough + chance.randint(slack, 1)))
    return case


unlimited_or_just_so = situations() | situations(tight=True)
rackless = situations(ragged=True).map(lambda case: replace(case, racks=(None,) * len(case.racks)))
anything = situations(tight=True, slack=-3) | situations(tight=True, slack=-3, ragged=True)
