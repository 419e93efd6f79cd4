"""Runs Kafka's tools for partitions and records against a server, above all kafka-reassign-partitions.

`kafka-reassign-partitions.sh` and similar scripts start these classes. One topic has many records and slow followers,
so that its move stays in progress during the checks; the move of another topic completes at once.
"""

import json
import re
import time
from collections.abc import Iterable
from typing import Any

import trio

from klamm import AdminClient, NewTopic
from klamm.cluster.server_process import ServerProcess
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.report import CheckFailed, Report, expect

TOOLS = "org.apache.kafka.tools"
COMMAND_SECONDS = 240.0
LONG, SHORT = "long", "short"
RECORDS, RECORD_BYTES = 60_000, 20
REPLICATION_RATE = 200
"""Records per second: the long reassignment takes five minutes, and is cancelled."""
SMALL_BATCHES = ("--command-property", "batch.size=500")
"""The size of a log counts whole batches: a follower soon has one of this size, but none of the default size for
seconds."""
FOLLOWS_SECONDS = 240.0
POLL_SECONDS = 0.05
LOG_DIRS = ("/tmp/kafka-logs-1", "/tmp/kafka-logs-2")
THROTTLE = ("--throttle", "1000000")
CONSOLE_RECORDS = ("one", "two", "three")


def check_partition_tools(report: Report, java: Java) -> None:
    """Kafka's tools write, move, count and read records."""
    arguments = ["--brokers", "3", "--racks", "a,b,c", "--replication-rate", str(REPLICATION_RATE), "--seed", "7"]
    arguments += ["--log-dirs", "2"]
    arguments += ["--set", "auto.leader.rebalance.enable=false"]  # Here Kafka's tool elects the leaders.
    whole_run = "Kafka's tools about partitions and records are answered until the server is stopped"
    with report.check(whole_run), ServerProcess(*arguments) as server:
        trio.run(_create_topics, server.bootstrap_servers)
        tools = _Tools(java, server)
        _check_records(report, tools)
        _check_moves(report, tools)
        _check_elections(report, tools)
        _check_moves_between_directories(report, tools)


async def _create_topics(bootstrap_servers: str) -> None:
    async with AdminClient(bootstrap_servers) as admin:
        # Producers to the long topic do not wait for followers.
        topics = [NewTopic(LONG, replica_assignments={0: (1,)}), NewTopic(SHORT, replica_assignments={0: (1, 2)})]
        for made in await admin.create_topics(topics):
            made.raise_for_error()


async def _until_it_follows(bootstrap_servers: str) -> None:
    """Wait until the replica that is added has records."""
    async with AdminClient(bootstrap_servers) as admin:
        with trio.move_on_after(FOLLOWS_SECONDS):
            while True:
                log_dirs = await admin.describe_log_dirs([3], partitions=[(LONG, 0)])
                if any(replica.size_bytes for log_dir in log_dirs for replica in log_dir.replicas):
                    return
                await trio.sleep(POLL_SECONDS)
    raise CheckFailed(f"broker 3 has got no record within {FOLLOWS_SECONDS:.0f} s")


class _Tools:
    """Calls of the tools."""

    def __init__(self, java: Java, server: ServerProcess) -> None:
        self._java = java
        self._server = server
        self._calls = 0

    def run(self, main_class: str, *arguments: str, lines: Iterable[str] = ()) -> str:
        """The output of a tool with these input lines; raises `CheckFailed` with it if its exit code is not 0."""
        self._calls += 1
        name = f"{main_class.rpartition('.')[2]}-{self._calls}"
        requested = ["--bootstrap-server", self._server.bootstrap_servers, *arguments]
        output = self._java.run(name, f"{TOOLS}.{main_class}", requested, COMMAND_SECONDS, lines)
        return output.read_text(encoding="utf-8")

    def await_follower(self) -> None:
        trio.run(_until_it_follows, self._server.bootstrap_servers)

    def reassign(self, *arguments: str) -> str:
        return self.run("reassign.ReassignPartitionsCommand", *arguments)

    def file(self, name: str, content: Any) -> str:
        """The path of a file with this content."""
        path = self._java.folder / name
        path.write_text(json.dumps(content), encoding="utf-8")
        return str(path)


def _check_records(report: Report, tools: _Tools) -> None:
    with report.check(f"ProducerPerformance writes {RECORDS} records"):
        counts = ("--num-records", str(RECORDS), "--record-size", str(RECORD_BYTES), "--throughput", "-1")
        requested = ("--topic", LONG, *counts, *SMALL_BATCHES)
        _expect_match(rf"^{RECORDS} records sent, ", tools.run("ProducerPerformance", *requested))
    with report.check("ConsoleProducer writes lines, and ConsoleConsumer reads them from a partition"):
        tools.run("ConsoleProducer", "--topic", SHORT, lines=CONSOLE_RECORDS)
        read = ("--topic", SHORT, "--partition", "0", "--offset", "earliest", "--max-messages", "3")
        _expect_equal(tools.run("consumer.ConsoleConsumer", *read).splitlines(), list(CONSOLE_RECORDS))
    with report.check("GetOffsetShell prints where partitions end"):
        _expect_equal(tools.run("GetOffsetShell").splitlines(), [f"{LONG}:0:{RECORDS}", f"{SHORT}:0:3"])


def _check_moves(report: Report, tools: _Tools) -> None:
    moves = tools.file("moves.json", _assignment({LONG: [3], SHORT: [2, 1]}))
    by_file = ("--reassignment-json-file", moves)
    with report.check("kafka-reassign-partitions --generate prints what is, and proposes what --execute takes"):
        topics = tools.file("topics.json", {"version": 1, "topics": [{"topic": LONG}]})
        shown = tools.reassign("--generate", "--topics-to-move-json-file", topics, "--broker-list", "3").splitlines()
        _expect_equal(
            shown[0::3], ["Current partition replica assignment", "Proposed partition reassignment configuration"]
        )
        _expect_equal([_replicas(shown[1]), _replicas(shown[4])], [{LONG: [1]}, {LONG: [3]}])
    with report.check("--execute prints what was before and starts the moves, throttled"):
        shown = tools.reassign("--execute", *by_file, *THROTTLE).splitlines()
        _expect_equal(_replicas(shown[2]), {LONG: [1], SHORT: [1, 2]})
        _expect_in(f"Successfully started partition reassignments for {LONG}-0,{SHORT}-0", shown)
    with report.check("--verify tells the move in progress from the one that is done"):
        shown = tools.reassign("--verify", *by_file).splitlines()
        _expect_in(f"Reassignment of partition {LONG}-0 is still in progress.", shown)
        _expect_in(f"Reassignment of partition {SHORT}-0 is completed.", shown)
    with report.check("--list prints the move in progress, and LogDirsCommand the replica that follows"):
        shown = tools.reassign("--list").splitlines()
        _expect_equal(shown[1:], [f"{LONG}-0: replicas: 3,1. adding: 3. removing: 1."])
        tools.await_follower()
        _check_log_dirs(tools.run("LogDirsCommand", "--describe", "--topic-list", LONG))
    with report.check("--execute of another move is refused while one is in progress"):
        _expect_refusal("there is an existing partition assignment.  Use --additional", tools, "--execute", *by_file)
    with report.check("--cancel ends the move, and --verify finds it undone and takes the throttles away"):
        shown = tools.reassign("--cancel", *by_file, "--preserve-throttles").splitlines()
        _expect_in(f"Successfully cancelled partition reassignment for: {LONG}-0", shown)
        shown = tools.reassign("--verify", *by_file).splitlines()
        _expect_in(f"There is no active reassignment of partition {LONG}-0, but replica set is 1 rather than 3.", shown)
        _expect_in("Clearing broker-level throttles on brokers 1,2,3", shown)
        _expect_match(rf"^Clearing topic-level throttles on topics ({LONG},{SHORT}|{SHORT},{LONG})$", "\n".join(shown))
        _expect_equal(tools.reassign("--list").strip(), "No partition reassignments found.")


def _check_moves_between_directories(report: Report, tools: _Tools) -> None:
    """The replica of the short topic is moved at once; the other directory is the second one."""
    partition = {"topic": SHORT, "partition": 0, "replicas": [3], "log_dirs": [LOG_DIRS[1]]}
    by_file = ("--reassignment-json-file", tools.file("directories.json", {"version": 1, "partitions": [partition]}))
    with report.check("kafka-reassign-partitions moves a replica into another log directory"):
        shown = tools.reassign("--execute", *by_file).splitlines()
        _expect_in(
            f"Successfully started moving log directory to {LOG_DIRS[1]} for replica {SHORT}-0 with broker 3 ", shown
        )
        done, deadline = (
            f"Reassignment of replica {SHORT}-0-3 completed successfully.",
            time.monotonic() + FOLLOWS_SECONDS,
        )
        while done not in (shown := tools.reassign("--verify", *by_file).splitlines()):
            # The records are copied in the background.
            _expect_in(f"Reassignment of replica {SHORT}-0-3 is still in progress.", shown)
            expect(time.monotonic() < deadline, f"not within {FOLLOWS_SECONDS:.0f} s")


def _check_elections(report: Report, tools: _Tools) -> None:
    with report.check("kafka-leader-election elects the preferred leader, once"):
        requested = ("--election-type", "preferred", "--topic", SHORT, "--partition", "0")
        _expect_match(
            rf"^Successfully completed leader election .*{SHORT}-0", tools.run("LeaderElectionCommand", *requested)
        )
        _expect_match(r"^Valid replica already elected", tools.run("LeaderElectionCommand", *requested))


def _assignment(replicas: dict[str, list[int]]) -> dict[str, Any]:
    partitions = [{"topic": name, "partition": 0, "replicas": row} for name, row in replicas.items()]
    return {"version": 1, "partitions": partitions}


def _replicas(line: str) -> dict[str, list[int]]:
    return {row["topic"]: row["replicas"] for row in json.loads(line)["partitions"]}


def _check_log_dirs(printed: str) -> None:
    brokers = json.loads(printed.splitlines()[-1])["brokers"]
    sizes = {
        broker["broker"]: partition["size"]
        for broker in brokers
        for log_dir in broker["logDirs"]
        for partition in log_dir["partitions"]
    }
    expect(sizes.keys() == {1, 3} and 0 < sizes[3] < sizes[1], f"the sizes by broker are {sizes}")


def _expect_equal(found: object, wanted: object) -> None:
    expect(found == wanted, f"{found}\ninstead of\n{wanted}")


def _expect_in(line: str, lines: list[str]) -> None:
    shown = "\n".join(lines)
    expect(line in lines, f"there is no line\n{line}\nin\n{shown}")


def _expect_match(pattern: str, text: str) -> None:
    expect(re.search(pattern, text, re.MULTILINE) is not None, f"there is no\n{pattern}\nin\n{text}")


def _expect_refusal(reason: str, tools: _Tools, *arguments: str) -> None:
    try:
        tools.reassign(*arguments)
    except CheckFailed as failure:
        expect(reason in str(failure) and "exit code 1" in str(failure), f"another reason than {reason}: {failure}")
        return
    raise CheckFailed(f"not refused: {' '.join(arguments)}")
