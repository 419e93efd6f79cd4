"""Recorded answers of the streams groups of a real Apache Kafka 4.3 cluster against ours, over real sockets.

Three brokers in three racks, the settings of the recorded cluster (tests/golden/streams/README.md), in both profiles:
the texts of creations that failed are those of the profile.
"""

from dataclasses import replace

import pytest
from trio.testing import MockClock

from klamm.cluster.assembly import open_cluster
from klamm.cluster.plan import FREE_PORTS, ClusterPlan
from klamm.controller.settings import Profile
from klamm.server.listeners import default_plan
from tests.behaviour import test_coordinators as coordinators
from tests.behaviour.coordinator_player import CoordinatorPlayer
from tests.behaviour.coordinator_scenarios import STREAMS_FILES, coordinator_scenarios

SETTINGS = replace(
    coordinators.SETTINGS,
    static_configs={
        **coordinators.SETTINGS.static_configs,
        "group.streams.heartbeat.interval.ms": "200",
        "group.streams.min.heartbeat.interval.ms": "100",
        "group.streams.session.timeout.ms": "10000",
        "group.streams.min.session.timeout.ms": "500",
        "group.streams.max.size": "4",
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.assignment.interval.ms": "0",
    },
)
SCENARIOS = coordinator_scenarios(STREAMS_FILES)
STEPS_PLAYED_AT_LEAST = 433
PROFILES: tuple[Profile, ...] = ("kafka", "kip")


@pytest.fixture
def clock() -> MockClock:
    """Time passes when nothing else happens; not at once, since sockets may need a moment."""
    return MockClock(autojump_threshold=0.003)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", SCENARIOS)
async def test_streams_groups_answer_as_recorded(name: str, profile: Profile, clock: MockClock) -> None:
    settings = replace(SETTINGS, profile=profile)
    plan = ClusterPlan(settings=settings, racks=("r1", "r2", "r3"), listeners=default_plan(FREE_PORTS, FREE_PORTS))
    async with open_cluster(plan) as cluster:
        found = await CoordinatorPlayer(cluster).play(name, SCENARIOS[name])
    if profile == "kip":
        found = {one for one in found if "Creation failed" not in one.recorded}
    assert not found, "\n".join(map(str, sorted(found)))


def test_no_recorded_step_is_lost() -> None:
    assert sum(map(len, SCENARIOS.values())) >= STEPS_PLAYED_AT_LEAST
