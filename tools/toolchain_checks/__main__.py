"""Checks Klamm with Apache Kafka 4.3.0's own programs: its command line tools connect to a server, and its tools read a
data directory that Klamm wrote. The container image is built and run, and the page is opened in Chromium, too.

    python -m tools.toolchain_checks [--keep DIR] [--install] [--spark-cluster]

Exit code 0 if every check passed; the last line has the numbers of passed and failed checks. The checks with Kafka's
tools and brokers run in a process beside all others.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path

from tools.page_in_browser.checks import check_page
from tools.toolchain_checks.client_stories import check_client_stories
from tools.toolchain_checks.cluster_state import ClusterState, differences
from tools.toolchain_checks.config_command import check_config_command
from tools.toolchain_checks.container import check_container
from tools.toolchain_checks.docker_page import check_docker_page
from tools.toolchain_checks.dump_log_segments import compare_batches, compare_records, dump_segments
from tools.toolchain_checks.ending import differences_from_ending, missing_from
from tools.toolchain_checks.frameworks import check_frameworks
from tools.toolchain_checks.fuzzers import check_fuzzers
from tools.toolchain_checks.group_tools import check_group_tools
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.kafka_jars import fetch_class_path, find_program
from tools.toolchain_checks.message_classes import check_message_classes
from tools.toolchain_checks.metadata_shell import ask_shell
from tools.toolchain_checks.other_languages import check_other_languages
from tools.toolchain_checks.own_log import OwnLog, decode_log
from tools.toolchain_checks.partition_tools import check_partition_tools
from tools.toolchain_checks.pipeline_cluster import check_pipeline_cluster
from tools.toolchain_checks.pipeline_oracle import check_pipeline_oracle
from tools.toolchain_checks.pytest_project import check_pytest_project
from tools.toolchain_checks.real_brokers import check_real_brokers
from tools.toolchain_checks.real_controller import (
    RealController,
    ask_about_topics,
    ask_who,
    have_it_work,
    real_controller,
)
from tools.toolchain_checks.reassign_tool import check_reassign_tool
from tools.toolchain_checks.report import Report, expect, expect_none
from tools.toolchain_checks.security_clients import check_security_clients
from tools.toolchain_checks.share_tools import check_share_tools
from tools.toolchain_checks.side_by_side import beside
from tools.toolchain_checks.snapshots import check_snapshots
from tools.toolchain_checks.story import Ending, play_story
from tools.toolchain_checks.streams_tools import check_streams_tools

MIN_SEGMENTS = 2
RUNS = 3
KAFKA_PART = "kafka-tools"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/toolchain", allow_abbrev=False)
    parser.add_argument("--keep", metavar="DIR", type=Path, help="a new directory for all files, which are kept")
    parser.add_argument("--install", action="store_true", help="install packages for building an image (apt-get)")
    parser.add_argument(
        "--spark-cluster", action="store_true", help="also run the pipeline on a Spark cluster (minutes)"
    )
    parser.add_argument("--part", choices=(KAFKA_PART,), help=argparse.SUPPRESS)
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
        if given.part == KAFKA_PART:
            check_kafka_part(report, Java(find_program("java", "default-jre-headless"), fetch_class_path(), folder))
        else:
            check_all(report, folder, install=given.install, spark_cluster=given.spark_cluster)
    return report.close()


def check_kafka_part(report: Report, java: Java) -> None:
    """Kafka's classes, its command line tools and its brokers."""
    check_message_classes(report, java)
    check_config_command(report, java)
    check_partition_tools(report, java)
    check_group_tools(report, java)
    check_streams_tools(report, java)
    check_share_tools(report, java)
    check_reassign_tool(report, java)
    check_real_brokers(report, java, java.folder / "real-brokers")
    check_pipeline_oracle(report, java)


def check_all(report: Report, folder: Path, *, install: bool, spark_cluster: bool) -> None:
    """Make every possible check; `install` lets Debian install missing programs. Those on a Spark cluster take minutes,
    and are only made on request."""
    java: Java | None = None
    with report.check("java and Apache Kafka's jars are there"):
        java = Java(find_program("java", "default-jre-headless"), fetch_class_path(), folder)
    part = (sys.executable, "-P", "-m", "tools.toolchain_checks", "--part", KAFKA_PART, "--keep")
    with beside(report, KAFKA_PART, (*part, str(folder / KAFKA_PART))) if java is not None else nullcontext():
        check_others(report, java, folder, install=install, spark_cluster=spark_cluster)


def check_others(report: Report, java: Java | None, folder: Path, *, install: bool, spark_cluster: bool) -> None:
    """Clients and frameworks in other languages, packages, images, fuzzers, and Kafka's readers of a log of ours."""
    ending: Ending | None = None
    log: OwnLog | None = None
    check_client_stories(report, java)
    check_security_clients(report, java, folder / "security")
    check_frameworks(report, java, folder / "frameworks")
    check_other_languages(report, java, folder / "languages")
    check_docker_page(report, folder / "docker")
    check_container(report, install=install)
    check_page(report, install=install)
    check_pytest_project(report, folder / "pytest")
    check_fuzzers(report, folder / "fuzzing")
    data_dir = folder / "data"
    with report.check(f"a log of a cluster's story is written, in {RUNS} runs"):
        ending = play_story(data_dir, folder / "requests.jsonl")
        expect_none(missing_from(ending), "what it does not end with")
    if ending is None:
        return
    with report.check("the log has every kind of record and change that Klamm writes, in several segments"):
        log = decode_log(data_dir)
        expect_none(log.missing_kinds(), "kinds that do not occur")
        expect(len(log.segments) >= MIN_SEGMENTS, f"only {len(log.segments)} segments")
        expect(log.leader_epoch == RUNS, f"epoch {log.leader_epoch} after {RUNS} runs")
    if log is None or java is None:
        return
    if spark_cluster:
        check_pipeline_cluster(report, folder / "pipeline", data_dir)
    ours = ClusterState()
    with report.check("our own replay of the log gives what clients were shown"):
        ours = log.replayed()
        expect_none(differences_from_ending(ours, ending), "differences")
    check_dump(report, java, log, ending)
    check_shell(report, java, log, ours, ending)
    check_controller(report, java, data_dir, log, ours, ending)
    check_snapshots(report, java, data_dir)


def check_dump(report: Report, java: Java, log: OwnLog, ending: Ending) -> None:
    """DumpLogSegments reads every segment, with the content that Klamm wrote."""
    dump = None
    with report.check("DumpLogSegments finds nothing invalid, skipped or torn in any segment"):
        dump = dump_segments(java, log.segments)
        expect_none(dump.complaints, "complaints")
    if dump is None:
        return
    with report.check(f"DumpLogSegments counts the {log.record_count} records that we count, up to the server's end"):
        counted = sum(1 for _ in dump.records())
        expect(counted == log.record_count, f"it counts {counted}")
        expect(counted == ending.log_end_offset, f"the server's log ended at {ending.log_end_offset}")
    with report.check("every batch has the offsets, epoch, kind, time and size to Kafka that it has to us"):
        compare_batches(dump, log)
    with report.check("every record has the type, version and content to Kafka that it has to us"):
        compare_records(dump, log)


def check_shell(report: Report, java: Java, log: OwnLog, ours: ClusterState, ending: Ending) -> None:
    """The image of MetadataShell is that of Klamm."""
    shell = None
    with report.check("MetadataShell makes the image of the log that we make"):
        shell = ask_shell(java, log)
        expect_none(differences(ours, shell, "the shell"), "differences")
    if shell is not None:
        with report.check("MetadataShell has the brokers, topics, partitions and configs that clients were shown"):
            expect_none(differences_from_ending(shell, ending), "differences")


def check_controller(
    report: Report, java: Java, data_dir: Path, log: OwnLog, ours: ClusterState, ending: Ending
) -> None:
    """A real controller continues Klamm's log."""
    whole_run = "a real 4.3 controller runs on a copy of the data directory until it is stopped"
    with report.check(whole_run), real_controller(java, data_dir) as controller:
        active = False
        with report.check("the real controller takes over the log, in the next epoch, at its end"):
            reported = controller.await_active()
            wanted = (log.leader_epoch + 1, log.end_offset + 1)  # Its LeaderChange is first.
            expect(reported == wanted, f"epoch and next offset are {reported}, not {wanted}")
            active = True
        if active:
            _question(report, controller, ours, ending)
        with report.check("the real controller met no fault"):
            expect_none(controller.faults(), "faults")
        controller.process.stop()


def _question(report: Report, controller: RealController, ours: ClusterState, ending: Ending) -> None:
    with report.check("the real controller's own snapshot holds the image that we have, partition by partition"):
        expect_none(differences(ours, controller.await_snapshot(), "its snapshot"), "differences")
    with report.check("the real controller answers for our cluster id"):
        answer = ask_who(controller)
        expect(answer.cluster_id == ending.cluster.cluster_id, f"it answers for {answer.cluster_id}")
    with report.check("the real controller answers with our topics, partition counts and configs"):
        ask_about_topics(controller, ending)
    with report.check("the real controller makes a topic on our brokers, and deletes one of ours by its id"):
        have_it_work(controller, ending)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
