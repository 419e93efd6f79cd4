"""Runs Kafka's tool for streams groups, `kafka-streams-groups.sh`, while an application runs and when it has ended.

The application is tools/conformance/java/RunningStreams.java: it counts words until its standard input ends.
"""

import time

from klamm.cluster.server_process import ServerProcess
from tools.toolchain_checks.group_tools import COMMAND_SECONDS, KafkaTools
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.report import CheckFailed, Report, expect

COMMAND = "streams.StreamsGroupCommand"
GROUP, TOPIC = "counter", "lines"
PARTITIONS = 2
INTERNAL = f"{GROUP}-store-repartition"
LINES = 40


def check_streams_tools(report: Report, java: Java) -> None:
    """Kafka's tool lists, describes, resets and deletes a streams group."""
    configs = {
        "num.partitions": PARTITIONS,
        "default.replication.factor": 3,
        "group.streams.min.heartbeat.interval.ms": 100,
        "group.streams.heartbeat.interval.ms": 200,
        "group.streams.initial.rebalance.delay.ms": 0,
    }
    whole_run = "Kafka's tool for streams groups is answered until the server is stopped"
    with report.check(whole_run), ServerProcess(brokers=3, configs=configs) as server:
        tools = KafkaTools(java, server)
        keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
        lines = [f"{number}:word-{number % 7} again" for number in range(LINES)]
        tools.run("ConsoleProducer", "--topic", TOPIC, *keyed, lines=[*lines, "last:end"])
        arguments = (server.bootstrap_servers, str(java.folder / "running-streams"))
        with java.running("RunningStreams", "RunningStreams", arguments) as application:
            application.wait_for(
                "all lines are counted", lambda: "running" in application.output.read_text() or None, COMMAND_SECONDS
            )
            _check_running(report, tools)
            application.wait_end(COMMAND_SECONDS)
        _check_ended(report, tools)


def _rows(tools: KafkaTools, *arguments: str) -> list[list[str]]:
    """The words of each line of the tool, without its title."""
    lines = [line.split() for line in tools.run(COMMAND, *arguments).splitlines()]
    return [line for line in lines if line and line[0] == GROUP]


def _check_running(report: Report, tools: KafkaTools) -> None:
    with report.check("kafka-streams-groups lists a streams group, and describes its state, members and offsets"):
        _expect_equal("the groups", _rows(tools, "--list"), [[GROUP]])
        _expect_equal("states", _rows(tools, "--list", "--state"), [[GROUP, "Stable"]])
        described = ("--describe", "--group", GROUP)
        (state,) = _rows(tools, *described, "--state")
        _expect_equal("state and members", state[-2:], ["Stable", "1"])
        (member,) = _rows(tools, *described, "--members", "--verbose")
        _expect_equal("protocol", member[4], "streams")
        _expect_equal(
            "tasks", member[-6:], ["ACTIVE:", "0:[0,1];", "1:[0,1];", "TARGET-ACTIVE:", "0:[0,1];", "1:[0,1];"]
        )
        wanted = [[GROUP, topic, str(at), "0"] for topic in (INTERNAL, TOPIC) for at in range(PARTITIONS)]
        deadline = time.monotonic() + COMMAND_SECONDS
        # The application commits what it has counted up to a commit interval later.
        while (offsets := sorted(_rows(tools, *described, "--offsets"))) != wanted and time.monotonic() < deadline:
            pass
        _expect_equal("topics, partitions and lag", offsets, wanted)
    with report.check("kafka-streams-groups deletes no group with members"):
        printed = tools.run(COMMAND, "--delete", "--group", GROUP)
        expect("is not EMPTY" in printed, printed)


def _check_ended(report: Report, tools: KafkaTools) -> None:
    with report.check("kafka-streams-groups resets and deletes offsets, and deletes the group"):
        _expect_equal("states", _rows(tools, "--list", "--state"), [[GROUP, "Empty"]])
        reset = ("--reset-offsets", "--group", GROUP, "--input-topic", TOPIC, "--to-earliest", "--execute")
        _expect_equal("reset", sorted(_rows(tools, *reset)), [[GROUP, TOPIC, str(at), "0"] for at in range(PARTITIONS)])
        printed = tools.run(COMMAND, "--delete-offsets", "--group", GROUP, "--input-topic", f"{TOPIC}:0")
        expect("Successful" in printed, printed)
        printed = tools.run(COMMAND, "--delete", "--group", GROUP)
        expect("was successful" in printed, printed)
        _expect_equal("the groups", _rows(tools, "--list"), [])


def _expect_equal(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise CheckFailed(f"{what}: {found}, not {wanted}")
