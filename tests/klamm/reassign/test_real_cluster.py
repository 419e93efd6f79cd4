"""`klamm reassign-partitions` as a process against a Klamm cluster: every action, in lines and in JSON, and invalid
files. The cluster replicates one record per second, so that a move stays in progress until the test ends it."""

import json
from pathlib import Path
from typing import Any

import pytest

from klamm import ConfigResource
from klamm.admin.types import ConfigSource
from klamm.reassign.progress import progress
from klamm.reassign.throttles import BROKER_RATES, THROTTLED_REPLICAS
from tests.klamm.reassign.moving_cluster import Moving, moving_cluster
from tests.klamm.reassign.test_progress import targets
from tests.rules.situation import eventually

SHORT, KIP, LONG = "a", "my_topic", "x" * 249
A_SESSION: dict[str, Any] = {"broker_session_timeout_ms": 1000, "broker_heartbeat_interval_ms": 100}

KIP_TABLE = """\
Topic      Partition  Broker  Status
my_topic   0          1       In sync
my_topic   0          2       Behind: 10456 messages behind
asdf       0          2       Unknown topic
my_topic   42         2       Unknown partition
my_topic   0          42      Unknown broker
my_topic   1          1       Broker does not host this partition
"""
"""The sample of KIP-179. Its brokers are 0 and 1; Klamm's begin with 1."""


def with_name(table: str, topic_name: str, width: int) -> str:
    """The same table for another topic name: its first column may be wider."""
    cells = [(line[:11].rstrip(), line[11:]) for line in table.splitlines()]
    return "".join(f"{(topic_name if first == KIP else first).ljust(width)}{rest}\n" for first, rest in cells)


@pytest.mark.parametrize(("topic_name", "width"), [(KIP, 11), (SHORT, 11), (LONG, 252)])
async def test_the_table_is_the_kip_s(topic_name: str, width: int, tmp_path: Path) -> None:
    async with moving_cluster(tmp_path) as (moving, cluster):
        await moving.place(topic_name, [1, 2], [3, 2])
        await cluster.stop_broker(2)
        await moving.fill(topic_name, 10_456)
        wanted = targets(
            (topic_name, 0, (1, 2)),
            ("asdf", 0, (2,)),
            (topic_name, 42, (2,)),
            (topic_name, 0, (42,)),
            (topic_name, 1, (1,)),
        )
        report = await progress(moving.admin, wanted)
        assert "".join(f"{line}\n" for line in report.lines) == with_name(KIP_TABLE, topic_name, width)
        # A file has each partition once: the row of broker 42 is among the others of its partition.
        file = moving.file(
            *((topic_name, 0, [1, 2, 42]), ("asdf", 0, [2]), (topic_name, 42, [2]), (topic_name, 1, [1]))
        )
        lines = KIP_TABLE.splitlines(keepends=True)
        table = with_name("".join([*lines[:3], lines[5], *lines[3:5], lines[6]]), topic_name, width)
        assert await moving.with_file(file, "--progress") == (0, table, "")


async def test_a_partition_whose_only_broker_crashed_has_no_leader(tmp_path: Path) -> None:
    """Both before the controller has fenced that broker, while it is still the leader, and afterwards."""
    async with moving_cluster(tmp_path, **A_SESSION) as (moving, cluster):
        await moving.place("t", [3], [1])
        file = moving.file(("t", 0, [3]), ("t", 1, [1]))
        reported = f"{'Topic':<11}Partition  Broker  Status\n{'t':<11}0          3       No leader\n"
        table = f"{reported}{'t':<11}1          1       In sync\n"
        await cluster.stop_broker(3, mode="crash")
        assert await moving.with_file(file, "--progress") == (0, table, "")

        async def noticed() -> bool:
            return (await moving.admin.metadata(["t"])).topics[0].partitions[0].leader is None

        await eventually(noticed)
        assert await moving.with_file(file, "--progress") == (0, table, "")
        (row, _) = (await moving.with_file(file, "--progress", "--json")).content["replicas"]
        assert (row["broker"], row["status"], row["lag"], row["problem"]) == (3, "No leader", None, "NO_LEADER")


async def test_a_move_is_executed_listed_verified_and_cancelled(tmp_path: Path) -> None:
    async with moving_cluster(tmp_path) as (moving, _):
        await moving.place("t", [1])
        await moving.place("u", [1, 2])
        await moving.fill("t", 1000)
        file = moving.file(("t", 0, [3]), ("u", 0, [2, 1]))
        assert (await moving.run("--list")).lines == ["No partition reassignments found."]
        ran = await moving.with_file(file, "--execute")
        assert (ran.exit_code, ran.stderr) == (0, "")
        assert ran.lines[0] == "Current partition replica assignment"
        assert [one["replicas"] for one in json.loads(ran.lines[2])["partitions"]] == [[1], [1, 2]]
        assert ran.lines[-1] == "Successfully started partition reassignments for t-0,u-0"
        listed = "t-0: replicas: 3,1. adding: 3. removing: 1."
        assert (await moving.run("--list")).lines == ["Current partition reassignments:", listed]
        table = (await moving.with_file(file, "--progress")).lines
        assert [" ".join(line.split()[:4]) for line in table[1:]] == [
            *("t 0 3 Behind:", "u 0 2 In", "u 0 1 In"),
        ]
        verified = await moving.with_file(file, "--verify")
        assert (verified.exit_code, verified.stderr) == (0, "")
        assert verified.lines == [
            "Status of partition reassignment:",
            "Reassignment of partition t-0 is still in progress.",
            "Reassignment of partition u-0 is completed.",
            "",
        ]
        again = await moving.with_file(file, "--execute")
        assert (again.exit_code, again.stdout) == (1, "")
        assert again.stderr.startswith(
            "klamm reassign-partitions: reassignments are in progress (1 partition); with --additional"
        )
        ended = await moving.with_file(file, "--cancel")
        assert (ended.exit_code, ended.lines[0]) == (0, "Successfully cancelled partition reassignment for: t-0")
        nothing = await moving.with_file(file, "--cancel")
        assert (nothing.exit_code, nothing.lines[0]) == (0, "None of the specified partition reassignments are active.")
        verified = await moving.with_file(file, "--verify")
        assert verified.lines[1] == (
            "There is no active reassignment of partition t-0, but replica set is 1 rather than 3."
        )


async def throttles(moving: Moving) -> dict[str, set[str | None]]:
    """The values that are set, by config."""
    resources = [*(ConfigResource.broker(broker_id) for broker_id in (1, 2, 3)), ConfigResource.topic("t")]
    names = [*BROKER_RATES, *THROTTLED_REPLICAS]
    found: dict[str, set[str | None]] = {}
    for result in await moving.admin.describe_configs(resources, keys=names):
        for name, config in result.raise_for_error().configs.items():
            if config.source in (ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_TOPIC_CONFIG):
                found.setdefault(name, set()).add(config.value)
    return found


async def test_every_action_has_its_object(tmp_path: Path) -> None:
    async with moving_cluster(tmp_path) as (moving, _):
        await moving.place("t", [1])
        await moving.fill("t", 1000)
        moved, rows = {"topic": "t", "partition": 0}, [3]
        topics = moving.written({"version": 1, "topics": [{"topic": "t"}]})
        generated = await moving.run(
            "--generate", "--topics-to-move-json-file", topics, "--broker-list", "2,3", "--json"
        )
        current = {"version": 1, "partitions": [{**moved, "replicas": [1], "log_dirs": ["any"]}]}
        assert (generated.exit_code, generated.content["current"]) == (0, current)
        assert generated.content["proposed"]["partitions"][0]["replicas"] in ([2], [3])
        file = moving.file(("t", 0, rows))
        executed = await moving.with_file(file, "--execute", "--throttle", "5000", "--json")
        assert executed.content == {"current": current, "throttle": 5000, "started": [moved], "refused": []}
        assert await throttles(moving) == {
            **{rate: {"5000"} for rate in BROKER_RATES},
            **dict(zip(THROTTLED_REPLICAS, ({"0:1"}, {"0:3"}), strict=True)),
        }
        listed = {**moved, "replicas": [3, 1], "adding_replicas": [3], "removing_replicas": [1]}
        assert (await moving.run("--list", "--json")).content == {"reassignments": [listed]}
        progressed = (await moving.with_file(file, "--progress", "--json")).content
        assert progressed["in_sync"] is False
        (row,) = progressed["replicas"]
        status = f"Behind: {row['lag']} messages behind"
        assert row == {**moved, "broker": 3, "status": status, "lag": row["lag"], "problem": None}
        assert 900 < row["lag"] <= 1000
        reported = {**moved, "target": rows, "replicas": [3, 1], "in_progress": True, "completed": False}
        verified = await moving.with_file(file, "--verify", "--json")
        assert verified.content == {"partitions": [reported], "in_progress": True, "cleared": None}
        cleared = {"brokers": [1, 2, 3], "topics": ["t"]}
        cancelled = await moving.with_file(file, "--cancel", "--json")
        assert cancelled.content == {"cancelled": [moved], "refused": [], "cleared": cleared}
        assert await throttles(moving) == {}
        reported = {**moved, "target": rows, "replicas": [1], "in_progress": False, "completed": False}
        verified = await moving.with_file(file, "--verify", "--json")
        assert verified.content == {"partitions": [reported], "in_progress": False, "cleared": cleared}


async def test_what_was_generated_can_be_executed(tmp_path: Path) -> None:
    async with moving_cluster(tmp_path) as (moving, _):
        await moving.place("t", *[[1]] * 4)
        topics = moving.written({"version": 1, "topics": [{"topic": "t"}]})
        ran = await moving.run("--generate", "--topics-to-move-json-file", topics, "--broker-list", "2,3")
        assert (ran.exit_code, ran.stderr) == (0, "")
        current, proposed = ran.lines[1], ran.lines[4]
        for file in (proposed, current):
            path = moving.written(file)
            assert (await moving.with_file(path, "--execute")).exit_code == 0
            assert (await moving.with_file(path, "--watch")).exit_code == 0
            verified = await moving.with_file(path, "--verify")
            assert [line for line in verified.lines if "is completed" in line] == verified.lines[1:5]
        assert {one.replicas for one in (await moving.admin.metadata(["t"])).topics[0].partitions} == {(1,)}


ONE = {"topic": "t", "partition": 0, "replicas": [3]}
BAD_FILES: dict[str, tuple[object, str]] = {
    "no JSON": ("{'version':1}", "is not JSON"),
    "cut off": (json.dumps({"version": 1, "partitions": [ONE]})[:-1], "is not JSON"),
    "another version": ({"version": 2, "partitions": [ONE]}, "version"),
    "a partition twice": ({"version": 1, "partitions": [ONE, {**ONE, "replicas": [2]}]}, "t-0 is given twice"),
    "a broker twice": ({"version": 1, "partitions": [{**ONE, "replicas": [3, 3]}]}, "broker 3 is given twice"),
    "nothing in it": ({"version": 1, "partitions": []}, "nothing to do"),
    "a negative broker": ({"version": 1, "partitions": [{**ONE, "replicas": [-1]}]}, "replicas[0]"),
    "no replicas": ({"version": 1, "partitions": [{**ONE, "replicas": []}]}, "at least one broker"),
    "a broker that is not there": ({"version": 1, "partitions": [ONE, {**ONE, "partition": 1, "replicas": [9]}]}, "9"),
    "a partition that is not there": ({"version": 1, "partitions": [ONE, {**ONE, "partition": 2}]}, "t-2"),
    "a topic that is not there": ({"version": 1, "partitions": [ONE, {**ONE, "topic": "u"}]}, "u"),
}


async def test_a_bad_file_is_one_line_and_changes_nothing(tmp_path: Path) -> None:
    async with moving_cluster(tmp_path) as (moving, _):
        await moving.place("t", [1], [1])
        await moving.fill("t", 1000)
        before = await moving.state()
        for content, said in BAD_FILES.values():
            ran = await moving.with_file(moving.written(content), "--execute", "--throttle", "7")
            assert (ran.exit_code, ran.stdout, ran.stderr.count("\n")) == (1, "", 1), ran
            assert said in ran.stderr
            assert await moving.state() == before
        missing = str(tmp_path / "none.json")
        for action in ("--execute", "--verify", "--cancel", "--progress", "--watch"):
            ran = await moving.with_file(missing, action)
            said = f"klamm reassign-partitions: {missing}: No such file or directory\n"
            assert ran == (1, "", said), action
        assert await moving.state() == before
