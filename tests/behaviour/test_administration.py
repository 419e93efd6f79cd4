"""Recorded throttling and administration of a real Apache Kafka 4.3 node against ours, over real sockets."""

import pytest
from trio.testing import MockClock

from klamm.cluster.assembly import open_cluster
from klamm.cluster.plan import FREE_PORTS, ClusterPlan
from klamm.controller.settings import Settings
from klamm.server.listeners import default_plan
from tests.behaviour.administration_player import AdministrationPlayer, administration_scenarios, can_be_played
from tests.behaviour.known_differences import known_differences

PLAYED = [name for name, steps in administration_scenarios().items() if can_be_played(steps)]
# Only to be raised: the steps that could be played when this line was last touched.
STEPS_PLAYED_AT_LEAST = 162
SETTINGS = Settings(
    profile="kafka",
    seed=43,
    controller_id=1,
    static_configs={
        "num.partitions": "1",
        "default.replication.factor": "1",
        "controller.quorum.bootstrap.servers": "127.0.0.1:1",
    },
)


@pytest.fixture
def clock() -> MockClock:
    """Time passes when nothing else happens; not at once, since sockets may need a moment."""
    return MockClock(autojump_threshold=0.003)


@pytest.mark.parametrize("scenario", PLAYED)
async def test_answers_are_the_recorded_ones_or_known_to_differ(scenario: str, clock: MockClock) -> None:
    plan = ClusterPlan(
        settings=SETTINGS,
        broker_ids=(1,),
        listeners=default_plan(FREE_PORTS, FREE_PORTS),
        cluster_id="h4AAAAAAQACAAAAAAAAAAQ",
    )
    async with open_cluster(plan) as cluster:
        found = await AdministrationPlayer(cluster).play(scenario)
    known = {row for row in known_differences() if row.scenario == scenario}
    assert not found - known, "\n".join(map(str, sorted(found - known)))
    assert not known - found, "\n".join(map(str, sorted(known - found)))


def test_no_recorded_step_is_lost() -> None:
    assert sum(len(administration_scenarios()[name]) for name in PLAYED) >= STEPS_PLAYED_AT_LEAST
