"""Configs of log directories: those that take no new replicas, the throttle of moves, and how long a broker may fail to
report a directory that went offline."""

import klamm
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers import describe_log_dirs
from klamm.protocol.messages.configs import incremental_alter_configs
from klamm.protocol.messages.configs.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from klamm.protocol.messages.topics import create_topics
from tests.klamm.control.log_dir_cluster import FIRST, SECOND, TOPIC, ask, described, directories, move, write

CORDONS = "cordoned.log.dirs"
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
FAILURE_TIMEOUT = "log.dir.failure.timeout.ms"


async def set_config(cluster: klamm.Cluster, broker: str, name: str, value: str | None) -> int:
    change = AlterableConfig(name=name, config_operation=1 if value is None else 0, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name=broker, configs=[change])
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    answer = await ask(cluster, int(broker or 1), incremental_alter_configs.API, 1, request)
    await cluster.advance(100)
    return int(answer.responses[0].error_code)


async def cordoned(cluster: klamm.Cluster, broker_id: int) -> list[bool]:
    request = describe_log_dirs.DescribeLogDirsRequest(topics=None)
    answer = await ask(cluster, broker_id, describe_log_dirs.API, 5, request)
    return [one.is_cordoned for one in answer.results]


async def test_a_cordoned_directory_gets_no_new_replica_and_no_move() -> None:
    async with klamm.Cluster(brokers=1, log_dirs=2, clock="manual") as cluster:
        await cluster.create_topic(TOPIC, 2, 1)
        assert await set_config(cluster, "1", CORDONS, SECOND) == 0
        assert await cordoned(cluster, 1) == [False, True]
        await cluster.create_topic("later", 3, 1)
        assert {directories(cluster, index, "later")[1] for index in range(3)} == {FIRST}
        assert await move(cluster, 1, SECOND, 0) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
        assert await set_config(cluster, "1", CORDONS, None) == 0
        assert await cordoned(cluster, 1) == [False, False]
        assert await move(cluster, 1, SECOND, 0) == [0]


async def test_a_broker_with_all_directories_cordoned_gets_no_replica_also_after_a_restart() -> None:
    configs = {2: {CORDONS: f"{FIRST},{SECOND}"}}
    async with klamm.Cluster(brokers=3, log_dirs=2, clock="manual", broker_configs=configs) as cluster:
        await cluster.advance(2_000)
        assert [await cordoned(cluster, broker_id) for broker_id in (1, 2)] == [[False, False], [True, True]]
        await cluster.create_topic("a", 6, 2)
        image = cluster._up.image
        assert {one for index in range(6) for one in directories(cluster, index, "a")} == {1, 3}
        assert image.brokers[2].cordoned
        assert await set_config(cluster, "3", CORDONS, "*") == 0
        await cluster.stop_broker(3)
        await cluster.start_broker(3)
        await cluster.advance(2_000)
        assert [image.brokers[broker_id].cordoned for broker_id in (1, 2, 3)] == [False, True, True]


async def test_an_empty_value_ends_the_cordons_of_the_static_configs() -> None:
    async with klamm.Cluster(brokers=1, log_dirs=2, clock="manual", broker_configs={1: {CORDONS: SECOND}}) as cluster:
        await cluster.advance(2_000)
        assert await cordoned(cluster, 1) == [False, True]
        assert await set_config(cluster, "1", CORDONS, "") == 0
        assert await cordoned(cluster, 1) == [False, False]
        assert await set_config(cluster, "1", CORDONS, None) == 0
        assert await cordoned(cluster, 1) == [False, True]


async def test_replicas_that_a_client_puts_on_a_cordoned_broker_are_in_its_first_online_directory() -> None:
    async with klamm.Cluster(brokers=1, log_dirs=2, clock="manual") as cluster:
        assert await set_config(cluster, "1", CORDONS, f"{FIRST} , {SECOND}") == 0
        assert await cordoned(cluster, 1) == [True, True]
        for topic_name, expected in (("first", FIRST), ("second", SECOND)):
            assigned = [
                create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=[1]) for index in range(3)
            ]
            topic = create_topics.CreatableTopic(
                name=topic_name, num_partitions=-1, replication_factor=-1, assignments=assigned
            )
            request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=1000)
            (created,) = (await ask(cluster, 1, create_topics.API, 7, request)).topics
            assert created.error_code == 0
            await cluster.advance(1_000)
            assert [directories(cluster, index, topic_name)[1] for index in range(3)] == 3 * [expected]
            if expected == FIRST:
                await cluster.take_log_dir_offline(1, FIRST)


async def test_replicas_of_deleted_topics_do_not_count_in_a_directory() -> None:
    async with klamm.Cluster(brokers=1, log_dirs=2, clock="manual") as cluster:
        await cluster.create_topic("a", 3, 1)
        await cluster.create_topic("kept", 2, 1)
        placed = [
            directories(cluster, index, name)[1] for name, count in (("a", 3), ("kept", 2)) for index in range(count)
        ]
        assert placed == [FIRST, SECOND, FIRST, SECOND, FIRST]
        await cluster.delete_topic("a")
        await cluster.advance(1_000)
        await cluster.create_topic("b", 1, 1)
        assert directories(cluster, 0, "b")[1] == FIRST


async def test_the_time_to_report_a_directory_begins_with_the_first_that_is_lost() -> None:
    configs: dict[str, str | float] = {FAILURE_TIMEOUT: 3_000, "metadata.log.dir": "/m"}
    async with klamm.Cluster(brokers=1, log_dirs=3, clock="manual", configs=configs) as cluster:
        await cluster.fence_broker(1)
        for path in (FIRST, SECOND):
            await cluster.take_log_dir_offline(1, path)
            await cluster.advance(2_000)
            assert cluster._up.brokers.by_id[1].is_up is (path == FIRST)


async def test_moves_are_throttled() -> None:
    async with klamm.Cluster(brokers=1, log_dirs=2, clock="manual") as cluster:
        await cluster.create_topic(TOPIC, 1, 1)
        assert await write(cluster, 1, 0, 500) == 0
        (start,) = {path for path, held in (await described(cluster, 1)).items() if held}
        other = SECOND if start == FIRST else FIRST
        size = (await described(cluster, 1))[start][TOPIC, 0].partition_size
        assert await set_config(cluster, "", RATE, str(size // 10)) == 0
        assert await move(cluster, 1, other, 0) == [0]
        await cluster.advance(5_000)
        future = (await described(cluster, 1))[other][TOPIC, 0]
        assert future.is_future_key
        assert 200 <= future.offset_lag <= 300
        await cluster.advance(7_000)
        assert [bool(held) for held in (await described(cluster, 1)).values()] == [start == SECOND, start == FIRST]


async def test_a_broker_stops_when_it_cannot_report_a_failed_directory() -> None:
    configs: dict[str, str | float] = {FAILURE_TIMEOUT: 5_000}
    async with klamm.Cluster(brokers=2, log_dirs=2, clock="manual", configs=configs) as cluster:
        await cluster.fence_broker(1)
        await cluster.take_log_dir_offline(1, SECOND)
        await cluster.take_log_dir_offline(2, SECOND)
        await cluster.advance(4_900)
        brokers = cluster._up.brokers.by_id
        assert [brokers[broker_id].is_up for broker_id in (1, 2)] == [True, True]
        await cluster.advance(200)
        assert [brokers[broker_id].is_up for broker_id in (1, 2)] == [False, True], "2 has reported it"
        await cluster.repair_log_dir(1, SECOND)
        await cluster.start_broker(1)
        await cluster.advance(60_000)
        assert brokers[1].is_up
