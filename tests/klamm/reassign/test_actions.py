"""The requests that the tool's actions send, and their output."""

import json
from typing import Any

import pytest
import trio

import klamm
from klamm.admin.partition_types import TopicPartition
from klamm.protocol.messages.partitions.alter_partition_reassignments import API as ALTER_REASSIGNMENTS
from klamm.reassign.actions import cancel, execute, list_moves, verify
from klamm.reassign.proposal import generate
from klamm.reassign.report import ReassignFailed, Report
from tests.klamm.admin.scripted_cluster import Partition, ScriptedCluster
from tests.klamm.reassign.test_progress import targets

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
MOVES = targets(("b", 0, (3, 1)), ("a", 1, (2, 3)), ("a", 0, (1, 2)))
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


@pytest.fixture
def cluster() -> ScriptedCluster:
    return ScriptedCluster(
        partitions={A0: Partition(1, (1, 2)), A1: Partition(2, (2, 1)), B0: Partition(1, (1, 2))},
        racks={1: "r1", 2: "r2", 3: "r3"},
    )


async def executed(cluster: ScriptedCluster, wanted: Any = MOVES, **options: Any) -> Report:
    defaults = {"additional": False, "throttle": None, "allow_replication_factor_change": True, "timeout_ms": 7}
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        return await execute(admin, wanted, **(defaults | options))


async def verified(cluster: ScriptedCluster, **options: Any) -> Report:
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        return await verify(admin, MOVES, **({"preserve_throttles": False} | options))


async def cancelled(cluster: ScriptedCluster, **options: Any) -> Report:
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        return await cancel(admin, MOVES, **({"preserve_throttles": False, "timeout_ms": 7} | options))


BEFORE = {
    "version": 1,
    "partitions": [
        {"topic": name, "partition": index, "replicas": replicas, "log_dirs": ["any", "any"]}
        for name, index, replicas in (("a", 0, [1, 2]), ("a", 1, [2, 1]), ("b", 0, [1, 2]))
    ],
}


async def test_execute_prints_what_leads_back_and_starts_the_moves(
    cluster: ScriptedCluster, nursery: trio.Nursery
) -> None:
    report = await executed(await cluster.start(nursery))
    assert report.lines == (
        "Current partition replica assignment",
        "",
        json.dumps(BEFORE, separators=(",", ":")),
        "",
        "Save this output. To undo the reassignment, pass it as --reassignment-json-file.",
        "Successfully started partition reassignments for a-0,a-1,b-0",
    )
    started = [{"topic": "a", "partition": 0}, {"topic": "a", "partition": 1}, {"topic": "b", "partition": 0}]
    assert report.content == {"current": BEFORE, "throttle": None, "started": started, "refused": []}
    assert report.failure is None
    assert cluster.asked_moves == {target.partition: target.replicas for target in MOVES}
    assert cluster.configs == {}


async def test_execute_of_one_partition_is_told_in_the_singular(
    cluster: ScriptedCluster, nursery: trio.Nursery
) -> None:
    report = await executed(await cluster.start(nursery), MOVES[:1])
    assert report.lines[-1] == "Successfully started partition reassignment for b-0"


async def test_the_timeout_and_the_replication_factor_s_change_are_the_controller_s_affair(
    cluster: ScriptedCluster, nursery: trio.Nursery
) -> None:
    await executed(await cluster.start(nursery), allow_replication_factor_change=False, timeout_ms=123)
    (body,) = (requested.body for _, requested in cluster.asked if requested.api is ALTER_REASSIGNMENTS)
    assert (body.timeout_ms, body.allow_replication_factor_change) == (123, False)  # type: ignore[attr-defined]


async def test_a_partition_that_is_refused_is_a_failure_beside_those_that_move(
    cluster: ScriptedCluster, nursery: trio.Nursery
) -> None:
    cluster.refusals[A1] = 39
    report = await executed(await cluster.start(nursery))
    assert report.lines[-1] == "Successfully started partition reassignments for a-0,b-0"
    assert report.failure == "1 of 3 partitions was refused: a-1: INVALID_REPLICA_ASSIGNMENT (39): no"
    assert report.content["refused"] == [
        {"topic": "a", "partition": 1, "error": "INVALID_REPLICA_ASSIGNMENT", "message": "no"}
    ]


async def test_of_many_refusals_the_first_five_are_told(cluster: ScriptedCluster, nursery: trio.Nursery) -> None:
    many = targets(*(("many", index, (1,)) for index in range(8)))
    for target in many:
        cluster.partitions[target.partition] = Partition(1, (1,))
        cluster.refusals[target.partition] = 39
    report = await executed(await cluster.start(nursery), many)
    assert report.failure is not None
    assert report.failure.count("INVALID_REPLICA_ASSIGNMENT") == 5
    assert report.failure.startswith("8 of 8 partitions were refused: ")
    assert report.failure.endswith("; and 3 more")


async def test_moves_in_progress_are_not_joined_unless_that_is_asked_for(
    cluster: ScriptedCluster, nursery: trio.Nursery
) -> None:
    cluster.moves[TopicPartition("other", 0)] = ((1, 2), (1,), (2,))
    await cluster.start(nursery)
    with pytest.raises(ReassignFailed, match=r"reassignments are in progress \(1 partition\); with --additional"):
        await executed(cluster)
    assert cluster.asked_moves == {}
    await executed(cluster, additional=True)
    assert set(cluster.asked_moves) == {A0, A1, B0}


@pytest.mark.parametrize(("wanted", "said"), [
    (targets(("a", 0, (1, 9))), "broker 9, wanted for a-0, is not live"),
    (targets(("a", 7, (1,))), "there is no partition a-7"),
    (targets(("c", 0, (1,))), "topic 'c': UNKNOWN_TOPIC_OR_PARTITION"),
])  # fmt: skip
async def test_what_cannot_be_is_refused_before_anything_is_changed(
    wanted: Any, said: str, cluster: ScriptedCluster, nursery: trio.Nursery
) -> None:
    await cluster.start(nursery)
    with pytest.raises((ReassignFailed, klamm.RequestFailed), match=said):
        await executed(cluster, wanted, throttle=1)
    assert (cluster.asked_moves, cluster.configs) == ({}, {})


async def test_directories_are_named_by_the_file_and_must_exist(
    cluster: ScriptedCluster, nursery: trio.Nursery
) -> None:
    cluster.log_dirs[2] = ["/data", "/more"]
    await cluster.start(nursery)
    (target,) = targets(("a", 0, (1, 2)))
    report = await executed(cluster, [target._replace(log_dirs=("/data", "/more"))])
    assert set(cluster.asked_moves) == {A0}
    assert report.lines[-2:] == (
        "Successfully started moving log directory to /data for replica a-0 with broker 1 ",
        "Successfully started moving log directory to /more for replica a-0 with broker 2 ",
    )
    cluster.asked_moves.clear()
    with pytest.raises(ReassignFailed, match="a-0: broker 2 has no log directory '/other'; it has /data, /more"):
        await executed(cluster, [target._replace(log_dirs=("any", "/other"))])
    assert not cluster.asked_moves


async def test_a_throttle_is_set_on_who_sends_and_who_receives(cluster: ScriptedCluster, nursery: trio.Nursery) -> None:
    report = await executed(await cluster.start(nursery), throttle=1000)
    assert {cluster.configs[str(broker_id), rate] for broker_id in (1, 2, 3) for rate in RATES} == {"1000"}
    # The brokers that hold the replicas send records; a-0 does not move.
    assert [cluster.configs["a", name] for name in REPLICAS] == ["0:1,0:2,1:1,1:2", "1:3"]
    assert [cluster.configs["b", name] for name in REPLICAS] == ["0:1,0:2", "0:3"]
    assert "Replication is limited to 1000 B/s; --verify removes the limit after the last move." in report.lines


async def test_a_throttle_covers_the_moves_in_progress(cluster: ScriptedCluster, nursery: trio.Nursery) -> None:
    cluster.moves[A0] = ((3, 1, 2), (3,), (1, 2))
    cluster.moves[B0] = ((3, 1, 2), (3,), (2,))
    cluster.partitions[B0].replicas = (3, 1, 2)
    await executed(await cluster.start(nursery), targets(("b", 0, (2, 3))), throttle=5, additional=True)
    assert [cluster.configs["a", name] for name in REPLICAS] == ["0:1,0:2", "0:3"]
    assert [cluster.configs["b", name] for name in REPLICAS] == ["0:1,0:2", "0:3"]


CLEARED = ("Clearing broker-level throttles on brokers 1,2,3", "Clearing topic-level throttles on topics a,b")


async def test_verify_tells_each_move_in_kafka_s_words(cluster: ScriptedCluster, nursery: trio.Nursery) -> None:
    cluster.moves[A1] = ((2, 3, 1), (3,), (1,))
    report = await verified(await cluster.start(nursery))
    assert report.lines == (
        "Status of partition reassignment:",
        "Reassignment of partition a-0 is completed.",
        "Reassignment of partition a-1 is still in progress.",
        "There is no active reassignment of partition b-0, but replica set is 1,2 rather than 3,1.",
        "",
    )
    done = [(row["completed"], row["in_progress"]) for row in report.content["partitions"]]
    assert done == [(True, False), (False, True), (False, False)]
    assert cluster.configs == {}, "throttles are still needed"


async def test_verify_clears_throttles_when_nothing_moves(cluster: ScriptedCluster, nursery: trio.Nursery) -> None:
    report = await verified(await cluster.start(nursery))
    assert report.lines[-2:] == CLEARED
    assert report.content["cleared"] == {"brokers": [1, 2, 3], "topics": ["a", "b"]}
    names = {name for owner, name in cluster.configs if owner == "1"}
    assert names == {*RATES, "replica.alter.log.dirs.io.max.bytes.per.second"}
    assert {name for owner, name in cluster.configs if owner == "a"} == set(REPLICAS)
    assert set(cluster.configs.values()) == {None}


async def test_throttles_of_a_topic_that_is_not_there_are_a_failure_and_the_others_go(
    cluster: ScriptedCluster, nursery: trio.Nursery
) -> None:
    """Kafka's tool ends with exit code 1 in this case."""
    del cluster.partitions[B0]
    await cluster.start(nursery)
    for done in (verified, cancelled):
        cluster.configs.clear()
        report = await done(cluster)
        assert report.failure == "some throttles were not removed: topic 'b': UNKNOWN_TOPIC_OR_PARTITION (3)"
        assert report.lines[-1] == "Clearing topic-level throttles on topic a"
        assert {owner for owner, _ in cluster.configs} == {"1", "2", "3", "a"}
        assert (await done(cluster, preserve_throttles=True)).failure is None


async def test_throttles_may_be_kept(cluster: ScriptedCluster, nursery: trio.Nursery) -> None:
    await cluster.start(nursery)
    assert (await verified(cluster, preserve_throttles=True)).lines[-1] == ""
    await cancelled(cluster, preserve_throttles=True)
    assert cluster.configs == {}


async def test_moves_in_progress_are_listed_as_kafka_s_tool_lists_them(
    cluster: ScriptedCluster, nursery: trio.Nursery
) -> None:
    await cluster.start(nursery)
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        assert (await list_moves(admin)).lines == ("No partition reassignments found.",)
        cluster.moves = {B0: ((3, 1, 2), (3,), (2,)), A0: ((1, 2), (), (2,))}
        report = await list_moves(admin)
    assert report.lines == (
        "Current partition reassignments:",
        "a-0: replicas: 1,2. removing: 2.",
        "b-0: replicas: 3,1,2. adding: 3. removing: 2.",
    )
    assert report.content["reassignments"][1] == {
        "topic": "b", "partition": 0, "replicas": [3, 1, 2], "adding_replicas": [3], "removing_replicas": [2]
    }  # fmt: skip


async def test_cancel_ends_the_moves_that_are_in_progress_and_no_others(
    cluster: ScriptedCluster, nursery: trio.Nursery
) -> None:
    cluster.moves = {B0: ((3, 1, 2), (3,), (2,)), A1: ((2, 3, 1), (3,), (1,)), TopicPartition("c", 0): ((1,), (), ())}
    report = await cancelled(await cluster.start(nursery))
    assert cluster.asked_moves == {A1: None, B0: None}
    assert report.lines == ("Successfully cancelled partition reassignments for: a-1,b-0", *CLEARED)


async def test_cancel_of_nothing_is_no_failure(cluster: ScriptedCluster, nursery: trio.Nursery) -> None:
    report = await cancelled(await cluster.start(nursery))
    assert (report.lines[0], report.failure) == ("None of the specified partition reassignments are active.", None)


async def test_a_proposal_keeps_factor_and_order_and_spreads_over_racks(
    cluster: ScriptedCluster, nursery: trio.Nursery
) -> None:
    await cluster.start(nursery)
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        report = await generate(admin, ["b", "a"], [3, 1], rack_aware=True)
    assert report.lines[0::3] == (
        "Current partition replica assignment",
        "Proposed partition reassignment configuration",
    )
    assert [json.loads(report.lines[at]) for at in (1, 4)] == [report.content["current"], report.content["proposed"]]
    assert report.content["current"] == BEFORE
    proposed = report.content["proposed"]["partitions"]
    assert [(row["topic"], row["partition"]) for row in proposed] == [("a", 0), ("a", 1), ("b", 0)]
    assert [sorted(row["replicas"]) for row in proposed] == [[1, 3]] * 3
    assert cluster.asked_moves == {}


@pytest.mark.parametrize(("topics", "brokers", "said"), [
    (["a"], [1, 8, 9], "--broker-list: not live: 8,9; the live brokers are 1,2,3"),
    (["a"], [1], "--broker-list names 1 broker, topic 'a' has 2 replicas"),
    (["c"], [1, 2], "topic 'c': UNKNOWN_TOPIC_OR_PARTITION"),
])  # fmt: skip
async def test_where_there_is_no_proposal_the_reason_is_told(
    topics: list[str], brokers: list[int], said: str, cluster: ScriptedCluster, nursery: trio.Nursery
) -> None:
    await cluster.start(nursery)
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        with pytest.raises((ReassignFailed, klamm.RequestFailed), match=said):
            await generate(admin, topics, brokers, rack_aware=True)


async def test_racks_that_are_known_in_part_count_only_where_they_are_ignored(
    cluster: ScriptedCluster, nursery: trio.Nursery
) -> None:
    del cluster.racks[2]
    await cluster.start(nursery)
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        with pytest.raises(ReassignFailed, match=r"brokers 2 have no rack, .* --disable-rack-aware"):
            await generate(admin, ["a"], [1, 2], rack_aware=True)
        report = await generate(admin, ["a"], [1, 2], rack_aware=False)
    assert len(report.content["proposed"]["partitions"]) == 2
