"""Checks Klamm with Apache Kafka 4.3.0's own programs: its command line tools connect to a server, and its tools read a
data directory that Klamm wrote. The container image is built and run, and the page is opened in Chromium, too.

    python -m tools.toolchain_checks [--keep DIR] [--install] [--spark-cluster] [--part PART]

Exit code 0 if every check passed; the last line has the numbers of passed and failed checks. The checks are in parts,
each of which is a process; several run at once.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.page_in_browser.checks import check_page
from tools.toolchain_checks.client_stories import (
    check_stories_in_java,
    check_stories_in_other_languages,
    check_streams_stories,
    with_conformance,
)
from tools.toolchain_checks.config_command import check_config_command
from tools.toolchain_checks.container import check_container
from tools.toolchain_checks.docker_page import check_docker_page
from tools.toolchain_checks.frameworks import check_frameworks
from tools.toolchain_checks.fuzzers import check_fuzzers
from tools.toolchain_checks.group_tools import check_group_tools
from tools.toolchain_checks.java_process import Java, tools_in_one_process
from tools.toolchain_checks.kafka_jars import fetch_class_path, find_program
from tools.toolchain_checks.message_classes import check_message_classes
from tools.toolchain_checks.other_languages import check_other_languages
from tools.toolchain_checks.partition_tools import check_partition_tools
from tools.toolchain_checks.pipeline_oracle import check_pipeline_oracle
from tools.toolchain_checks.pytest_project import check_pytest_project
from tools.toolchain_checks.readers_of_log import check_readers_of_log
from tools.toolchain_checks.real_brokers import check_real_brokers
from tools.toolchain_checks.reassign_tool import check_reassign_tool
from tools.toolchain_checks.report import CheckFailed, Report
from tools.toolchain_checks.request_topic import check_request_topic
from tools.toolchain_checks.security_clients import check_security_clients
from tools.toolchain_checks.share_tools import check_share_tools
from tools.toolchain_checks.side_by_side import run_parts
from tools.toolchain_checks.streams_tools import check_streams_tools

AT_ONCE: Final = 3
"""Parts that run at once: with two processors they are busy, and the waits of the parts overlap."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the parts have in common. `java` has all classes of tools/conformance/java; None: there is none."""

    java: Java | None
    folder: Path
    install: bool
    spark_cluster: bool


def check_kafka_tools(report: Report, asked: Asked) -> None:
    """Kafka's classes and its command line tools."""
    if (java := asked.java) is not None:
        check_message_classes(report, java)
        check_config_command(report, java)
        check_partition_tools(report, java)
        check_group_tools(report, java)
        check_share_tools(report, java)
        check_streams_tools(report, java)


def check_brokers(report: Report, asked: Asked) -> None:
    """Kafka's brokers, and the pipeline on their log."""
    if (java := asked.java) is not None:
        check_reassign_tool(report, java)
        check_real_brokers(report, java, java.folder / "real-brokers")
        check_pipeline_oracle(report, java)


def check_java_clients(report: Report, asked: Asked) -> None:
    """Applications in Java, and Faust."""
    if asked.java is not None:
        check_stories_in_java(report, asked.java)
    check_frameworks(report, asked.java, asked.folder / "frameworks")


def check_streams(report: Report, asked: Asked) -> None:
    """Kafka Streams and share consumers."""
    if asked.java is not None:
        check_streams_stories(report, asked.java)


def check_other_clients(report: Report, asked: Asked) -> None:
    """Clients in other languages, and logins in all of them."""
    check_stories_in_other_languages(report)
    check_security_clients(report, asked.java, asked.folder / "security")


def check_fixtures(report: Report, asked: Asked) -> None:
    """The fixtures of the docs in all languages, and the page."""
    check_other_languages(report, asked.java, asked.folder / "languages")
    check_page(report, install=asked.install)


def check_image(report: Report, asked: Asked) -> None:
    """The container image, and the page about it."""
    check_docker_page(report, asked.folder / "docker")
    check_container(report, install=asked.install)


def check_package(report: Report, asked: Asked) -> None:
    """The wheel in a project, and the fuzzers."""
    check_pytest_project(report, asked.folder / "pytest")
    check_fuzzers(report, asked.folder / "fuzzing")


def check_log(report: Report, asked: Asked) -> None:
    """Kafka's readers of a log of Klamm, and Spark's reader of its request topic."""
    check_readers_of_log(report, asked.java, asked.folder, spark_cluster=asked.spark_cluster)
    check_request_topic(report, asked.folder / "request-topic")


PARTS: Final[dict[str, Callable[[Report, Asked], None]]] = {
    "brokers": check_brokers,
    "image": check_image,
    "package": check_package,
    "streams": check_streams,
    "other-clients": check_other_clients,
    "java-clients": check_java_clients,
    "kafka-tools": check_kafka_tools,
    "fixtures": check_fixtures,
    "log": check_log,
}
"""Those that take long, or download much the first time, begin first."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/toolchain", allow_abbrev=False)
    parser.add_argument("--keep", metavar="DIR", type=Path, help="a new directory for all files, which are kept")
    parser.add_argument("--install", action="store_true", help="install packages for building an image (apt-get)")
    parser.add_argument(
        "--spark-cluster", action="store_true", help="also run the pipeline on a Spark cluster (minutes)"
    )
    parser.add_argument("--part", choices=PARTS, help="run one part alone")
    given = parser.parse_args(arguments)
    keep: Path | None = given.keep
    # The blocks that started processes stop them.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    report = Report()
    with ExitStack() as stack:
        if keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="klamm-toolchain-")))
        else:
            folder = keep.absolute()
            folder.mkdir(parents=True)
        if given.part is None:
            with report.check("java and Apache Kafka's jars are there"):
                java_with_classes(folder)
            run_parts(report, commands(given, folder), AT_ONCE)
        else:
            java: Java | None = None
            with suppress(CheckFailed):  # which the check above reports
                java = stack.enter_context(tools_in_one_process(java_with_classes(folder)))
            PARTS[given.part](report, Asked(java, folder, given.install, given.spark_cluster))
    return report.close()


def java_with_classes(folder: Path) -> Java:
    """Java with Apache Kafka's jars and the classes of tools/conformance/java. Raises `CheckFailed`."""
    return with_conformance(Java(find_program("java", "default-jre-headless"), fetch_class_path(), folder))


def commands(given: argparse.Namespace, folder: Path) -> dict[str, Sequence[str]]:
    """The command of every part, with the options of this process and a folder of its own."""
    program = (sys.executable, "-P", "-m", "tools.toolchain_checks")
    options = [f"--{name.replace('_', '-')}" for name in ("install", "spark_cluster") if getattr(given, name)]
    return {part: (*program, *options, "--part", part, "--keep", str(folder / part)) for part in PARTS}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
