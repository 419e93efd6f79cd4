"""Runs Kafka's tools for consumer groups and transactions against a server: ConsumerGroupCommand and its relatives.

`kafka-consumer-groups.sh` and similar scripts start these classes. Two console consumers, one of each protocol, have
read the same records; then their groups are listed, described, reset and deleted.
"""

import json
import re
from collections.abc import Iterable

from klamm.cluster.server_process import ServerProcess
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.report import Report, expect

TOOLS = "org.apache.kafka.tools"
COMMAND_SECONDS = 240.0
RECORDS = 30
CLASSIC, CONSUMER = "of-old", "of-848"
TOPIC = "orders"


def check_group_tools(report: Report, java: Java) -> None:
    """Kafka's tools read in groups, and list, describe, reset and delete these."""
    configs = {"group.initial.rebalance.delay.ms": 0, "num.partitions": 3, "default.replication.factor": 3}
    whole_run = "Kafka's tools about groups and transactions are answered until the server is stopped"
    with report.check(whole_run), ServerProcess(brokers=3, configs=configs) as server:
        tools = KafkaTools(java, server)
        _check_consumers(report, tools)
        _check_descriptions(report, tools)
        _check_changes(report, tools)
        _check_transactions(report, tools)


class KafkaTools:
    """Calls of the tools."""

    def __init__(self, java: Java, server: ServerProcess) -> None:
        self._java = java
        self._server = server
        self._calls = 0

    def run(self, main_class: str, *arguments: str, lines: Iterable[str] = ()) -> str:
        """The output of a tool with these input lines; raises `CheckFailed` with it if its exit code is not 0."""
        return self.run_class(f"{TOOLS}.{main_class}", *arguments, lines=lines)

    def run_class(self, main_class: str, *arguments: str, lines: Iterable[str] = ()) -> str:
        """As `run`, by the whole name of the class."""
        self._calls += 1
        name = f"groups-{main_class.rpartition('.')[2]}-{self._calls}"
        requested = ["--bootstrap-server", self._server.bootstrap_servers, *arguments]
        output = self._java.run(name, main_class, requested, COMMAND_SECONDS, lines)
        return output.read_text(encoding="utf-8")

    def groups(self, *arguments: str) -> list[list[str]]:
        """The words of each line of ConsumerGroupCommand."""
        return [line.split() for line in self.run("consumer.group.ConsumerGroupCommand", *arguments).splitlines()]

    def console(self, *arguments: str) -> str:
        return self.run("consumer.ConsoleConsumer", "--from-beginning", *arguments)


def _check_consumers(report: Report, tools: KafkaTools) -> None:
    with report.check("console consumers of both protocols read the same records in groups"):
        values = [f"value-{number}" for number in range(RECORDS)]
        keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
        lines = [f"{number}:{value}" for number, value in enumerate(values)]
        tools.run("ConsoleProducer", "--topic", TOPIC, *keyed, lines=lines)
        requested = ("--topic", TOPIC, "--max-messages", str(RECORDS))
        for group, protocol in ((CLASSIC, "classic"), (CONSUMER, "consumer")):
            of_group = ("--group", group, "--command-property", f"group.protocol={protocol}")
            expect_equal("the records", sorted(tools.console(*requested, *of_group).split()), sorted(values))


def _check_descriptions(report: Report, tools: KafkaTools) -> None:
    with report.check("kafka-consumer-groups lists groups with states and types, and describes offsets and members"):
        expect_equal("the groups", sorted(tools.groups("--list")), [[CONSUMER], [CLASSIC]])
        types, states = tools.groups("--list", "--type"), tools.groups("--list", "--state")
        expect_equal("types", sorted(types)[1:], [[CONSUMER, "Consumer"], [CLASSIC, "Classic"]])
        expect_equal("states", sorted(states)[1:], [[CONSUMER, "Empty"], [CLASSIC, "Empty"]])
        for group in (CLASSIC, CONSUMER):
            rows = [row for row in tools.groups("--describe", "--group", group) if row[:2] == [group, TOPIC]]
            expect_equal(f"partitions of {group}", sorted(row[2] for row in rows), ["0", "1", "2"])
            expect_equal(f"committed of {group}", sum(int(row[3]) for row in rows), RECORDS)
            expect_equal(f"lag of {group}", [row[5] for row in rows], ["0", "0", "0"])


def _check_changes(report: Report, tools: KafkaTools) -> None:
    with report.check("kafka-consumer-groups resets offsets, and deletes offsets and groups"):
        reset = ("--reset-offsets", "--group", CLASSIC, "--topic", TOPIC, "--execute")
        for how in (("--to-earliest",), ("--shift-by", "1"), ("--to-current",)):
            rows = [row for row in tools.groups(*reset, *how) if row[:2] == [CLASSIC, TOPIC]]
            wanted = "0" if how == ("--to-earliest",) else "1"
            expect_equal(" ".join(how), [row[3] for row in rows], [wanted] * 3)
        tools.groups("--delete-offsets", "--group", CLASSIC, "--topic", f"{TOPIC}:0")
        rows = [row for row in tools.groups("--describe", "--group", CLASSIC) if row[:2] == [CLASSIC, TOPIC]]
        expect_equal("partitions with an offset", sorted(row[2] for row in rows), ["1", "2"])
        tools.groups("--delete", "--group", CONSUMER)
        expect_equal("the groups", tools.groups("--list"), [[CLASSIC]])
    with report.check("the formatter of __consumer_offsets prints the commits of a group"):
        formatter = ("--formatter", f"{TOOLS}.consumer.OffsetsMessageFormatter")
        printed = tools.console(*_all_of(tools, "__consumer_offsets"), *formatter)
        commits = [one for one in _objects(printed) if one["key"]["data"]["group"] == CLASSIC]
        expect_equal("the last commit", commits[-1]["value"], None)  # the offset that was deleted
        expect_equal("its topic", commits[-1]["key"]["data"]["topic"], TOPIC)


def _check_transactions(report: Report, tools: KafkaTools) -> None:
    with report.check("kafka-transactions lists a transactional producer, and a formatter prints its records"):
        counts = ("--num-records", "500", "--record-size", "100", "--throughput", "-1")
        ours = ("--transactional-id", "perf", "--transaction-duration-ms", "50")
        tools.run("ProducerPerformance", "--topic", TOPIC, *counts, *ours)
        rows = [line.split() for line in tools.run("TransactionsCommand", "list").splitlines()]
        expect_equal("transactions", [(row[0], row[-1]) for row in rows[1:]], [("perf", "CompleteCommit")])
        formatter = ("--formatter", f"{TOOLS}.consumer.TransactionLogMessageFormatter")
        printed = tools.console(*_all_of(tools, "__transaction_state"), *formatter)
        expect_equal("ids", {one["key"]["data"]["transactionalId"] for one in _objects(printed)}, {"perf"})


def _all_of(tools: KafkaTools, topic: str) -> tuple[str, ...]:
    """Arguments for a console consumer that ends when it has read the topic, however long that takes."""
    ends = [line.rpartition(":")[2] for line in tools.run("GetOffsetShell", "--topic", topic).splitlines()]
    return "--topic", topic, "--max-messages", str(sum(map(int, ends)))


def expect_equal(what: str, found: object, wanted: object) -> None:
    """Fail the check if the two differ."""
    expect(found == wanted, f"{what}: {found}, not {wanted}")


def _objects(printed: str) -> list[dict[str, dict[str, dict[str, str]]]]:
    """The JSON objects of a formatter, which prints them without a separator."""
    text, objects, at = re.sub(r"\s+", " ", printed), [], 0
    while (at := text.find("{", at)) >= 0:
        value, at = json.JSONDecoder().raw_decode(text, at)
        objects.append(value)
    return objects
