"""Reassignments and elections, rule by rule over a real socket: the same in both profiles, but for KIP-195's rule.

A move is seen in progress while a broker that it needs is stopped.
"""

from collections.abc import Mapping, Sequence

import pytest

from klamm import ErrorCode
from klamm.admin.partition_types import ElectionType
from klamm.controller.settings import PROFILES, Profile
from tests.rules.situation import NONE, Row, Rows, Situation, code, eventually, situation, text

row = Rows()
REFUSED = ErrorCode.POLICY_VIOLATION
ON = {"enable_under_replicated_topic_creation": "true"}
Targets = Mapping[tuple[str, int], Sequence[int] | None]


async def move(now: Situation, targets: Targets, *, allowed: bool = True) -> list[ErrorCode]:
    """Error codes in the order of the targets."""
    results = await now.admin.alter_partition_reassignments(targets, allow_replication_factor_change=allowed)
    assert [tuple(result.partition) for result in results] == list(targets)
    return [code(result) for result in results]


async def moves(now: Situation) -> dict[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """Replicas, adding and removing replicas of what moves."""
    return {
        (one.partition.topic_name, one.partition.partition_index): (
            one.replicas,
            one.adding_replicas,
            one.removing_replicas,
        )
        for one in await now.admin.list_partition_reassignments()
    }


async def done(now: Situation) -> None:
    async def over() -> bool:
        return not await moves(now)

    await eventually(over)


@row("Reassignment: replicas are added first; when all are in sync the former ones go, the leader last")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=4) as now:
        await now.place("t", [1, 2])
        await now.cluster.stop_broker(4)
        assert await move(now, {("t", 0): [4, 3]}) == [NONE]
        assert await moves(now) == {("t", 0): ((4, 3, 1, 2), (3, 4), (1, 2))}

        async def all_but_the_stopped_one() -> bool:
            return set((await now.partitions("t"))[0].isr) == {1, 2, 3}

        await eventually(all_but_the_stopped_one)
        assert (await now.partitions("t"))[0].leader == 1
        await now.cluster.start_broker(4)
        await done(now)
        (partition,) = await now.partitions("t")
        assert (partition.replicas, set(partition.isr), partition.leader) == ((4, 3), {3, 4}, 4)


@row("Reassignment: another order is done at once and moves no leader; ElectLeaders does")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", [1, 2], [2, 3])
        assert await move(now, {("t", 0): [2, 1]}) == [NONE]
        assert await moves(now) == {}
        assert [partition.leader for partition in await now.partitions("t")] == [1, 2]
        results = await now.admin.elect_leaders([("t", 0), ("t", 1), ("t", 2), ("u", 0)])
        assert [code(result) for result in results] == [NONE, 84, 3, 3]
        assert [partition.leader for partition in await now.partitions("t")] == [2, 2]


@row("Elections: the preferred leader may not be available, and unclean ones are for those without any")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.cluster.stop_broker(3)
        await now.place("t", [2, 3], [1, 2])
        await now.cluster.stop_broker(2)
        assert [code(one) for one in await now.admin.elect_leaders()] == [80]
        (refused,) = await now.admin.elect_leaders(None, ElectionType.UNCLEAN)
        assert (tuple(refused.partition), code(refused)) == (("t", 0), 83)
        await now.cluster.start_broker(3)
        (elected,) = await now.admin.elect_leaders(None, ElectionType.UNCLEAN)
        assert code(elected) == NONE
        assert [partition.leader for partition in await now.partitions("t")] == [3, 1]


@row("Reassignment: cancelling drops the replicas being added")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", [1, 2], [1, 2])
        await now.cluster.stop_broker(3)
        assert await move(now, {("t", 0): [3, 2]}) == [NONE]
        assert await move(now, {("t", 0): None, ("t", 1): None}) == [NONE, 85]
        assert await now.replicas("t") == [(2, 1), (1, 2)]
        assert await moves(now) == {}


@row("Reassignment: dead brokers are waited for; unknown, duplicate and negative ones are refused, and an empty target")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", *[[1]] * 5)
        await now.cluster.stop_broker(3)
        targets = {("t", 0): [3], ("t", 1): [4], ("t", 2): [2, 2], ("t", 3): [-1, 1], ("t", 4): list[int]()}
        assert await move(now, targets) == [NONE, 39, 39, 39, 39]
        assert await move(now, {("t", 5): [1], ("t", 1): [1, 2], ("u", 0): [1]}, allowed=False) == [3, 38, 3]
        assert list(await moves(now)) == [("t", 0)]


@row("KIP-578: POLICY_VIOLATION for the offending partition only; the message names both configs with their values and "
     "what would have exceeded them")  # fmt: skip
async def _(profile: Profile) -> None:
    async with situation(profile, max_broker_partitions=2, max_partitions=9) as now:
        await now.hold(2, 0, 1)
        results = await now.admin.alter_partition_reassignments({("on-1", 0): [3], ("on-1", 1): [3], ("on-3", 0): [2]})
        assert [code(result) for result in results] == [NONE, REFUSED, NONE]
        for said in ("max.broker.partitions=2", "max.partitions=9", "2 on broker 3"):
            assert said in text(results[1])


@row("KIP-578: a reassignment counts what it adds from the moment it is accepted; what it removes is freed when it "
     "completes")  # fmt: skip
async def _(profile: Profile) -> None:
    async with situation(profile, max_broker_partitions=1) as now:
        await now.hold(1)
        await now.cluster.stop_broker(3)
        assert await move(now, {("on-1", 0): [3]}) == [NONE]
        assert [await now.place("a", [1]), await now.place("a", [3, 2])] == [REFUSED, REFUSED]
        await now.cluster.start_broker(3)
        await done(now)
        assert [await now.place("a", [1]), await now.place("b", [3])] == [NONE, REFUSED]


@row("KIP-578: a cancel is never refused; a new target over one in progress counts only the difference")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=4, max_broker_partitions=1) as now:
        await now.place("t", [1, 2])
        await now.cluster.stop_broker(4)
        assert await move(now, {("t", 0): [3, 4]}) == [NONE]
        assert await move(now, {("t", 0): [4, 3]}) == [NONE]
        assert await move(now, {("t", 0): [4, 1, 2]}) == [NONE]
        assert await move(now, {("t", 0): None}) == [NONE]
        assert await now.place("u", [3]) == NONE


@row("KIP-578: reassigning away from an overfull broker works; over max.partitions reassignments still work")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.hold(3)
        assert [await now.set("max.broker.partitions", 1), await now.set("max.partitions", 1)] == [NONE, NONE]
        assert await move(now, {("on-1", 0): [2], ("on-1", 1): [3], ("on-1", 2): [2]}) == [NONE, NONE, REFUSED]
        await done(now)
        assert await now.held() == [1, 1, 1]


@row("KIP-578: the internal topics are never refused and never counted")
async def _(profile: Profile) -> None:
    async with situation(profile, max_broker_partitions=1) as now:
        await now.hold(0, 1)
        assert await now.place("__transaction_state", [1], [1]) == NONE
        assert await move(now, {("__transaction_state", index): [2] for index in (0, 1)}) == [NONE, NONE]
        await done(now)
        assert await now.replicas("__transaction_state") == [(2,), (2,)]


@row("KIP-409: placeholders of a partition in reassignment are not filled; a cancel restores them, and they are then "
     "filled; targets may not contain negative ids")  # fmt: skip
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=1, **ON) as now:
        await now.create("t", 1, 3)
        assert await now.cluster.add_broker() == 2
        await now.cluster.stop_broker(2)
        assert await move(now, {("t", 0): [2, -2]}) == [39]
        assert await move(now, {("t", 0): [2]}) == [NONE]
        assert await moves(now) == {("t", 0): ((2, 1, -2), (), (1, -2))}
        await now.cluster.add_broker()
        assert await now.replicas("t") == [(2, 1, -2)]
        assert await move(now, {("t", 0): None}) == [NONE]
        assert await now.replicas("t") == [(2, 1, 3)]


@row("KIP-409: placeholders are tried again after a completed reassignment")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=1, **ON) as now:
        assert await now.create("full", 2, 2) == NONE
        assert await now.create("t", 1, 2) == NONE
        assert await now.set("max.broker.partitions", 2) == NONE
        await now.cluster.add_broker()
        assert await now.replicas("full") + await now.replicas("t") == [(1, 2), (1, 2), (1, -1)]
        assert await move(now, {("full", 0): [1]}) == [NONE]
        await done(now)

        async def filled() -> bool:
            return await now.replicas("t") == [(1, 2)]

        await eventually(filled)


@row("KIP-195: CreatePartitions while the topic has a reassignment in progress")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", [1], [1])
        await now.cluster.stop_broker(3)
        assert await move(now, {("t", 1): [3]}) == [NONE]
        assert await now.enlarge("t", 3) == (ErrorCode.REASSIGNMENT_IN_PROGRESS if profile == "kip" else NONE)
        assert await move(now, {("t", 1): None}) == [NONE]
        assert await now.enlarge("t", 4) == NONE


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("shown", row.done, ids=row.rules)
async def test_row(shown: Row, profile: Profile) -> None:
    await shown(profile)
