"""Runs Kafka's ConfigCommand and TopicCommand against a server: the commands of KIP-578 and similar ones.

`kafka-configs.sh` and `kafka-topics.sh` start these classes. The check reads their output, and verifies each change
with the next command.
"""

from collections.abc import Iterable

from klamm.cluster.server_process import ServerProcess
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.report import CheckFailed, Report, expect

COMMAND_SECONDS = 240.0
LIMIT = "max.broker.partitions"
NO_LIMIT = 2**63 - 1
ALL, ONE = ("--entity-type", "brokers", "--entity-default"), ("--entity-type", "brokers", "--entity-name", "1")


def check_config_command(report: Report, java: Java) -> None:
    """Kafka's tools set, show and delete limits, and Klamm applies them."""
    whole_run = "Kafka's command line tools are answered until the server is stopped"
    with report.check(whole_run), ServerProcess("--brokers", "3", "--seed", "7") as server:
        _check(report, _Tools(java, server))


class _Tools:
    """Calls of the two tools."""

    def __init__(self, java: Java, server: ServerProcess) -> None:
        self._java = java
        self._server = server
        self._calls = 0

    def configs(self, *arguments: str) -> str:
        return self._run("kafka.admin.ConfigCommand", arguments)

    def topics(self, *arguments: str) -> str:
        return self._run("org.apache.kafka.tools.TopicCommand", arguments)

    def _run(self, main_class: str, arguments: Iterable[str]) -> str:
        """The output of a tool; raises `CheckFailed` with it if the exit code is not 0."""
        self._calls += 1
        name = f"{main_class.rpartition('.')[2]}-{self._calls}"
        requested = ["--bootstrap-server", self._server.bootstrap_servers, *arguments]
        return self._java.run(name, main_class, requested, COMMAND_SECONDS).read_text(encoding="utf-8")


def _check(report: Report, tools: _Tools) -> None:
    with report.check(f"ConfigCommand sets {LIMIT}=4000 for all brokers, and 10 for broker 1 (KIP-578)"):
        tools.configs("--alter", "--add-config", f"{LIMIT}=4000", *ALL)
        tools.configs("--alter", "--add-config", f"{LIMIT}=10", *ONE)
    with report.check("ConfigCommand shows both limits, each with its source, and what stands behind it"):
        of_all = f"{LIMIT}=4000 sensitive=false synonyms={{DYNAMIC_DEFAULT_BROKER_CONFIG:{LIMIT}=4000}}"
        of_one = (
            f"{LIMIT}=10 sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:{LIMIT}=10, "
            f"DYNAMIC_DEFAULT_BROKER_CONFIG:{LIMIT}=4000, DEFAULT_CONFIG:{LIMIT}={NO_LIMIT}}}"
        )
        _expect_line(tools.configs("--describe", *ALL), of_all)
        _expect_line(tools.configs("--describe", *ONE), of_one)
        whole = tools.configs("--describe", "--all", *ONE)
        _expect_line(whole, of_one)
        _expect_line(
            whole, f"max.partitions={NO_LIMIT} sensitive=false synonyms={{DEFAULT_CONFIG:max.partitions={NO_LIMIT}}}"
        )
    with report.check("ConfigCommand shows which values and configs are refused, and why"):
        refused = "Invalid value 0 for configuration max.partitions: Value must be at least 1"
        _expect_refusal(refused, tools, "--alter", "--add-config", "max.partitions=0", *ALL)
        read_only = "Cannot update these configs dynamically: [num.partitions]"
        _expect_refusal(read_only, tools, "--alter", "--add-config", "num.partitions=5", *ALL)
    with report.check("ConfigCommand deletes the limits again"):
        for entity in (ALL, ONE):
            tools.configs("--alter", "--delete-config", LIMIT, *entity)
            expect(LIMIT not in tools.configs("--describe", *entity), "a deleted limit is still shown")
    with report.check("ConfigCommand alters a topic's configs, a list among them"):
        topic = ("--entity-type", "topics", "--entity-name", "t")
        tools.topics("--create", "--topic", "t", "--partitions", "1")
        tools.configs("--alter", "--add-config", "cleanup.policy=[compact,delete],retention.ms=5", *topic)
        tools.configs("--alter", "--delete-config", "retention.ms", *topic)
        shown = tools.configs("--describe", *topic)
        _expect_line(
            shown,
            "cleanup.policy=compact,delete sensitive=false synonyms="
            "{DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
        )
        expect("retention.ms" not in shown, "a deleted config is still shown")


def _expect_line(text: str, line: str) -> None:
    expect(line in map(str.strip, text.splitlines()), f"there is no line\n{line}\nin\n{text}")


def _expect_refusal(reason: str, tools: _Tools, *arguments: str) -> None:
    try:
        tools.configs(*arguments)
    except CheckFailed as failure:
        expect(reason in str(failure), f"another reason than {reason}: {failure}")
        return
    raise CheckFailed(f"not refused: {' '.join(arguments)}")
