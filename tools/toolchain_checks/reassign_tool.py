"""Runs `klamm reassign-partitions` on a real Apache Kafka cluster.

Kafka's own tool produces records, and the moves are throttled, so that they stay in progress. The tool's output is
compared with that of Kafka's kafka-reassign-partitions for the same cluster.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

from klamm import AdminClient, NewTopic, TopicPartition
from tools.predictions.running import REAL_CONFIGS
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.real_cluster import BROKERS, RealCluster, real_cluster
from tools.toolchain_checks.report import CheckFailed, Report, expect
from tools.toolchain_checks.security_metadata import SECURE
from tools.toolchain_checks.twins import STATIC, check_twins

KAFKAS_TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
RECORDS, RECORD_BYTES = 20_000, 1_000
SLOW, FAST = 50_000, 5_000_000
"""Bytes per second: the records take many minutes, or seconds. The unused rate of the last eleven seconds may be used
at once."""
COMMAND_SECONDS = 240.0
WATCH_SECONDS = 240.0
TOPIC = "moved"
_BEHIND = re.compile(r"^moved +[01] +3 +Behind: (\d+) messages behind$", re.MULTILINE)


def check_reassign_tool(report: Report, java: Java) -> None:
    """From a proposal to a reassignment that is watched to its end, and one that is cancelled."""
    whole_run = "a real 4.3 cluster of three brokers serves klamm reassign-partitions"
    with report.check(whole_run), real_cluster(java, configs={**SECURE, **REAL_CONFIGS, **STATIC}) as cluster:
        _check(report, _Tool(java, cluster), java)
        check_twins(report, java, cluster)


class _Tool:
    """Klamm's tool, and Kafka's for comparison, both for the same cluster."""

    def __init__(self, java: Java, cluster: RealCluster) -> None:
        self._java = java
        self._calls = 0
        self.cluster = cluster

    def ours(self, *arguments: str, exit_code: int = 0) -> str:
        """The output of Klamm's tool; raises `CheckFailed` with all of it if the exit code is another one."""
        with self.started(*arguments) as process:
            out, err = process.communicate(timeout=WATCH_SECONDS)
        if process.returncode != exit_code:
            raise CheckFailed(f"{' '.join(arguments)} ended with exit code {process.returncode}\n{out}{err}")
        return out if exit_code == 0 else err

    def object(self, *arguments: str) -> Any:
        """The JSON object in the output of Klamm's tool."""
        return json.loads(self.ours(*arguments, "--json"))

    def kafkas(self, *arguments: str) -> str:
        """The output of Kafka's tool."""
        self._calls += 1
        requested = ["--bootstrap-server", self.cluster.bootstrap_servers, *arguments]
        output = self._java.run(f"kafka-reassign-{self._calls}", KAFKAS_TOOL, requested, COMMAND_SECONDS)
        return output.read_text(encoding="utf-8")

    def file(self, name: str, content: Any) -> str:
        """The path of a file with this content."""
        path = self._java.folder / name
        path.write_text(json.dumps(content), encoding="utf-8")
        return str(path)

    @contextmanager
    def started(self, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
        """Klamm's tool, running; it is ended with the block."""
        root = Path(__file__).resolve().parents[2]
        requested = ["reassign-partitions", "--bootstrap-server", self.cluster.bootstrap_servers, *arguments]
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "klamm", *requested],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _moves(first: tuple[int, ...], second: tuple[int, ...]) -> dict[str, Any]:
    partitions = [{"topic": TOPIC, "partition": index, "replicas": list(r)} for index, r in enumerate((first, second))]
    return {"version": 1, "partitions": partitions}


def _check(report: Report, tool: _Tool, java: Java) -> None:
    with report.check("records are produced to two partitions of two replicas each"):
        trio.run(_create_topic, tool.cluster.bootstrap_servers)
        counts = ["--num-records", str(RECORDS), "--record-size", str(RECORD_BYTES), "--throughput", "-1"]
        produced = ["--topic", TOPIC, "--bootstrap-server", tool.cluster.bootstrap_servers, *counts]
        java.run("producer", PRODUCER, produced, COMMAND_SECONDS)
    there = tool.file("there.json", _moves((3, 2), (2, 3)))
    with report.check("--generate proposes what Kafka's tool could have proposed"):
        _check_proposal(tool)
    with report.check("--execute starts moves with a throttle, and prints what was before"):
        started = tool.object("--execute", "--reassignment-json-file", there, "--throttle", str(SLOW))
        expect([row["replicas"] for row in started["current"]["partitions"]] == [[1, 2], [2, 1]], str(started))
        expect(len(started["started"]) == 2, str(started))
    with report.check("--list and --verify print what Kafka's tool prints, line by line"):
        expect_same(tool, "--list")
        expect_same(tool, "--verify", "--reassignment-json-file", there)
        expect("is still in progress" in tool.ours("--verify", "--reassignment-json-file", there), "all is done")
    with report.check("--progress shows how far the new replicas are, which DescribeLogDirs does not know"):
        shown = tool.ours("--progress", "--reassignment-json-file", there)
        expect(sum(map(int, _BEHIND.findall(shown))) > RECORDS // 10, shown)
        trio.run(_expect_no_lag_in_log_dirs, tool.cluster.bootstrap_servers)
    again = ["--execute", "--reassignment-json-file", there, "--throttle", str(FAST)]
    with report.check("a second --execute is refused"):
        expect("--additional" in tool.ours(*again, exit_code=1), "it is refused for another reason")
    with report.check(
        "--watch shows less and less lag, --additional another throttle, and it ends when all are in sync"
    ):
        _check_watch(_watched(tool, ["--reassignment-json-file", there, "--json"], [*again, "--additional"]))
    _check_end(report, tool, there)


def _check_end(report: Report, tool: _Tool, there: str) -> None:
    back = tool.file("back.json", _moves((1, 2), (2, 1)))
    with report.check("--verify tells that the moves are done, and takes the throttles away"):
        lines = tool.ours("--verify", "--reassignment-json-file", there).splitlines()
        expect(
            lines[1:3] == [f"Reassignment of partition {TOPIC}-{index} is completed." for index in (0, 1)], str(lines)
        )
        expect_same(tool, "--verify", "--reassignment-json-file", there)
    with report.check("--cancel ends a move, and what was before is there again"):
        tool.ours("--execute", "--reassignment-json-file", back, "--throttle", str(SLOW))
        cancelled = tool.object("--cancel", "--reassignment-json-file", back)
        expect(len(cancelled["cancelled"]) == 2, str(cancelled))
        expect(tool.object("--list") == {"reassignments": []}, "moves are still in progress")
        expect_same(tool, "--verify", "--reassignment-json-file", back)
    with report.check("the six cases of KIP-179 are shown for a real cluster"):
        _check_six_cases(tool)


def expect_same(tool: _Tool, *arguments: str) -> None:
    """Both tools print the same."""
    ours, theirs = tool.ours(*arguments), tool.kafkas(*arguments)
    expect(ours.split("\n") == theirs.split("\n"), f"ours:\n{ours}\nKafka's:\n{theirs}")


def _check_proposal(tool: _Tool) -> None:
    topics = tool.file("topics.json", {"version": 1, "topics": [{"topic": TOPIC}]})
    requested = ["--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,2,3"]
    ours, theirs = tool.ours(*requested).splitlines(), tool.kafkas(*requested).splitlines()
    expect([ours[0], *ours[2:4]] == [theirs[0], *theirs[2:4]], f"headings are\n{ours}\nKafka's are\n{theirs}")
    for at in (1, 4):
        mine, other = json.loads(ours[at]), json.loads(theirs[at])
        expect([list(row) for row in mine["partitions"]] == [list(row) for row in other["partitions"]], str(mine))
        expect([len(row["replicas"]) for row in mine["partitions"]] == [2, 2], str(mine))
    tool.ours("--verify", "--reassignment-json-file", tool.file("proposed.json", json.loads(ours[4])))
    rows = [row["replicas"] for row in json.loads(ours[1])["partitions"]]
    expect(rows == [row["replicas"] for row in json.loads(theirs[1])["partitions"]], f"the present is {rows}")


def _watched(tool: _Tool, arguments: list[str], meanwhile: list[str]) -> str:
    """The output of `--watch` until it ends by itself; `meanwhile` is called after its first lines."""
    with tool.started("--watch", *arguments) as watch:
        assert watch.stdout is not None
        assert watch.stderr is not None
        too_slow = threading.Timer(WATCH_SECONDS, watch.kill)
        too_slow.start()
        try:
            printed = watch.stdout.readline()
            tool.ours(*meanwhile)
            printed += watch.stdout.read()
            code = watch.wait()
        finally:
            too_slow.cancel()
        expect(code == 0, f"exit code {code}\n{printed}{watch.stderr.read()}")
    return printed


def _check_watch(printed: str) -> None:
    looks = [json.loads(line) for line in printed.splitlines()]
    lags = [sum(row["lag"] for row in look["replicas"]) for look in looks]
    expect(len(lags) > 1 and lags == sorted(lags, reverse=True), f"lags are {lags}")
    expect(lags[0] > 0 and lags[-1] == 0 and looks[-1]["in_sync"] is True, f"lags are {lags}")


def _check_six_cases(tool: _Tool) -> None:
    wanted = [(TOPIC, 0, 3), (TOPIC, 0, 2), ("asdf", 0, 1), (TOPIC, 42, 1), (TOPIC, 1, 42), (TOPIC, 1, 1)]
    rows: dict[tuple[str, int], list[int]] = {}
    for name, index, broker_id in wanted:
        rows.setdefault((name, index), []).append(broker_id)
    content = [{"topic": name, "partition": index, "replicas": replicas} for (name, index), replicas in rows.items()]
    path = tool.file("six.json", {"version": 1, "partitions": content})
    printed = [
        line.split(maxsplit=3)[3] for line in tool.ours("--progress", "--reassignment-json-file", path).splitlines()
    ]
    reported = ["Status", "In sync", "In sync", "Unknown topic", "Unknown partition", "Unknown broker"]
    expect(printed == [*reported, "Broker does not host this partition"], "\n".join(printed))
    failed = tool.ours("--watch", "--reassignment-json-file", path, exit_code=1)
    expect("4 of 6 replicas cannot get in sync" in failed, failed)


async def _create_topic(bootstrap_servers: str) -> None:
    async with AdminClient(bootstrap_servers) as admin:
        (made,) = await admin.create_topics([NewTopic(TOPIC, replica_assignments={0: (1, 2), 1: (2, 1)})])
        made.raise_for_error()


async def _expect_no_lag_in_log_dirs(bootstrap_servers: str) -> None:
    """The reason for the use of ListOffsets; if this check fails, DescribeLogDirs has become usable."""
    partitions = [TopicPartition(TOPIC, index) for index in (0, 1)]
    async with AdminClient(bootstrap_servers) as admin:
        found = await admin.describe_log_dirs(BROKERS[-1:], partitions=partitions)
    lags = [replica.offset_lag for log_dir in found for replica in log_dir.replicas]
    expect(lags == [0, 0], f"the offset lags on broker {BROKERS[-1]} are {lags}")
