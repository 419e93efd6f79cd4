"""Runs one case: forks the twin, draws steps, does each on the twin and on the real cluster, and compares.

New replicas that a controller places itself are drawn at random. There the real cluster goes first, and the twin gets
its placement; whether the request is refused is predicted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Final

from klamm import Cluster, NewPartitions, TopicPartition
from tools.predictions.differences import EXPLAINED, Difference, compare_changes, compare_refusals, compare_states
from tools.predictions.drawing import Drawing
from tools.predictions.sides import PATIENCE_SECONDS, RealSide, Refused, TwinSide
from tools.predictions.steps import AddPartitions, CreateTopic, StartBroker, Step, StopBroker
from tools.toolchain_checks.real_cluster import BROKERS

STEPS: Final = (2, 3, 4, 5)
PATIENCE_WITH_A_BROKER_SECONDS: Final = 60.0


@dataclass(slots=True)
class CaseResult:
    """What a case has shown."""

    steps: list[Step] = field(default_factory=list)
    refused: int = 0
    changes: int = 0
    """The records of partitions that were compared."""
    differences: list[tuple[Step, Difference]] = field(default_factory=list)

    @property
    def is_as_predicted(self) -> bool:
        """Whether there are no other differences than explained ones."""
        return all(difference.kind in EXPLAINED for _, difference in self.differences)

    @property
    def has_parted(self) -> bool:
        """Whether the twin and the cluster have different states from now on."""
        return any(difference.kind not in ("text", "joins") for _, difference in self.differences)


async def run_case(real: RealSide, copy: Path, configs: Mapping[str, str], rng: Random) -> CaseResult:
    """Run a case on a fork of the copy, which is up to date. All brokers are up before and after it."""
    losable = [one for one in BROKERS if one != real.cluster.controller_node]
    drawing, result = Drawing(rng, BROKERS, losable), CaseResult()
    async with _twin(copy, configs, rng.randrange(1 << 30)) as cluster:
        case = _Case(TwinSide(cluster), real, result)
        for _ in range(rng.choice(STEPS)):
            await case.do(drawing.step(case.twin.state()))
            if result.has_parted:
                break
        while drawing.down and not result.has_parted:
            await case.do(drawing.start_one())
    while drawing.down:
        await real.do(drawing.start_one())
    await real.settle(None, PATIENCE_WITH_A_BROKER_SECONDS)
    return result


async def run_steps(real: RealSide, copy: Path, configs: Mapping[str, str], steps: Sequence[Step]) -> CaseResult:
    """Run a case of these steps on a fork of the copy, which is up to date. All brokers are up before it."""
    result = CaseResult()
    async with _twin(copy, configs, 0) as cluster:
        case = _Case(TwinSide(cluster), real, result)
        for step in steps:
            await case.do(step)
            if result.has_parted:
                break
    for broker_id in set(BROKERS) - set(real.cluster.processes):
        await real.do(StartBroker(broker_id))
    await real.settle(None, PATIENCE_WITH_A_BROKER_SECONDS)
    return result


def _twin(copy: Path, configs: Mapping[str, str], seed: int) -> Cluster:
    return Cluster(twin=copy, clock="manual", seed=seed, profile="kafka", configs=configs)


class _Case:
    """One case under way."""

    def __init__(self, twin: TwinSide, real: RealSide, result: CaseResult) -> None:
        self.twin = twin
        self._real = real
        self._result = result
        self._uneven: frozenset[str] = frozenset()
        self._stale: frozenset[TopicPartition] = frozenset()

    async def do(self, step: Step) -> None:
        """Do a step on both sides, and note the differences."""
        before = self.twin.state(), self._real.state()
        self._uneven = before[0].uneven
        self._stale = before[0].stale | before[1].stale
        self.twin.changes.forget()
        self._real.changes.forget()
        self._result.steps.append(step)
        predicted, real = await (self._place(step) if _is_drawn(step) else self._predict(step))
        self._result.refused += len(real)
        self._result.changes += self._real.changes.changes()
        found = [*compare_refusals(predicted, real), *self._compare()]
        self._result.differences += [(step, one) for one in found]

    def _compare(self) -> Iterator[Difference]:
        ours, theirs = self.twin.state(), self._real.state()
        stale = self._stale | ours.stale | theirs.stale
        yield from compare_states(ours, theirs, stale)
        uneven = self._uneven | ours.uneven | theirs.uneven
        yield from compare_changes(self.twin.changes.by_partition, self._real.changes.by_partition, uneven, stale)

    async def _predict(self, step: Step) -> tuple[tuple[Refused, ...], tuple[Refused, ...]]:
        predicted = await self.twin.do(step)
        real = await self._real.do(step)
        has_broker = isinstance(step, StartBroker | StopBroker)
        patience = PATIENCE_WITH_A_BROKER_SECONDS if has_broker else PATIENCE_SECONDS
        await self._real.settle(self.twin.state(), patience)
        return predicted, real

    async def _place(self, step: Step) -> tuple[tuple[Refused, ...], tuple[Refused, ...]]:
        real = await self._real.do(step)
        await self._real.settle(None)
        predicted = await self.twin.would_refuse(step)
        if not real and not predicted:
            await self.twin.do(self._as_placed(step))
            await self._real.settle(self.twin.state())
        return predicted, real

    def _as_placed(self, step: Step) -> Step:
        """The step with the placement that the real controller has drawn."""
        rows = {one.partition_index: found for one, found in self._real.state().partitions.items()
            if one.topic_name == _topic_of(step)}  # fmt: skip
        placed = {index: rows[index].replicas for index in sorted(rows)}
        if isinstance(step, CreateTopic):
            topic = replace(step.topic, num_partitions=-1, replication_factor=-1, replica_assignments=placed)
            return CreateTopic(topic)
        known = sum(one.topic_name == _topic_of(step) for one in self.twin.state().partitions)
        return AddPartitions(NewPartitions(_topic_of(step), len(placed), list(placed.values())[known:]))


def _is_drawn(step: Step) -> bool:
    """Whether a controller that accepts it draws replicas at random."""
    match step:
        case CreateTopic(topic):
            return not topic.replica_assignments
        case AddPartitions(wanted):
            return wanted.replica_assignments is None
        case _:
            return False


def _topic_of(step: Step) -> str:
    match step:
        case CreateTopic(topic):
            return topic.name
        case AddPartitions(wanted):
            return wanted.topic_name
        case _:
            raise AssertionError(f"{step} creates nothing")
