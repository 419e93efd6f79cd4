"""`klamm reassign-partitions --watch` as a process against a Klamm server: until all replicas are in sync, and while
brokers stop."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import klamm
from tests.klamm.reassign.moving_cluster import Moving, moving_cluster

RECORDS = 1500
BEHIND = f"Behind: {RECORDS} messages behind"
A_SESSION: dict[str, Any] = {"broker_session_timeout_ms": 2000, "broker_heartbeat_interval_ms": 100}


async def a_move_that_waits(
    moving: Moving, cluster: klamm.Cluster, to: Sequence[int], replicas: Sequence[int] = (1,)
) -> None:
    """Topic t moves to three brokers; the third is down and has no records."""
    await moving.place("t", replicas)
    await cluster.stop_broker(3)
    await moving.fill("t", RECORDS)
    (result,) = await moving.admin.alter_partition_reassignments({("t", 0): to})
    result.raise_for_error()


async def test_what_is_executed_on_a_served_cluster_is_watched_until_it_is_in_sync(tmp_path: Path) -> None:
    with klamm.ServerProcess("--seed", "7", "--replication-rate", "500", warm=True) as server:
        async with klamm.AdminClient(server.bootstrap_servers) as admin:
            moving = Moving(server.bootstrap_servers, admin, tmp_path)
            await moving.place("t", [1], [1])
            await moving.fill("t", RECORDS)
            file = moving.file(("t", 0, [3]), ("t", 1, [2]))
            ran = await moving.with_file(file, "--execute", "--watch")
            assert (ran.exit_code, ran.stderr) == (0, "")
            started = ran.lines.index("Successfully started partition reassignments for t-0,t-1")
            first, *shown = ran.lines[started + 1 : -3]
            assert 0 < int(first.split()[6]) <= RECORDS, first
            assert shown[-1] == "2 of 2 replicas in sync, 0 messages behind"
            assert [line.split() for line in ran.lines[-2:]] == [[*"t03", "In", "sync"], [*"t12", "In", "sync"]]
            verified = (await moving.with_file(file, "--verify", "--json")).content
            assert [one["completed"] for one in verified["partitions"]] == [True, True]
            again = await moving.with_file(file, "--watch")
            assert (again.exit_code, again.lines[0]) == (0, "2 of 2 replicas in sync, 0 messages behind")


async def test_an_error_that_waiting_cannot_change_is_told_when_all_else_is_in_sync(tmp_path: Path) -> None:
    async with moving_cluster(tmp_path, replication_rate=10_000) as (moving, cluster):
        await a_move_that_waits(moving, cluster, [3])
        async with moving.watching(moving.file(("t", 0, [3]), ("asdf", 0, [1]))) as watching:
            assert await watching.statuses() == [BEHIND, "Unknown topic"]
            await cluster.start_broker(3)
            await watching.until("In sync", "Unknown topic")
            assert await watching.statuses() == []
            assert await watching.ended() == (
                1,
                "klamm reassign-partitions: 1 of 2 replicas cannot get in sync; asdf-0 on broker 1: Unknown topic\n",
            )


async def test_a_move_that_nobody_asked_for_is_not_waited_for(tmp_path: Path) -> None:
    async with moving_cluster(tmp_path) as (moving, _):
        await moving.place("t", [1])
        async with moving.watching(moving.file(("t", 0, [3]))) as watching:
            assert await watching.statuses() == ["Broker does not host this partition"]
            assert (await watching.ended())[0] == 1


async def test_a_target_that_is_down_is_waited_for(tmp_path: Path) -> None:
    async with moving_cluster(tmp_path, replication_rate=10_000) as (moving, cluster):
        await a_move_that_waits(moving, cluster, [3])
        async with moving.watching(moving.file(("t", 0, [3]))) as watching:
            assert await watching.statuses() == [BEHIND]
            await moving.fill("t", 500)
            assert await watching.statuses() == [f"Behind: {RECORDS + 500} messages behind"]
            await cluster.start_broker(3)
            await watching.until("In sync")
            assert await watching.ended() == (0, "")
        assert (await moving.admin.metadata(["t"])).topics[0].partitions[0].replicas == (3,)


async def test_a_target_that_goes_away_halfway_is_waited_for(tmp_path: Path) -> None:
    async with moving_cluster(tmp_path) as (moving, cluster):
        await moving.place("t", [1])
        await moving.fill("t", RECORDS)
        await moving.admin.alter_partition_reassignments({("t", 0): [3]})
        async with moving.watching(moving.file(("t", 0, [3]))) as watching:
            await watching.statuses()
            await cluster.stop_broker(3)
            (stays,) = [one.lag for one in await moving.admin.replica_status([("t", 0, 3)])]
            assert stays is not None
            await moving.fill("t", 500)
            await watching.until(f"Behind: {stays + 500} messages behind")


async def test_a_leader_that_crashes_is_missed_until_there_is_another(tmp_path: Path) -> None:
    """Also if it is the only broker that the tool was given."""
    async with moving_cluster(tmp_path, replication_rate=10_000, **A_SESSION) as (moving, cluster):
        await a_move_that_waits(moving, cluster, [3, 2], replicas=[1, 2])
        first = moving.servers.split(",")[0]
        async with moving.watching(moving.file(("t", 0, [3, 2])), servers=first) as watching:
            await watching.until(BEHIND, "In sync")
            await cluster.stop_broker(1, mode="crash")
            await watching.until("No leader", "No leader")
            await watching.until(BEHIND, "In sync")
            await cluster.start_broker(3)
            await watching.until("In sync", "In sync")
            assert await watching.ended() == (0, "")


@pytest.mark.parametrize("mode", ["crash", "shutdown"])
async def test_a_cluster_that_is_gone_ends_it_with_one_line(mode: Any, tmp_path: Path) -> None:
    async with moving_cluster(tmp_path) as (moving, cluster):
        await moving.place("t", [1])
        await moving.fill("t", RECORDS)
        await moving.admin.alter_partition_reassignments({("t", 0): [3]})
        async with moving.watching(moving.file(("t", 0, [3]))) as watching:
            await watching.statuses()
            for broker_id in (1, 2, 3):
                await cluster.stop_broker(broker_id, mode=mode)
            exit_code, reported = await watching.ended()
        assert (exit_code, reported.count("\n")) == (1, 1), reported
        assert "cannot connect to" in reported
