"""Connections beyond rates and numbers fare as they did at a real Apache Kafka 4.3.0. Time is the test's clock;
connections are real.

The measured time of a rate depends on when its windows began, to a part of a second, so delays are alike within a
second, and of many connections a few more or fewer may be served. When unserved connections are closed is not compared:
Kafka closes none while others come (docs/known-differences.md).
"""

import gzip
import json
from collections.abc import Sequence
from typing import Any, Final

import pytest
from trio.testing import MockClock

from klamm.cluster.assembly import open_cluster
from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from tests.behaviour.connection_rate_cases import CASES, GOLDEN, LISTENERS, PATIENCE_SECONDS, Player

RECORDED: Final = {
    line["case"]: line["outcomes"]
    for line in map(json.loads, gzip.decompress((GOLDEN / "outcomes.jsonl.gz").read_bytes()).splitlines())
}
PHASE_MS: Final = 1_100
MANY, FEW_OF_MANY = 40, 3
CONFIGS: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": ",".join(f"{name}://127.0.0.1:0" for name in (*LISTENERS, "CONTROLLER")),
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in (*LISTENERS, "CONTROLLER")),
    "inter.broker.listener.name": "PLAINTEXT",
}


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0.005)


def alike(recorded: Sequence[Sequence[Any]], ours: Sequence[Sequence[Any]]) -> bool:
    """Whether the connections of one step fared in the same way. A connection that waits has a long delay; one that
    is closed and one that waits to be closed are the same."""
    is_closed = any(how == "closed" for how, _ in ours)
    served = [[not (how == "closed" or (is_closed and how == "waits")) for how, _ in each] for each in (recorded, ours)]
    others = sum(one is not other for one, other in zip(*served, strict=True))
    if len(ours) >= MANY:
        return others <= 2 * FEW_OF_MANY and abs(sum(served[0]) - sum(served[1])) <= FEW_OF_MANY
    return others == 0 and all(
        abs(one[1] - other[1]) <= PHASE_MS
        for one, other, is_served in zip(recorded, ours, served[0], strict=True)
        if is_served
    )


@pytest.mark.parametrize("name", CASES)
async def test_connections_fare_as_at_kafka(name: str, clock: MockClock) -> None:
    options = checked_options({"configs": CONFIGS, "brokers": 1, "profile": "kafka"})
    async with open_cluster(plan_cluster(options, {}, FREE_PORTS)) as server:
        at = server.addresses_of(1)
        ours = await Player({one: (at[one].host, at[one].port) for one in LISTENERS}).played(CASES[name])
    for recorded, found in zip(RECORDED[name], ours, strict=True):
        assert alike(recorded, found), f"recorded {recorded}\nours {found}"


def test_every_case_is_recorded() -> None:
    assert list(CASES) == list(RECORDED)


def test_what_is_alike() -> None:
    served, slow, closed, waits = ["served", 3], ["served", 1_900], ["closed", 500], ["waits", PATIENCE_SECONDS * 1_000]
    assert alike([served, closed], [served, closed])
    assert alike([slow, served], [["served", 1_000], served])
    assert alike([slow], [waits])
    assert alike([served, waits], [served, closed])
    assert not alike([served], [closed])
    assert not alike([served], [slow])
    assert not alike([served], [waits])
    assert not alike([waits], [served])
    assert alike([served] * 37 + [closed] * 3, [served] * 40)
    assert not alike([served] * 36 + [closed] * 4, [served] * 40)
