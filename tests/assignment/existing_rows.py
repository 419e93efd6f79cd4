"""Generates existing rows for tests of growing and shrinking: on live and other brokers, with placeholders and limits.

Each case is made from one seed. If Hypothesis drew each value, most values would be simple, and few cases would reach
the rules. `tests/assignment/test_situations.py` checks that the generated cases do.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from klamm.assignment.cluster_view import ClusterView, Int32Array
from tests.assignment.growth_oracle import Broker, Growing
from tests.assignment.strategies import seeded, some_ids, some_racks

LIMIT = 100
UNKNOWN = 77_777


class Rows(NamedTuple):
    """Rows that exist, and the brokers there are: fenced ones, and one in the rows that the view does not know."""

    view: ClusterView
    placement: Int32Array

    def real(self) -> list[list[int]]:
        return [[replica for replica in row if replica >= 0] for row in self.placement.tolist()]

    def live_ids(self) -> list[int]:
        ids: list[int] = self.view.broker_ids[self.view.live].tolist()
        return ids

    def racks(self) -> list[str]:
        """The rack of each broker; where some have none, every broker is one."""
        racks = [rack for rack in self.view.racks if rack is not None]
        return racks if len(racks) == len(self.view) else [f"{number}" for number in range(len(self.view))]

    def growing(self, replication_factor: int) -> Growing:
        """What the oracle of growing is asked."""
        racks = self.racks()
        place = {broker_id: number for number, broker_id in enumerate(self.view.broker_ids.tolist())}
        return Growing(
            own=[[place.get(replica, len(racks) + replica) for replica in row] for row in self.real()],
            lacking=[replication_factor - len(row) for row in self.real()],
            room=[0 if fenced else max(LIMIT - count, 0) for fenced, count in self._brokers()],
            racks=list(racks),
            held=self.view.replica_counts.tolist(),
        )

    def known(self) -> dict[int, Broker]:
        """What the oracle of shrinking is asked about brokers, by their ids."""
        brokers = zip(self.view.broker_ids.tolist(), self.racks(), self._brokers(), strict=True)
        return {broker_id: Broker(rack, not fenced, count - LIMIT) for broker_id, rack, (fenced, count) in brokers}

    def _brokers(self) -> list[tuple[bool, int]]:
        return list(zip(self.view.fenced.tolist(), self.view.replica_counts.tolist(), strict=True))


def view_near_limits(chance: Random, size: int, places: Sequence[int]) -> ClusterView:
    """Brokers with one of these places each; in some views some are fenced, and some or all have no rack."""
    racks = some_racks(chance, size)
    if chance.random() < 0.2:
        racks = (None, *racks[1:])
    fenced = chance.choice((0, 0.3, 0.5))
    return ClusterView(
        some_ids(chance, size),
        racks,
        fenced=np.array([chance.random() < fenced for _ in range(size)]),
        replica_counts=np.array([LIMIT - chance.choice(places) for _ in range(size)]),
        replica_limit=LIMIT,
    )


def rows_on(chance: Random, view: ClusterView, width: int, count: int, *, scattered: bool) -> Rows:
    """Rows on any brokers of the view, and perhaps on one more; `scattered` placeholders may be anywhere in them."""
    gaps = chance.choice((0, 0, 0.4, 0.7))
    brokers = view.broker_ids.tolist() + chance.choice(([], [], [UNKNOWN]))
    rows = []
    for _ in range(count):
        real = width if chance.random() >= gaps else chance.randint(0, width)
        row = chance.sample(brokers, min(real, len(brokers)))
        row += range(-1, -1 - width + len(row), -1)
        if scattered and chance.random() < 0.5:
            chance.shuffle(row)
        rows.append(row)
    return Rows(view, np.array(rows, dtype=np.int32))


class Shrinking(NamedTuple):
    """Rows to shrink to a replication factor; without `leaders` the first replica of each leads."""

    rows: Rows
    replication_factor: int
    leaders: list[int] | None

    def leading(self) -> list[int]:
        return [row[0] for row in self.rows.placement.tolist()] if self.leaders is None else self.leaders


@st.composite
def shrinkings(draw: st.DrawFn) -> Shrinking:
    """Rows of up to five replicas that give up three at most. Brokers that are not live lead more than their share."""
    chance = draw(seeded())
    view = view_near_limits(chance, chance.randint(4, 7), (-3, -2, -1, -1, 0, 1, 2, 4))
    width = chance.choice((1, 3, 3, 4, 4, 4, 5))
    rows = rows_on(chance, view, width, chance.randint(3, 16), scattered=True)
    not_live = {UNKNOWN, *view.broker_ids[view.fenced].tolist()}
    leaders = [chance.choice([-1, *row, *[broker for broker in row if broker in not_live] * 3]) for row in rows.real()]
    replication_factor = chance.randint(max(1, width - 3), max(1, width - (chance.random() < 0.9)))
    return Shrinking(rows, replication_factor, chance.choice((None, leaders)))


class Growth(NamedTuple):
    """Rows to grow to a replication factor."""

    rows: Rows
    replication_factor: int


@st.composite
def growths(draw: st.DrawFn) -> Growth:
    """A few rows, and up to two replicas more than the widest has: there may or may not be room for them."""
    chance = draw(seeded())
    width = chance.randint(1, 3)
    view = view_near_limits(chance, chance.randint(width, 7), (-2, 0, 1, 1, 2, 2, 3, 4))
    rows = rows_on(chance, view, width, chance.randint(1, 6), scattered=False)
    return Growth(rows, max(1, *map(len, rows.real())) + chance.choice((0, 1, 1, 1, 2)))
