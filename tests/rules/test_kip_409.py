"""KIP-409 (under-replicated topics), rule by rule over a real socket: the same in both profiles."""

import pytest

from klamm import ErrorCode
from klamm.controller.settings import PROFILES, Profile
from tests.rules.situation import NONE, Row, Rows, Situation, code, eventually, situation, text

row = Rows()
REFUSED = ErrorCode.POLICY_VIOLATION
ON = {"enable_under_replicated_topic_creation": "true"}


@row("KIP-409: off by default; dynamic cluster-wide")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=1) as now:
        assert await now.create("t", 1, 2) == 38
        assert await now.set("enable.under.replicated.topic.creation", "true") == NONE
        assert await now.create("t", 1, 2) == NONE
        assert await now.set("enable.under.replicated.topic.creation", "false") == NONE
        assert await now.create("u", 1, 2) == 38


@row("KIP-409: CreateTopics and CreatePartitions put placeholders -1, -2, -3 at the end of each replica list")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=1, **ON) as now:
        made = await now.try_create("t", 1, 4)
        assert (made.error, made.num_partitions, made.replication_factor) == (None, 1, 4)
        assert await now.enlarge("t", 2) == NONE
        assert await now.replicas("t") == [(1, -1, -2, -3)] * 2


@row("KIP-409: as many must live as min(min.insync.replicas, R), the topic's own value or the one in force")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=2, min_insync_replicas=3, **ON) as now:
        refused = await now.try_create("t", 1, 5)
        assert code(refused) == 38
        for said in ("2 live", "at least 3 must be live", "5", "min.insync.replicas=3"):
            assert said in text(refused)
        assert await now.create("own", 1, 5, min_insync_replicas="2") == NONE
        assert await now.enlarge("own", 2) == NONE
        assert await now.create("most", 1, 3, min_insync_replicas="4") == 38


@row("KIP-409: a broker full under KIP-578 is live: POLICY_VIOLATION, never placeholders")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=2, max_broker_partitions=1, **ON) as now:
        assert await now.place("full", [1]) == NONE
        assert await now.create("t", 1, 2) == REFUSED
        assert await now.create("u", 1, 3) == REFUSED


@row("KIP-409: a broker that becomes live takes the leftmost placeholder of every partition, then joins the ISR")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=1, **ON) as now:
        await now.create("t", 2, 3)
        (before, _) = await now.partitions("t")
        assert await now.cluster.add_broker() == 2
        await eventually(lambda: in_sync(now, "t", {1, 2}))
        assert await now.replicas("t") == [(1, 2, -2)] * 2
        (after, _) = await now.partitions("t")
        assert (after.leader, after.leader_epoch) == (1, before.leader_epoch)
        await now.cluster.add_broker()
        await eventually(lambda: in_sync(now, "t", {1, 2, 3}))
        assert await now.replicas("t") == [(1, 2, 3)] * 2


async def in_sync(now: Situation, name: str, broker_ids: set[int]) -> bool:
    return all(set(partition.isr) == broker_ids for partition in await now.partitions(name))


@row("KIP-409: partitions with the fewest real replicas first, then topic creation order, then index, up to the limit; "
     "tried again after a raised limit and a deletion")  # fmt: skip
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=1, **ON) as now:
        assert await now.create("b", 2, 3) == NONE
        assert await now.create("a", 1, 3) == NONE
        assert await now.set("max.broker.partitions", 1) == NONE
        await now.cluster.add_broker()
        assert await now.replicas("b") + await now.replicas("a") == [(1, 2, -2), (1, -1, -2), (1, -1, -2)]
        await now.cluster.add_broker()
        assert await now.replicas("b") + await now.replicas("a") == [(1, 2, -2), (1, 3, -2), (1, -1, -2)]
        assert await now.set("max.broker.partitions", 2) == NONE
        assert await now.replicas("b") + await now.replicas("a") == [(1, 2, 3), (1, 3, -2), (1, 2, -2)]
        assert [code(result) for result in await now.admin.delete_topics(["b"])] == [NONE]
        assert await now.replicas("a") == [(1, 2, 3)]


@row("KIP-409: placeholders are filled also if the config has been switched off since")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=1, **ON) as now:
        await now.create("t", 1, 2)
        assert await now.set("enable.under.replicated.topic.creation", "false") == NONE
        await now.cluster.add_broker()
        assert await now.replicas("t") == [(1, 2)]


@row("KIP-409: at most 16 placeholders per partition, beyond that 38 with the number in the message")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=1, **ON) as now:
        assert await now.create("t", 1, 17) == NONE
        refused = await now.try_create("u", 1, 18)
        assert code(refused) == 38
        assert "17" in text(refused)


@row("KIP-409: placeholders show as replicas and offline replicas, never in the ISR, never as leader")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=2, **ON) as now:
        await now.create("t", 2, 4)
        for partition in await now.partitions("t"):
            assert set(partition.replicas) == {1, 2, -1, -2}
            assert sorted(partition.offline_replicas) == [-2, -1]
            assert set(partition.isr) == {1, 2}
        await now.cluster.stop_broker(2)
        assert {partition.leader for partition in await now.partitions("t")} == {1}


@row("KIP-409: placeholders do not count against limits until they are filled; the filling does")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=1, max_broker_partitions=2, **ON) as now:
        assert await now.create("t", 2, 4) == NONE
        await now.cluster.add_broker()
        assert await now.replicas("t") == [(1, 2, -2, -3)] * 2
        assert await now.create("u", 1, 1) == REFUSED


@row("KIP-409: manual assignments may not contain negative ids")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=1, **ON) as now:
        assert [await now.place("t", [1, -1]), await now.place("t", [-1])] == [39, 39]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("done", row.done, ids=row.rules)
async def test_row(done: Row, profile: Profile) -> None:
    await done(profile)
