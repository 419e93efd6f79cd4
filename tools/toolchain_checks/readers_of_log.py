"""Apache Kafka's readers of a log of Klamm: a cluster's story is written, and DumpLogSegments, MetadataShell and a real
controller must read of it what Klamm does. The pipeline runs on it on a Spark cluster, on request.
"""

from pathlib import Path

from tools.toolchain_checks.cluster_state import ClusterState, differences
from tools.toolchain_checks.dump_log_segments import compare_batches, compare_records, dump_segments
from tools.toolchain_checks.ending import differences_from_ending, missing_from
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.metadata_shell import ask_shell
from tools.toolchain_checks.own_log import OwnLog, decode_log
from tools.toolchain_checks.pipeline_cluster import check_pipeline_cluster
from tools.toolchain_checks.real_controller import (
    RealController,
    ask_about_topics,
    ask_who,
    have_it_work,
    real_controller,
)
from tools.toolchain_checks.report import Report, expect, expect_none
from tools.toolchain_checks.snapshots import check_snapshots
from tools.toolchain_checks.story import Ending, play_story

MIN_SEGMENTS = 2
RUNS = 3


def check_readers_of_log(report: Report, java: Java | None, folder: Path, *, spark_cluster: bool) -> None:
    """Write the log, read it back, and have Kafka's programs read it; these need Java."""
    ending: Ending | None = None
    log: OwnLog | None = None
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
