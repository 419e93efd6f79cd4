"""KIP-179's ReplicaStatus, rule by rule over a real socket: the same in both profiles."""

import time
from typing import Any

import pytest

from klamm.controller.settings import PROFILES, Profile
from klamm.protocol.messages.data import produce
from klamm.protocol.messages.data.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.messages.partitions import replica_status
from klamm.protocol.messages.partitions.replica_status import (
    ReplicaStatusEntry,
    ReplicaStatusRequest,
    ReplicaStatusRequestEntry,
)
from klamm.protocol.messages.security import create_acls
from klamm.protocol.messages.security.create_acls import AclCreation, CreateAclsRequest
from tests.broker.data.batches import batch
from tests.rules.situation import NONE, Row, Rows, Situation, code, eventually, situation
from tests.rules.test_reassignment import ON, move

row = Rows()
CLUSTER, DESCRIBE, DENY, LITERAL = 4, 8, 2, 3
GUARDED: dict[str, Any] = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow_everyone_if_no_acl_found": "true",
}


async def ask(now: Situation, *wanted: tuple[str, int, int], broker_id: int = 1) -> list[ReplicaStatusEntry]:
    """What one broker says of topic, partition and broker, in the order asked."""
    requests = [ReplicaStatusRequestEntry(topic=name, partition_id=index, broker=one) for name, index, one in wanted]
    body = ReplicaStatusRequest(replica_status_requests=requests)
    answer = await now.raw(replica_status.API, 0, body, broker_id)
    found: list[ReplicaStatusEntry] = list(answer.replica_status)
    assert [(one.topic, one.partition_id, one.broker) for one in found] == list(wanted)
    return found


async def codes(now: Situation, *wanted: tuple[str, int, int], broker_id: int = 1) -> list[int]:
    """With an error the lag is -1, without one it is not."""
    found = await ask(now, *wanted, broker_id=broker_id)
    assert [one.lag == -1 for one in found] == [one.error_code != NONE for one in found]
    return [one.error_code for one in found]


async def fill(now: Situation, name: str, records: int, broker_id: int = 1) -> None:
    data = PartitionProduceData(index=0, records=batch(records))
    body = ProduceRequest(acks=1, topic_data=[TopicProduceData(name=name, partition_data=[data])])
    answer = await now.raw(produce.API, 12, body, broker_id)
    assert answer.responses[0].partition_responses[0].error_code == NONE


@row("KIP-179: 31, Describe on the cluster, on every entry; there is no top-level error")
async def _(profile: Profile) -> None:
    async with situation(profile, **GUARDED) as now:
        await now.place("t", [1])
        assert await codes(now, ("t", 0, 1), ("u", 0, 1)) == [NONE, 17]
        deny = AclCreation(
            resource_type=CLUSTER,
            resource_name="kafka-cluster",
            resource_pattern_type=LITERAL,
            principal="User:ANONYMOUS",
            host="*",
            operation=DESCRIBE,
            permission_type=DENY,
        )
        answer = await now.raw(create_acls.API, 3, CreateAclsRequest(creations=[deny]))
        assert [result.error_code for result in answer.results] == [NONE]
        assert await codes(now, ("t", 0, 1), ("u", 0, 1), ("t", 9, 9)) == [31] * 3
        assert await codes(now) == []


@row("KIP-179: checked per entry: 17, 37, 6 if the broker asked does not lead the partition, 25, 3")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", [1], [2], [3])
        # Each entry has what the entries after it have, and one thing more that is wrong.
        assert await codes(now, ("", -1, -1), ("u", 9, 9), ("t", 9, 9), ("t", -1, 9)) == [17, 17, 37, 37]
        assert await codes(now, ("t", 1, 9), ("t", 1, 1), ("t", 1, 2)) == [6] * 3
        assert await codes(now, ("t", 0, 9), ("t", 0, -1), ("t", 0, 2), ("t", 0, 1)) == [25, 25, 3, NONE]
        assert await codes(now, ("t", 0, 1), ("t", 1, 9), ("t", 1, 1), ("t", 1, 2), broker_id=2) == [6, 25, 3, NONE]


@row("KIP-179: leader -1: every broker answers 6")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", [3])
        await now.cluster.stop_broker(3)
        assert (await now.partitions("t"))[0].leader is None
        for broker_id in (1, 2):
            assert await codes(now, ("t", 0, 3), ("t", 0, 9), broker_id=broker_id) == [6, 6]
        await now.cluster.start_broker(3)
        assert await codes(now, ("t", 0, 3), ("t", 0, 9), broker_id=3) == [NONE, 25]


@row("KIP-179: lag in messages behind the leader's log end; the leader's own is 0; a broker that is down is behind")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", [1, 2, 3])
        await now.cluster.stop_broker(3)
        await fill(now, "t", 100)
        await fill(now, "t", 7)
        entries = [("t", 0, broker_id) for broker_id in (1, 2, 3)]

        async def copied() -> bool:
            return [one.lag for one in await ask(now, *entries)] == [0, 0, 107]

        await eventually(copied)
        assert await codes(now, *entries) == [NONE] * 3
        await now.cluster.start_broker(3)

        async def in_sync() -> bool:
            return [one.lag for one in await ask(now, *entries)] == [0, 0, 0]

        await eventually(in_sync)


@row("KIP-179: a replica that is being added has a lag, one that has left is not hosted any more")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", [1])
        await fill(now, "t", 50)
        await now.cluster.stop_broker(3)
        assert await codes(now, ("t", 0, 3)) == [3]
        assert await move(now, {("t", 0): [3]}) == [NONE]
        (found,) = await ask(now, ("t", 0, 3))
        assert (found.error_code, found.lag) == (NONE, 50)
        await now.cluster.start_broker(3)

        async def moved() -> bool:
            return await codes(now, ("t", 0, 3), ("t", 0, 1), broker_id=3) == [NONE, 3]

        await eventually(moved)
        assert await codes(now, ("t", 0, 1)) == [6]


@row("KIP-179: StatusTime is the controller's clock, also beside an error")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", [1])
        before = int(time.time() * 1000)
        good, bad = await ask(now, ("t", 0, 1), ("u", 0, 1))
        after = int(time.time() * 1000) + 1
        assert good.status_time == bad.status_time
        assert before - 1 <= good.status_time <= after
        results = await now.admin.replica_status([("t", 0, 1), ("u", 0, 1)])
        assert [(code(one), one.lag) for one in results] == [(NONE, 0), (17, None)]
        assert (results[0].status_time_ms or 0) >= good.status_time


@row("KIP-179: a placeholder is not a broker id")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=1, **ON) as now:
        await now.create("t", 1, 3)
        assert await now.replicas("t") == [(1, -1, -2)]
        assert await codes(now, ("t", 0, -1), ("t", 0, -2), ("t", 0, 1)) == [25, 25, NONE]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("shown", row.done, ids=row.rules)
async def test_row(shown: Row, profile: Profile) -> None:
    await shown(profile)
