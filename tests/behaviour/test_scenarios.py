"""Recorded answers of a real Apache Kafka 4.3 cluster against ours, step by step, over real sockets.

Profile `kafka`, three brokers in three racks, the settings of the recorded cluster. Every difference has to stand in
docs/known-differences.md, and every row there has to occur.
"""

from collections.abc import Iterable

import pytest
from trio.testing import MockClock

from klamm.cluster.assembly import open_cluster
from klamm.cluster.plan import FREE_PORTS, ClusterPlan
from klamm.controller.settings import Settings
from klamm.server.listeners import default_plan
from tests.behaviour.administration_player import administration_scenarios
from tests.behaviour.coordinator_scenarios import coordinator_scenarios
from tests.behaviour.known_differences import KnownDifference, known_differences, rows_without_reason
from tests.behaviour.player import Player
from tests.behaviour.scenarios import Scenario, played_scenarios
from tests.behaviour.security_player import security_scenarios

SETTINGS = Settings(
    profile="kafka",
    seed=43,
    static_configs={
        "num.partitions": "3",
        "default.replication.factor": "2",
        "offsets.topic.num.partitions": "5",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.num.partitions": "5",
        "share.coordinator.state.topic.num.partitions": "5",
        "leader.imbalance.check.interval.seconds": "3600",
        "log.cleaner.dedupe.buffer.size": "4194304",
    },
    broker_static_configs={3: {"auto.create.topics.enable": "false"}},
    controller_id=1,
)
PLAYED = {scenario.name: scenario for scenario in played_scenarios()}
# Only to be raised: the steps that could be played when this line was last touched.
STEPS_PLAYED_AT_LEAST = 1972


@pytest.fixture
def clock() -> MockClock:
    """Time passes when nothing else happens; not at once, since sockets may need a moment."""
    return MockClock(autojump_threshold=0.003)


@pytest.mark.parametrize("scenario", PLAYED.values(), ids=PLAYED.keys())
async def test_answers_are_the_recorded_ones_or_known_to_differ(scenario: Scenario, clock: MockClock) -> None:
    plan = ClusterPlan(settings=SETTINGS, racks=("r1", "r2", "r3"), listeners=default_plan(FREE_PORTS, FREE_PORTS))
    async with open_cluster(plan) as cluster:
        found = await Player(cluster).play(scenario)
    known = {row for row in known_differences() if row.scenario == scenario.name}
    assert not found - known, f"differences that docs/known-differences.md does not list:\n{_lines(found - known)}"
    assert not known - found, f"listed in docs/known-differences.md, but no longer so:\n{_lines(known - found)}"


def test_no_recorded_step_is_lost() -> None:
    assert sum(len(scenario.playable_steps()) for scenario in PLAYED.values()) >= STEPS_PLAYED_AT_LEAST


def test_known_differences_belong_to_steps_that_are_played() -> None:
    played = {(scenario.name, step["step"]) for scenario in PLAYED.values() for step in scenario.playable_steps()}
    played |= {(name, step["step"]) for name, steps in coordinator_scenarios().items() for step in steps}
    played |= {(name, step["step"]) for name, steps in administration_scenarios().items() for step in steps}
    played |= {(name, step["step"]) for name, steps in security_scenarios().items() for step in steps}
    assert {(row.scenario, row.step) for row in known_differences()} <= played


def test_known_differences_say_why() -> None:
    assert rows_without_reason() == []


def _lines(rows: Iterable[KnownDifference]) -> str:
    return "\n".join(map(str, sorted(rows)))
