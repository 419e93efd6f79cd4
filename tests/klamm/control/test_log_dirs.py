"""Several log directories per broker: which replica is in which, moves between them, and directories that fail.

The error codes, and the answers of DescribeLogDirs, are those of Apache Kafka 4.3.0 in the same situations: they were
recorded on two brokers with two directories each, one of which was made unusable (tests/golden/log_dirs/README.md).
"""

from typing import Any

import pytest

import klamm
from klamm.console.options import UsageError
from klamm.control.command import decode_control_options
from klamm.control.tables import as_text
from klamm.controller.metadata.broker import UNASSIGNED_DIRECTORY
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers import alter_replica_log_dirs, describe_log_dirs
from klamm.protocol.messages.brokers.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirTopic
from klamm.protocol.messages.partitions import alter_partition_reassignments as moves
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.klamm.control.control_cluster import controlled_cluster
from tests.klamm.control.log_dir_cluster import (
    FIRST,
    SECOND,
    TOPIC,
    ask,
    described,
    directories,
    move,
    write,
)


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


async def test_replicas_of_deleted_topics_do_not_count() -> None:
    async with klamm.Cluster(brokers=1, log_dirs=2, clock="manual") as cluster:
        for name, paths in (("kept", [FIRST, SECOND]), ("gone", [FIRST, SECOND, FIRST])):
            await cluster.create_topic(name, len(paths), 1)
            assert [directories(cluster, index, name)[1] for index in range(len(paths))] == paths
        await cluster.delete_topic("gone")
        await cluster.create_topic(TOPIC, 2, 1)
        assert [directories(cluster, index)[1] for index in range(2)] == [FIRST, SECOND]


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


async def test_a_fault_rule_refuses_each_replica_of_a_request() -> None:
    async with klamm.Cluster(brokers=1, log_dirs=2, clock="manual") as cluster:
        await cluster.create_topic(TOPIC, 3, 1)
        fault = await cluster.fail("AlterReplicaLogDirs", "KAFKA_STORAGE_ERROR", times=1)
        first, second = (
            AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=TOPIC, partitions=indexes)])
            for path, indexes in ((FIRST, [2]), (SECOND, [0, 1]))
        )
        request = alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=[first, second])
        answer = await ask(cluster, 1, alter_replica_log_dirs.API, 2, request)
        assert [(found.topic_name, [(row.partition_index, row.error_code) for row in found.partitions])
                for found in answer.results] == [(TOPIC, [(index, 56) for index in (2, 0, 1)])]  # fmt: skip
        assert (await cluster.fault(fault)).hits == 1
        await cluster.advance("1m")
        assert directories(cluster, 0) == {1: FIRST}, "what was refused has not happened"
        assert await move(cluster, 1, SECOND, 0) == [0]


async def test_a_directory_named_before_the_replica_exists_is_used() -> None:
    async with klamm.Cluster(brokers=1, log_dirs=3, clock="manual") as cluster:
        third = "/tmp/kafka-logs-3"
        assert await move(cluster, 1, third, 0) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        await cluster.create_topic(TOPIC, 2, 1)
        assert [directories(cluster, index) for index in range(2)] == [{1: third}, {1: FIRST}]


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
        assert {len(broker.log_dirs) for broker in cluster._up.image.brokers.values()} == {fewer}
        await cluster.wait_for_isr(TOPIC)
        known = {one["log_dir"] for one in await cluster.log_dirs(1)}
        await cluster.wait_until(lambda: all(set(directories(cluster, one).values()) <= known for one in range(6)))
        await cluster.wait_for_isr(TOPIC)


async def test_a_restart_goes_on_where_directories_were_not_chosen_yet(tmp_path: Any) -> None:
    async with klamm.Cluster(brokers=1, log_dirs=2, data_dir=tmp_path, clock="manual") as cluster:
        end = cluster._up._parts.controller.log_end_offset
    records = [
        TopicRecord(name=TOPIC, topic_id=Uuid(b"t" * 16)),
        *(
            PartitionRecord(
                partition_id=index, topic_id=Uuid(b"t" * 16), replicas=[1], isr=[1], leader=1,
                directories=[UNASSIGNED_DIRECTORY],
            )
            for index in range(3)
        ),
    ]  # fmt: skip
    async with klamm.Cluster(brokers=1, log_dirs=2, data_dir=tmp_path, clock="manual") as cluster:
        cluster._up._parts.controller.commit_steered(records)
        cluster._up.brokers.log_dir_work.placed._queue.clear()
        cluster._up.brokers.log_dir_work.placed._chosen.clear()
        assert {directories(cluster, index)[1] for index in range(3)} == {""}
        assert cluster._up._parts.controller.log_end_offset >= end + 4
    async with klamm.Cluster(brokers=1, log_dirs=2, data_dir=tmp_path, clock="manual") as cluster:
        await cluster.advance("1ms")
        assert [directories(cluster, index)[1] for index in range(3)] == [FIRST, SECOND, FIRST]


async def test_replicas_that_a_reassignment_adds_get_a_directory_and_others_keep_theirs() -> None:
    async with klamm.Cluster(brokers=2, log_dirs=2, clock="manual") as cluster:
        await cluster.create_topic(TOPIC, 1, 1)
        owner = await cluster.leader(TOPIC, 0)
        await move(cluster, owner, SECOND, 0)
        await cluster.advance("1ms")
        wanted = moves.ReassignableTopic(
            name=TOPIC, partitions=[moves.ReassignablePartition(partition_index=0, replicas=[1, 2])]
        )
        await ask(cluster, owner, moves.API, 0, moves.AlterPartitionReassignmentsRequest(topics=[wanted]))
        await cluster.advance("1ms")
        assert directories(cluster, 0) == {owner: SECOND, 3 - owner: FIRST}
        one = describe_log_dirs.DescribableLogDirTopic(topic=TOPIC, partitions=[7])
        request = describe_log_dirs.DescribeLogDirsRequest(topics=[one])
        answer = await ask(cluster, owner, describe_log_dirs.API, 5, request)
        assert [len(found.topics) for found in answer.results] == [0, 0], "no partition that was asked for"


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
