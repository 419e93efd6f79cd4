"""Files with `log_dirs`: moves between the log directories of brokers, on a cluster of Klamm."""

from typing import Any

import pytest

import klamm
from klamm.reassign.actions import cancel, execute, verify
from klamm.reassign.files import Target
from klamm.reassign.report import ReassignFailed
from tests.klamm.control.log_dir_cluster import FIRST, SECOND, TOPIC, described, directories, write

PARTITION = klamm.TopicPartition(TOPIC, 0)


def target(*replicas: tuple[int, str]) -> list[Target]:
    return [Target(PARTITION, tuple(one for one, _ in replicas), tuple(path for _, path in replicas))]


async def executed(cluster: klamm.Cluster, wanted: list[Target], timeout_ms: int = 5000) -> Any:
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        return await execute(
            admin, wanted, additional=False, throttle=None, allow_replication_factor_change=True, timeout_ms=timeout_ms
        )


async def verified(cluster: klamm.Cluster, wanted: list[Target]) -> Any:
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        return await verify(admin, wanted, preserve_throttles=False)


async def cancelled(cluster: klamm.Cluster, wanted: list[Target]) -> Any:
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        return await cancel(admin, wanted, preserve_throttles=False, timeout_ms=5000)


async def test_a_replica_goes_to_the_directory_of_the_file_also_on_another_broker() -> None:
    async with klamm.Cluster(brokers=2, log_dirs=2) as cluster:
        await cluster.create_topic(TOPIC, 1, 1)
        leader = await cluster.leader(TOPIC, 0)
        assert await write(cluster, leader, count=10) == 0
        other = 3 - leader
        wanted = target((leader, SECOND), (other, SECOND))
        report = await executed(cluster, wanted)
        assert report.failure is None
        assert set(report.lines[-2:]) == {
            f"Successfully started moving log directory to {SECOND} for replica {TOPIC}-0 with broker {one} "
            for one in (1, 2)
        }
        await cluster.wait_for_reassignments()
        await cluster.wait_until(lambda: _are(cluster, {1: SECOND, 2: SECOND}))
        report = await verified(cluster, wanted)
        assert [line for line in report.lines if "replica" in line and "set" not in line] == [
            f"Reassignment of replica {TOPIC}-0-{one} completed successfully." for one in (1, 2)
        ]
        assert all(one["completed"] for one in report.content["log_dirs"])
        with pytest.raises(ReassignFailed, match=rf"broker 1 has no log directory '/x'; it has {FIRST}, {SECOND}"):
            await executed(cluster, target((1, "/x"), (2, "any")))


async def _are(cluster: klamm.Cluster, wanted: dict[int, str]) -> bool:
    return directories(cluster, 0) == wanted


async def test_a_move_is_in_progress_elsewhere_and_cancelled() -> None:
    async with klamm.Cluster(brokers=1, log_dirs=3, replication_rate=1) as cluster:
        await cluster.create_topic(TOPIC, 1, 1)
        assert await write(cluster, 1, count=1000) == 0
        third = SECOND[:-1] + "3"
        assert (await executed(cluster, target((1, SECOND)))).failure is None
        said = {
            SECOND: f"Reassignment of replica {TOPIC}-0-1 is still in progress.",
            third: f"Partition {TOPIC}-0 on broker 1 is being moved to log dir {SECOND} instead of {third}.",
        }
        for path, line in said.items():
            assert line in (await verified(cluster, target((1, path)))).lines
        report = await cancelled(cluster, target((1, SECOND)))
        assert report.failure is None
        assert (
            f"Successfully started moving log directory to {FIRST} for replica {TOPIC}-0 with broker 1 " in report.lines
        )
        assert [len(held) for held in (await described(cluster, 1)).values()] == [1, 0, 0]
        line = f"Partition {TOPIC}-0 on broker 1 is not being moved from log dir {FIRST} to {SECOND}."
        assert line in (await verified(cluster, target((1, SECOND)))).lines


async def test_what_cannot_move_is_named() -> None:
    async with klamm.Cluster(brokers=1, log_dirs=3) as cluster:
        await cluster.create_topic(TOPIC, 1, 1)
        await cluster.take_log_dir_offline(1, SECOND)
        report = await executed(cluster, target((1, SECOND)))
        assert report.failure is not None
        assert report.failure.startswith(f"Failed to alter dir for {TOPIC}-0-1: orders-0: KAFKA_STORAGE_ERROR")
        await cluster.take_log_dir_offline(1, FIRST)
        report = await verified(cluster, target((1, FIRST)))
        assert any("There is likely an offline log directory on the broker." in line for line in report.lines)


async def test_a_replica_that_does_not_come_in_time_is_named() -> None:
    async with klamm.Cluster(brokers=2, log_dirs=2) as cluster:
        await cluster.create_topic(TOPIC, 1, 1)
        async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
            (result,) = await admin.alter_replica_log_dirs({(TOPIC, 0, 3 - await cluster.leader(TOPIC, 0)): SECOND})
            assert result.error is not None
            assert result.error.code is klamm.ErrorCode.REPLICA_NOT_AVAILABLE
            with pytest.raises(klamm.RequestFailed, match="replica of partition orders-0 on broker"):
                result.raise_for_error()
            assert await admin.alter_replica_log_dirs({}) == ()
            with pytest.raises(TypeError, match="directories"):
                await admin.alter_replica_log_dirs([])  # type: ignore[arg-type]
