"""Runs Kafka's tools for share groups against a server: ConsoleShareConsumer, ShareGroupCommand and
ShareConsumerPerformance.

`kafka-console-share-consumer.sh`, `kafka-share-groups.sh` and `kafka-share-consumer-perf-test.sh` start these classes.
A console consumer, which is Kafka's own share consumer, reads and accepts all records; then its group is listed,
described, reset and deleted.
"""

from klamm.cluster.server_process import ServerProcess
from tools.toolchain_checks.group_tools import KafkaTools, expect_equal
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.report import Report

GROUP, TOPIC, MEASURED = "of-932", "orders", "measured"
MEASURED_COLUMNS = 7
"""Of the figures of the perf test: the sixth is the number of records."""
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
            _begin_at_start(tools, GROUP)
            values = [f"value-{number}" for number in range(RECORDS)]
            tools.run("ConsoleProducer", "--topic", TOPIC, lines=values)
            found = _read(tools)
            expect_equal("the records", sorted(found), sorted(values))
        with report.check("kafka-share-groups lists, describes, resets and deletes a share group"):
            _check_command(tools)
        with report.check("kafka-share-consumer-perf-test consumes as many records as it is told to"):
            _begin_at_start(tools, MEASURED)
            wanted = ("--topic", TOPIC, "--group", MEASURED, "--num-records", str(RECORDS), "--timeout", "60000")
            printed = tools.run("ShareConsumerPerformance", *wanted)
            columns = [line.split(", ") for line in printed.splitlines() if line.count(", ") == MEASURED_COLUMNS - 1]
            expect_equal("records", columns[-1][5], str(RECORDS))


def _begin_at_start(tools: KafkaTools, group_id: str) -> None:
    alter = ("--alter", "--entity-type", "groups", "--entity-name", group_id, "--add-config", EARLIEST)
    tools.run_class("kafka.admin.ConfigCommand", *alter)


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
