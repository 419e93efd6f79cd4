"""Several log directories per broker: which replica is in which, moves between them, and directories that fail."""

from typing import Any

import pytest
import trio

import klamm
from klamm.console.options import UsageError
from klamm.control.command import decode_control_options
from klamm.control.tables import as_text
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers import alter_replica_log_dirs, describe_log_dirs
from klamm.protocol.messages.brokers.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirTopic
from klamm.protocol.messages.data import fetch, list_offsets, produce
from klamm.protocol.messages.topics import metadata
from tests.broker.data.batches import batch
from tests.klamm.control.control_cluster import controlled_cluster
from tests.server.harness import Peer

TOPIC = "orders"
FIRST, SECOND = "/tmp/kafka-logs-1", "/tmp/kafka-logs-2"
QUICK: dict[str, str | float] = {"broker.session.timeout.ms": 1000, "broker.heartbeat.interval.ms": 100}


async def connect(cluster: klamm.Cluster, broker_id: int) -> Peer:
    at = cluster._up.advertised(broker_id)
    return Peer(await trio.open_tcp_stream(at.host, at.port))


async def ask(cluster: klamm.Cluster, broker_id: int, api: Any, version: int, request: Any) -> Any:
    peer = await connect(cluster, broker_id)
    try:
        return await peer.ask(api, version, request)
    finally:
        await peer.aclose()


async def described(cluster: klamm.Cluster, broker_id: int) -> dict[str, dict[tuple[str, int], Any]]:
    """The replicas in each directory of a broker."""
    answer = await ask(
        cluster, broker_id, describe_log_dirs.API, 5, describe_log_dirs.DescribeLogDirsRequest(topics=None)
    )
    assert [one.error_code for one in answer.results if one.topics] in ([], [0], [0, 0], 4 * [0])
    return {
        one.log_dir: {(topic.name, row.partition_index): row for topic in one.topics for row in topic.partitions}
        for one in answer.results
    }


async def move(
    cluster: klamm.Cluster, broker_id: int, path: str, *indexes: int, topic: str = TOPIC, version: int = 2
) -> list[int]:
    wanted = AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=indexes)])
    request = alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=[wanted])
    answer = await ask(cluster, broker_id, alter_replica_log_dirs.API, version, request)
    return [row.error_code for found in answer.results for row in found.partitions]


async def write(cluster: klamm.Cluster, broker_id: int, index: int = 0, count: int = 1) -> int:
    data = [produce.PartitionProduceData(index=index, records=batch(count))]
    topic = produce.TopicProduceData(name=TOPIC, partition_data=data)
    request = produce.ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic])
    answer = await ask(cluster, broker_id, produce.API, 9, request)
    return int(answer.responses[0].partition_responses[0].error_code)


def directories(cluster: klamm.Cluster, index: int, topic: str = TOPIC) -> dict[int, str]:
    """What the metadata say: the path of each replica's directory, by broker id."""
    image: Any = cluster._up.image
    partition = image.partitions.read(image.topics_by_name[topic].row, index)
    found = {}
    for broker_id, directory in zip(partition.replicas, partition.directories, strict=True):
        one = cluster._up.brokers.by_id[broker_id].log_dirs.find(directory)
        found[broker_id] = one.path if one is not None else ""
    return found


async def test_replicas_are_spread_and_the_metadata_say_where_they_are() -> None:
    async with klamm.Cluster(brokers=2, log_dirs=2, clock="manual", seed=7) as cluster:
        image = cluster._up.image
        assert all(len(set(broker.log_dirs)) == 2 for broker in image.brokers.values())
        await cluster.create_topic(TOPIC, 5, 2)
        for broker_id in (1, 2):
            held = await described(cluster, broker_id)
            assert list(held) == [FIRST, SECOND]
            assert [sorted(index for _, index in held[path]) for path in held] == [[0, 2, 4], [1, 3]]
        assert [directories(cluster, index) for index in range(5)] == [
            {1: path, 2: path} for path in (FIRST, SECOND, FIRST, SECOND, FIRST)
        ]
        await cluster.create_topic("more", 2, 1)
        held = await described(cluster, 1)
        assert sum(map(len, held.values())) == 6, "the one with fewer replicas is filled first"
        assert abs(len(held[FIRST]) - len(held[SECOND])) <= 1


async def test_one_directory_is_as_before_and_needs_no_assignment() -> None:
    async with klamm.Cluster(brokers=1, configs={"log.dirs": "/data/a, /data/a"}, clock="manual") as cluster:
        end = cluster._up._parts.controller.log_end_offset
        await cluster.create_topic(TOPIC, 3, 1)
        assert cluster._up._parts.controller.log_end_offset == end + 4
        assert {path: len(held) for path, held in (await described(cluster, 1)).items()} == {"/data/a": 3}
        assert await move(cluster, 1, "/data/a", 0) == [0]
        assert await move(cluster, 1, "/data/b", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]


@pytest.mark.parametrize("version", [1, 2])
async def test_a_replica_is_copied_at_the_replication_rate_and_then_replaces_the_present_one(version: int) -> None:
    async with klamm.Cluster(brokers=1, log_dirs=2, clock="manual", replication_rate=10) as cluster:
        await cluster.create_topic(TOPIC, 1, 1)
        for _ in range(3):
            assert await write(cluster, 1, count=10) == 0
        whole = (await described(cluster, 1))[FIRST][TOPIC, 0].partition_size
        assert whole > 0
        assert await move(cluster, 1, SECOND, 0, version=version) == [0]
        assert await move(cluster, 1, SECOND, 0, version=version) == [0], "it is under way"
        await cluster.advance("2s")
        held = await described(cluster, 1)
        present, future = held[FIRST][TOPIC, 0], held[SECOND][TOPIC, 0]
        assert (present.partition_size, present.offset_lag, present.is_future_key) == (whole, 0, False)
        assert future.is_future_key
        assert future.offset_lag in (9, 10)
        assert future.partition_size in (whole * 2 // 3, whole // 3)
        assert directories(cluster, 0) == {1: FIRST}
        await cluster.advance("2s")
        held = await described(cluster, 1)
        assert held[FIRST] == {}
        moved = held[SECOND][TOPIC, 0]
        assert (moved.partition_size, moved.offset_lag, moved.is_future_key) == (whole, 0, False)
        assert directories(cluster, 0) == {1: SECOND}
        assert await write(cluster, 1) == 0


async def test_a_move_ends_when_the_replica_shall_stay_and_waits_while_the_broker_is_down() -> None:
    async with klamm.Cluster(brokers=2, log_dirs=3, clock="manual", replication_rate=10) as cluster:
        await cluster.create_topic(TOPIC, 1, 1)
        owner = await cluster.leader(TOPIC, 0)
        third = "/tmp/kafka-logs-3"
        await write(cluster, owner, count=30)
        assert await move(cluster, owner, SECOND, 0) == [0]
        assert await move(cluster, owner, FIRST, 0) == [0]
        held = await described(cluster, owner)
        assert {path: len(rows) for path, rows in held.items()} == {FIRST: 1, SECOND: 0, third: 0}
        assert await move(cluster, owner, SECOND, 0) == [0]
        assert await move(cluster, owner, third, 0) == [0]
        held = await described(cluster, owner)
        assert {path: len(rows) for path, rows in held.items()} == {FIRST: 1, SECOND: 0, third: 1}
        await cluster.advance("1s")
        await cluster.stop_broker(owner)
        await cluster.advance("10s")
        await cluster.start_broker(owner)
        assert (await described(cluster, owner))[third][TOPIC, 0].offset_lag in (19, 20), "10 of 30 were copied"
        await cluster.advance("3s")
        assert directories(cluster, 0) == {owner: third}


async def test_what_cannot_be_moved_is_refused_by_replica() -> None:
    async with klamm.Cluster(brokers=2, log_dirs=2, clock="manual") as cluster:
        await cluster.create_topic(TOPIC, 2, 1)
        owner = await cluster.leader(TOPIC, 0)
        assert await move(cluster, owner, "/nowhere", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert await move(cluster, owner, "", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert await move(cluster, owner, SECOND, 2, -1) == 2 * [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await move(cluster, 3 - owner, SECOND, 0) == [ErrorCode.REPLICA_NOT_AVAILABLE]
        assert await move(cluster, owner, SECOND, 0, topic="t" * 214) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert await move(cluster, owner, SECOND, 0, topic="t" * 213) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        twice = alter_replica_log_dirs.AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=TOPIC, partitions=[0, 0])])
                for path in (SECOND, "/nowhere")
            ]
        )
        answer = await ask(cluster, owner, alter_replica_log_dirs.API, 2, twice)
        (only,) = answer.results[0].partitions
        assert only.error_code == ErrorCode.LOG_DIR_NOT_FOUND, "the last directory counts"


async def test_a_directory_named_before_the_replica_exists_is_used() -> None:
    async with klamm.Cluster(brokers=1, log_dirs=3, clock="manual") as cluster:
        third = "/tmp/kafka-logs-3"
        assert await move(cluster, 1, third, 0) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        await cluster.create_topic(TOPIC, 2, 1)
        assert [directories(cluster, index) for index in range(2)] == [{1: third}, {1: FIRST}]


async def test_leaderships_leave_a_directory_that_goes_offline_and_come_back_after_a_restart() -> None:
    async with klamm.Cluster(brokers=2, log_dirs=2, configs=QUICK) as cluster:
        await cluster.create_topic(TOPIC, 2, 2)
        for index in range(2):
            await cluster.move_leader(TOPIC, index, 1)
            assert await write(cluster, 1, index) == 0
        await cluster.wait_until(lambda: _directories_are(cluster, {1: SECOND, 2: SECOND}))
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


async def _directories_are(cluster: klamm.Cluster, wanted: dict[int, str]) -> bool:
    return directories(cluster, 1) == wanted


async def read_error(cluster: klamm.Cluster, broker_id: int, index: int) -> int:
    topic_id = cluster._up.image.topics_by_name[TOPIC].topic_id
    wanted = fetch.FetchTopic(
        topic_id=topic_id, partitions=[fetch.FetchPartition(partition=index, partition_max_bytes=99)]
    )
    request = fetch.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=99, topics=[wanted])
    answer = await ask(cluster, broker_id, fetch.API, 13, request)
    return int(answer.responses[0].partitions[0].error_code)


async def end_error(cluster: klamm.Cluster, broker_id: int, index: int) -> int:
    partition = list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1)
    request = list_offsets.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=TOPIC, partitions=[partition])]
    )
    answer = await ask(cluster, broker_id, list_offsets.API, 7, request)
    return int(answer.topics[0].partitions[0].error_code)


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
        await cluster.wait_until(lambda: _isr_has(cluster, 1, 1))
        await cluster.repair_log_dir(1, FIRST)
        await cluster.stop_broker(1)
        await cluster.start_broker(1)
        await cluster.wait_for_isr(TOPIC)


async def _isr_has(cluster: klamm.Cluster, index: int, broker_id: int) -> bool:
    return broker_id in await cluster.isr(TOPIC, index)


def is_up(cluster: klamm.Cluster) -> bool:
    return cluster._up.brokers.by_id[1].is_up


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


async def test_the_configs_name_the_directories_and_contradictions_are_refused() -> None:
    async with klamm.Cluster(brokers=1, log_dirs=2, broker_configs={1: {"log.dir": "/own"}}) as cluster:
        assert [one["log_dir"] for one in await cluster.log_dirs(1)] == ["/own-1", "/own-2"]
        await cluster.add_broker()
        assert [one["log_dir"] for one in await cluster.log_dirs(2)] == [FIRST, SECOND]
    for options, reason in (
        ({"log_dirs": 3, "configs": {"log.dirs": "/a,/b"}}, "log.dirs names 2 directories, and --log-dirs is 3"),
        ({"log_dirs": 1, "broker_configs": {2: {"log.dirs": "/a,/b"}}}, "log.dirs of broker 2 names 2 directories"),
        ({"configs": {"log.dirs": ",".join(map(str, range(101)))}}, "log.dirs names 101 directories: at most 100"),
        ({"log_dirs": 0}, "log_dirs 0: a whole number from 1 to 100"),
    ):
        with pytest.raises(klamm.ClusterError, match=reason):
            klamm.Cluster(**options)


@pytest.mark.parametrize("fewer", [1, 2])
async def test_a_restart_keeps_the_directories_and_replicas_leave_those_that_are_no_longer_configured(
    tmp_path: Any, fewer: int
) -> None:
    async with klamm.Cluster(brokers=2, log_dirs=3, data_dir=tmp_path) as cluster:
        await cluster.create_topic(TOPIC, 6, 2)
        await cluster.wait_until(lambda: len(set(directories(cluster, 2).values()) - {""}) > 0)
        before = [directories(cluster, index) for index in range(6)]
    async with klamm.Cluster(brokers=2, log_dirs=3, data_dir=tmp_path) as cluster:
        assert [directories(cluster, index) for index in range(6)] == before
    async with klamm.Cluster(brokers=2, log_dirs=fewer, data_dir=tmp_path) as cluster:
        await cluster.wait_for_isr(TOPIC)
        known = {one["log_dir"] for one in await cluster.log_dirs(1)}
        await cluster.wait_until(lambda: all(set(directories(cluster, one).values()) <= known for one in range(6)))
        await cluster.wait_for_isr(TOPIC)


async def test_a_busy_broker_gives_the_directories_of_a_large_topic_in_steps() -> None:
    async with klamm.Cluster(brokers=1, log_dirs=4, clock="manual") as cluster:
        await cluster.create_topic(TOPIC, 5000, 1)
        work: Any = cluster._up.brokers.log_dir_work
        assert 0 < sum(len(rows) for rows in (await described(cluster, 1)).values()) < 5000
        for _ in range(12):
            await cluster.advance("1ms")
        assert [len(rows) for rows in (await described(cluster, 1)).values()] == [1250, 1250, 1250, 1250]
        assert not work.placed.chosen_of(1)
        assert len(work.moves) == 0


async def test_the_control_interface_and_the_command_line_have_the_verbs() -> None:
    async with controlled_cluster(brokers=2, configs={"log.dirs": f"{FIRST},{SECOND}"}) as cluster:
        status, found = await cluster.ask("GET", "/brokers/2/log-dirs")
        assert (status, [one["log_dir"] for one in found["log_dirs"]]) == (200, [FIRST, SECOND])
        failed = {"log_dir": SECOND, "failed": True}
        status, found = await cluster.ask("POST", "/brokers/2/log-dirs", failed)
        assert (status, [one["online"] for one in found["log_dirs"]]) == (200, [True, False])
        assert "offline\n" in as_text(found)
        status, found = await cluster.ask("POST", "/brokers/2/log-dirs", {**failed, "failed": False})
        assert "offline, until a restart" in as_text(found)
        for body, status, reason in (
            ({}, 400, "'log_dir' and 'failed' are expected"),
            ({"log_dir": 7, "failed": True}, 400, "log_dir 7: a path"),
            ({"log_dir": FIRST, "failed": 1}, 400, "failed 1: true or false"),
            ({"log_dir": "/x", "failed": True}, 404, "has no log directory '/x'"),
            ({"log_dir": FIRST, "failed": False}, 409, "is whole"),
        ):
            got = await cluster.ask("POST", "/brokers/2/log-dirs", body)
            assert (got[0], reason in got[1]["error"]) == (status, True), got


def test_the_commands_are_requests() -> None:
    def command(words: str) -> tuple[str, str, Any]:
        options = decode_control_options(("--url", "http://127.0.0.1:1", *words.split()), {})
        return options.method, options.path, options.body

    assert command("log-dir 2") == ("GET", "/brokers/2/log-dirs", None)
    assert command("log-dir 2 /a --offline") == ("POST", "/brokers/2/log-dirs", {"log_dir": "/a", "failed": True})
    assert command("log-dir 2 /a --repaired") == ("POST", "/brokers/2/log-dirs", {"log_dir": "/a", "failed": False})
    for words in ("log-dir 2 /a", "log-dir 2 --offline"):
        with pytest.raises(UsageError, match="are expected together"):
            command(words)
