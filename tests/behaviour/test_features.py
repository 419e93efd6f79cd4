"""Feature levels are raised and lowered as at two real clusters of Apache Kafka 4.3.0: one with a new log, and one with
a log of 3.3, whose metadata.version is raised step by step."""

import gzip
import json
from typing import Any, Final

import pytest
from trio.testing import MockClock

from klamm.cluster.assembly import open_cluster
from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from tests.behaviour.feature_cases import CASES, GOLDEN, LOGS, played

CONFIGS: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
}
QUORUMS: Final = {
    "newest": {"controller.quorum.bootstrap.servers": "127.0.0.1:1"},
    "oldest": {"controller.quorum.voters": "1@127.0.0.1:1"},
}


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0.01)


@pytest.mark.parametrize("log", CASES)
async def test_levels_change_as_at_kafka(log: str, clock: MockClock) -> None:
    lines = gzip.decompress((GOLDEN / f"{log}.jsonl.gz").read_bytes()).splitlines()
    recorded: list[dict[str, Any]] = [json.loads(line) for line in lines]
    given = {"configs": CONFIGS | QUORUMS[log], "brokers": 1, "profile": "kafka", "metadata_version": str(LOGS[log])}
    async with open_cluster(plan_cluster(checked_options(given), {}, FREE_PORTS)) as server:
        at = server.addresses_of(1)["PLAINTEXT"]
        ours = await played(CASES[log], at.host, at.port)
    different = [
        f"{step}\nrecorded {one}\nours {other}"
        for step, one, other in zip(CASES[log], recorded, ours, strict=True)
        if one != other
    ]
    assert different == []
