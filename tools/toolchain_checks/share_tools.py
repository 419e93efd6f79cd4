"""Runs Kafka's tools for share groups against a server: ConsoleShareConsumer and ShareGroupCommand.

`kafka-console-share-consumer.sh` and `kafka-share-groups.sh` start these classes. A console consumer, which is Kafka's
own share consumer, reads and accepts all records; then its group is listed, described, reset and deleted.
"""

from klamm.cluster.server_process import ServerProcess
from tools.toolchain_checks.group_tools import KafkaTools, expect_equal
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.report import Report

GROUP, TOPIC = "of-932", "orders"
RECORDS = 200
EARLIEST = "share.auto.offset.reset=earliest"


def check_share_tools(report: Report, java: Java) -> None:
    """Kafka's tools read in a share group, and list, describe, reset and delete it."""
    configs = {
        "num.partitions": 1,
        "default.replication.factor": 3,
        "group.share.min.heartbeat.interval.ms": 100,
        "group.share.heartbeat.interval.ms": 200,
    }
    whole_run = "Kafka's tools about share groups are answered until the server is stopped"
    with report.check(whole_run), ServerProcess(brokers=3, configs=configs) as server:
        tools = KafkaTools(java, server)
        with report.check("kafka-console-share-consumer reads each record once"):
            alter = ("--alter", "--entity-type", "groups", "--entity-name", GROUP, "--add-config", EARLIEST)
            tools.run_class("kafka.admin.ConfigCommand", *alter)
            values = [f"value-{number}" for number in range(RECORDS)]
            tools.run("ConsoleProducer", "--topic", TOPIC, lines=values)
            found = _read(tools)
            expect_equal("the records", sorted(found), sorted(values))
        with report.check("kafka-share-groups lists, describes, resets and deletes a share group"):
            _check_command(tools)


def _read(tools: KafkaTools) -> list[str]:
    """What a console consumer prints that ends when it has as many records as there are."""
    requested = ("--topic", TOPIC, "--group", GROUP, "--max-messages", str(RECORDS), "--timeout-ms", "60000")
    printed = tools.run("consumer.ConsoleShareConsumer", *requested)
    return [line for line in printed.splitlines() if line.startswith("value-")]


def _check_command(tools: KafkaTools) -> None:
    def ask(*arguments: str) -> list[list[str]]:
        output = tools.run("consumer.group.ShareGroupCommand", *arguments)
        return [line.split() for line in output.splitlines() if line.startswith((GROUP, "Deletion"))]

    expect_equal("groups", ask("--list"), [[GROUP]])
    expect_equal("states", ask("--list", "--state"), [[GROUP, "Empty"]])
    rows = ask("--describe", "--group", GROUP)
    expect_equal("partitions and lags", [(row[2], row[4]) for row in rows], [("0", "0")])
    reset = ("--reset-offsets", "--group", GROUP, "--topic", TOPIC, "--to-earliest", "--execute")
    expect_equal("offsets", [row[3] for row in ask(*reset)], ["0"])
    expect_equal("records that come again", len(_read(tools)), RECORDS)
    ask("--delete", "--group", GROUP)
    expect_equal("groups", ask("--list"), [])
