"""The machine with records and moves: producers, consumers, crashes and reassignments beside all that `machine` does.

Replicas fetch slowly enough to lag. What was acknowledged is lost in unclean elections alone, and the model knows when.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from klamm.controller.data_limits import DataLimits
from klamm.controller.settings import PROFILES
from tests.broker.handlers.data_requests import ALL
from tests.simulation.machine import ClusterMachine
from tests.simulation.model import Model
from tests.simulation.model_moves import PREFERRED, UNCLEAN, MovingModel
from tests.simulation.move_invariants import MOVE_INVARIANTS, Moved
from tests.simulation.move_rules import STEPS_MS, moving_asked, targets
from tests.simulation.record_rules import RecordRules
from tests.simulation.strategies import picks
from tests.simulation.traced_cluster import TracedCluster

REPLICATION_RATES = (1, 7, 1_000)
LAG_TIMES_MS = (30_000, 2_500)
KINDS = (
    "write",
    "wait",
    "write",
    "move",
    "wait",
    "leave",
    "crash",
    "stop",
    "start",
    "wait",
    "back",
    "read",
    "elect",
    "start",
)
Happening = tuple[str, int, Sequence[int]]

happenings = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 11), targets), min_size=8, max_size=20)


class MovingMachine(RecordRules, ClusterMachine):
    """One history."""

    rate: int
    lag_time_max_ms: int

    @initialize(
        profile=st.sampled_from(PROFILES),
        seed=st.integers(0, 2**16),
        brokers=st.sampled_from([5, 4, 5, 3]),
        min_isr=st.sampled_from([2, 1, 2, 3]),
        limits=st.tuples(st.sampled_from([None, None, None, 9]), st.none()),
        placeholders=st.booleans(),
        sizes=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=3),
        stride=st.integers(1, 5),
        rate=st.sampled_from(REPLICATION_RATES),
        lag_time_max_ms=st.sampled_from(LAG_TIMES_MS),
        first=happenings,
    )
    def begin(
        self, *, rate: int = 1, lag_time_max_ms: int = 30_000, first: Sequence[Happening] = (), **others: Any
    ) -> None:
        self.rate, self.lag_time_max_ms = rate, lag_time_max_ms
        super().begin(**others)
        if first:
            self.everything_holds()
            self.init_producer_id(1)
            self.happen_to_one_partition(0, 0, first)

    def set_up(self, model: Model, **fields: Any) -> None:
        fields["configs"] |= {"replica.lag.time.max.ms": str(self.lag_time_max_ms)}
        self.cluster = TracedCluster(data_limits=DataLimits(replication_rate=self.rate), **fields)
        moving = MovingModel(model.profile, model.configs, model.racks)
        moving.rate, moving.lag_time_max_ms, moving.clock = self.rate, self.lag_time_max_ms, self.cluster.clock
        self.model, self.moved = moving, Moved(self.cluster, moving)

    @moving_asked
    @rule(pick=picks, index=st.integers(0, 2), happenings=happenings)
    def happen_to_one_partition(self, pick: int, index: int, happenings: Sequence[Happening]) -> None:
        """Much in a row, where else chance would seldom lead: each is a rule of its own, too."""
        name, index, _, _ = self._place(pick, index)
        for kind, number, target in happenings:
            pick = sorted(self.model.topics).index(name)
            partition = self.model.topics[name].partitions[index]
            replicas = [replica for replica in partition.replicas if replica >= 0]
            self._happen(kind, number, target, (pick, index), replicas[number % len(replicas)])
            self.everything_holds()

    def _happen(self, kind: str, number: int, target: Sequence[int], place: tuple[int, int], replica: int) -> None:
        pick, index = place
        if kind == "write":
            acks, count = (ALL, ALL, 1)[number % 3], (5, 20, 1, 2)[number % 4]
            once_more = ("next", "again", "next", "gap")[number % 4]
            self.produce(pick, index, acks, count, producer=None if number < 6 else 0, number=once_more)
        elif kind == "read":
            self.consume(pick, index, back=number, wait=bool(number % 2))
        elif kind == "move":
            self._reassign([(self._picked(pick), index, target)], 1)
        elif kind == "leave":
            kept = [one for one in target if one in self.model.topics[self._picked(pick)].partitions[index].replicas]
            self._reassign([(self._picked(pick), index, kept)], 1)
        elif kind == "back":
            self._reassign([(self._picked(pick), index, None)], 1)
        elif kind == "elect":
            self.elect_leaders((PREFERRED, UNCLEAN)[number % 2], [place])
        elif kind == "crash":
            self.crash({replica})
        elif kind == "stop":
            self.shut_down(replica)
        elif kind == "start":
            self.come_up(replica, clean=bool(number % 3))
        else:
            self.live_on(STEPS_MS[number % len(STEPS_MS)])

    @invariant()
    def everything_holds(self) -> None:
        if hasattr(self, "simulated"):
            self.look_at_those_who_wait()
            self.moved.advance()
            for holds in MOVE_INVARIANTS:
                holds(self.moved)
            super().everything_holds()
