"""Recorded answers of a real Apache Kafka 4.3 to Fetch, step by step, against ours, over real sockets.

Every answer is compared whole: the partitions in their order, offsets, records, errors, session ids by the order in
which they are met, and whether the answer waited.
"""

import gzip
import json
from collections import Counter
from functools import cache
from typing import Any

import pytest
from trio.testing import MockClock

from klamm.cluster.assembly import open_cluster
from klamm.cluster.plan import ClusterPlan
from klamm.controller.settings import Settings
from tests.behaviour.fetch_player import FetchPlayer
from tests.behaviour.scenarios import RECORDINGS

CONFIGS = {
    "sessions": {},
    "slots": {"max.incremental.fetch.session.cache.slots": "16"},
    "replicas": {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"},
}


@cache
def recordings() -> dict[str, dict[str, Any]]:
    """The recorded scenarios by name."""
    lines = gzip.decompress((RECORDINGS / "fetch-sessions" / "scenarios.jsonl.gz").read_bytes()).decode().splitlines()
    return {line["scenario"]: line for line in map(json.loads, lines)}


@pytest.fixture
def clock() -> MockClock:
    """Time passes when nothing else happens; not at once, since sockets may need a moment."""
    return MockClock(autojump_threshold=0.003)


@pytest.mark.parametrize("name", recordings())
async def test_fetches_are_answered_as_by_kafka(name: str, clock: MockClock) -> None:
    scenario = recordings()[name]
    settings = Settings(profile="kafka", seed=43, static_configs=CONFIGS[scenario["kind"]])
    plan = ClusterPlan(settings=settings, racks=("r1", "r2", "r3"))
    async with open_cluster(plan) as cluster:
        addresses = dict(enumerate(cluster.bootstrap_servers.split(","), 1))
        answers = await FetchPlayer(addresses).play(scenario["steps"])
    for step, recorded, ours in zip(scenario["steps"], scenario["answers"], answers, strict=True):
        assert ours == recorded, step


def test_no_recorded_scenario_is_lost() -> None:
    assert Counter(scenario["kind"] for scenario in recordings().values()) == {
        "sessions": 73,
        "replicas": 7,
        "slots": 2,
    }
