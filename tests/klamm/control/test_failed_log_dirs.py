"""Log directories that fail: leaderships move, requests for records are refused, and a broker without any stops."""

import pytest
import trio

import klamm
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers import describe_log_dirs
from klamm.protocol.messages.topics import metadata
from tests.klamm.control.log_dir_cluster import (
    FIRST,
    QUICK,
    SECOND,
    TOPIC,
    ask,
    directories,
    directories_are,
    end_error,
    is_up,
    isr_has,
    move,
    read_error,
    write,
)


async def test_leaderships_leave_a_directory_that_goes_offline_and_come_back_after_a_restart() -> None:
    async with klamm.Cluster(brokers=2, log_dirs=2, configs=QUICK) as cluster:
        await cluster.create_topic(TOPIC, 2, 2)
        for index in range(2):
            await cluster.move_leader(TOPIC, index, 1)
            assert await write(cluster, 1, index) == 0
        await cluster.wait_until(lambda: directories_are(cluster, {1: SECOND, 2: SECOND}))
        await cluster.take_log_dir_offline(1, SECOND)
        assert [await cluster.leader(TOPIC, index) for index in range(2)] == [1, 2]
        assert [sorted(await cluster.isr(TOPIC, index)) for index in range(2)] == [[1, 2], [2]]
        answer = await ask(cluster, 2, metadata.API, 12, metadata.MetadataRequest(topics=None))
        offline = {row.partition_index: list(row.offline_replicas) for row in answer.topics[0].partitions}
        assert offline == {0: [], 1: [1]}
        assert await write(cluster, 1, 0) == 0
        assert await write(cluster, 1, 1) == ErrorCode.KAFKA_STORAGE_ERROR
        assert await read_error(cluster, 1, 1) == ErrorCode.KAFKA_STORAGE_ERROR
        assert await end_error(cluster, 1, 1) == ErrorCode.KAFKA_STORAGE_ERROR
        assert await write(cluster, 2, 1) == 0
        held = await ask(cluster, 1, describe_log_dirs.API, 5, describe_log_dirs.DescribeLogDirsRequest(topics=None))
        assert [(one.log_dir, one.error_code, len(one.topics)) for one in held.results] == [
            (FIRST, 0, 1),
            (SECOND, ErrorCode.KAFKA_STORAGE_ERROR, 0),
        ]
        assert await move(cluster, 1, SECOND, 0) == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert await move(cluster, 1, FIRST, 1) == [ErrorCode.KAFKA_STORAGE_ERROR], "its replica is offline"
        await trio.sleep(0.3)
        assert await cluster.isr(TOPIC, 1) == [2], "it does not catch up there"
        await cluster.repair_log_dir(1, SECOND)
        assert (await cluster.log_dirs(1))[1]["online"] is False, "only a restart uses it"
        await cluster.stop_broker(1)
        await cluster.start_broker(1)
        await cluster.wait_for_isr(TOPIC)
        assert [one["online"] for one in await cluster.log_dirs(1)] == [True, True]


async def test_a_partition_without_records_is_refused_in_an_offline_directory_and_has_no_leader_alone() -> None:
    async with klamm.Cluster(brokers=1, log_dirs=2, clock="manual") as cluster:
        await cluster.create_topic(TOPIC, 2, 1)
        await cluster.take_log_dir_offline(1, FIRST)
        assert [await cluster.leader(TOPIC, index) for index in range(2)] == [-1, 1]
        assert [await write(cluster, 1, index) for index in range(2)] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
        await cluster.create_topic("later", 3, 1)
        assert {directories(cluster, index, "later")[1] for index in range(3)} == {SECOND}
        with pytest.raises(klamm.ClusterError, match=f"log directory {FIRST} of broker 1 has failed already"):
            await cluster.take_log_dir_offline(1, FIRST)
        with pytest.raises(klamm.ClusterError, match=f"log directory {SECOND} of broker 1 is whole"):
            await cluster.repair_log_dir(1, SECOND)
        with pytest.raises(klamm.ClusterError, match=rf"no log directory '/x': it has {FIRST}, {SECOND}"):
            await cluster.take_log_dir_offline(1, "/x")
        with pytest.raises(klamm.ClusterError, match="there is no simulated broker 9"):
            await cluster.take_log_dir_offline(9, FIRST)


async def test_a_broker_without_a_directory_stops_as_in_a_crash_and_starts_after_a_repair() -> None:
    async with klamm.Cluster(brokers=2, log_dirs=2, configs=QUICK) as cluster:
        await cluster.create_topic(TOPIC, 2, 2)
        await cluster.take_log_dir_offline(1, FIRST)
        await cluster.take_log_dir_offline(1, SECOND)
        assert not cluster._up.brokers.by_id[1].is_up
        assert not cluster._up.image.brokers[1].fenced, "its session has to expire first"
        with pytest.raises(klamm.ClusterError, match="broker 1 cannot start: none of its log directories is online"):
            await cluster.start_broker(1)
        await cluster.wait_until(lambda: cluster._up.image.brokers[1].fenced)
        assert [await cluster.leader(TOPIC, index) for index in range(2)] == [2, 2]
        await cluster.repair_log_dir(1, SECOND)
        await cluster.start_broker(1)
        assert len(cluster._up.image.brokers[1].log_dirs) == 1
        assert await cluster.isr(TOPIC, 0) == [2]
        await cluster.wait_until(lambda: isr_has(cluster, 1, 1))
        await cluster.repair_log_dir(1, FIRST)
        await cluster.stop_broker(1)
        await cluster.start_broker(1)
        await cluster.wait_for_isr(TOPIC)


async def test_the_directory_of_the_metadata_log_stops_the_broker_unless_it_is_another_one() -> None:
    async with klamm.Cluster(brokers=1, configs={"log.dirs": "/a,/b,/c"}) as cluster:
        await cluster.take_log_dir_offline(1, "/c")
        assert is_up(cluster)
        await cluster.take_log_dir_offline(1, "/a")
        assert not is_up(cluster)
    async with klamm.Cluster(brokers=1, configs={"log.dirs": "/a,/b", "metadata.log.dir": "/b"}) as cluster:
        await cluster.take_log_dir_offline(1, "/a")
        assert is_up(cluster)
        await cluster.take_log_dir_offline(1, "/b")
        await cluster.repair_log_dir(1, "/a")
        with pytest.raises(klamm.ClusterError, match="the directory of its metadata log, /b, is offline"):
            await cluster.start_broker(1)


async def test_a_directory_that_failed_is_not_used_for_a_replica_that_was_meant_for_it() -> None:
    async with klamm.Cluster(brokers=1, log_dirs=3, clock="manual") as cluster:
        assert await move(cluster, 1, SECOND, 0) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        await cluster.take_log_dir_offline(1, SECOND)
        await cluster.create_topic(TOPIC, 1, 1)
        assert directories(cluster, 0) == {1: FIRST}
        assert await move(cluster, 1, "/tmp/kafka-logs-3", 0) == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert await move(cluster, 1, FIRST, 0) == [0]


@pytest.mark.parametrize("lost", [FIRST, SECOND])
async def test_a_move_ends_when_a_directory_of_it_fails(lost: str) -> None:
    async with klamm.Cluster(brokers=1, log_dirs=2, clock="manual", replication_rate=10) as cluster:
        await cluster.create_topic(TOPIC, 1, 1)
        await write(cluster, 1, count=30)
        assert await move(cluster, 1, SECOND, 0) == [0]
        await cluster.take_log_dir_offline(1, lost)
        await cluster.advance("10s")
        assert directories(cluster, 0) == {1: FIRST}
        assert len(cluster._up.brokers.log_dir_work.moves) == 0


async def test_a_follower_in_a_failed_directory_fetches_no_more() -> None:
    async with klamm.Cluster(brokers=2, log_dirs=2, clock="manual") as cluster:
        await cluster.create_topic(TOPIC, 1, 2)
        leader = await cluster.leader(TOPIC, 0)
        assert await write(cluster, leader, count=5) == 0
        await cluster.take_log_dir_offline(3 - leader, FIRST)
        assert await write(cluster, leader, count=5) == 0
        await cluster.advance("1m")
        found = cluster._up.brokers.data.find(cluster._up.image.topics_by_name[TOPIC].topic_id, 0)
        assert found is not None
        assert found.log_end_offset(3 - leader, cluster._up.now_ms()) == 5
        assert await cluster.isr(TOPIC, 0) == [leader]
