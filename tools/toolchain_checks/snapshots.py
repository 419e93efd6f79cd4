"""Snapshots and Apache Kafka: MetadataShell reads one of Klamm's, a real controller starts from one, and Klamm starts
from a real one. The story's cluster continues on a copy of its data directory: it takes two snapshots, the second of
which shortens the log, and the later records are only in the log. So a start there needs both the snapshot and the rest
of the log."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import trio

from klamm import AdminClient, Cluster, NewTopic
from klamm.controller.core import Controller
from klamm.controller.log import SegmentLog
from klamm.controller.log.data_dir import LOG_FOLDER
from klamm.controller.log.segment_files import list_segments
from klamm.controller.log.snapshot_files import SnapshotFile, list_snapshots, read_snapshot
from klamm.controller.settings import Settings
from klamm.protocol.uuid import Uuid
from tools.toolchain_checks.cluster_state import ClusterState, differences, state_of_image
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.metadata_shell import ask_shell
from tools.toolchain_checks.outside_broker import OUTSIDE_TOPIC
from tools.toolchain_checks.own_log import OwnLog
from tools.toolchain_checks.real_controller import RealController, real_controller
from tools.toolchain_checks.report import Report, expect, expect_none
from tools.toolchain_checks.story import BROKERS, RACKS, SEED

NAME = "snapshot-controller"


@dataclass(frozen=True, slots=True)
class Start:
    """A data directory, as a start of Klamm finds it."""

    end_offset: int
    leader_epoch: int
    state: ClusterState


def check_snapshots(report: Report, java: Java, data_dir: Path) -> None:
    """Make every check of snapshots, on copies of the story's data directory."""
    copy = java.folder / "snapshot-data"
    start: Start | None = None
    with report.check("the cluster goes on, takes snapshots, and its log is shortened behind them"):
        shutil.copytree(data_dir, copy)
        trio.run(_go_on, copy)
        snapshots, segments = list_snapshots(copy / LOG_FOLDER), list_segments(copy / LOG_FOLDER)
        expect(len(snapshots) == 1, f"there are {len(snapshots)} snapshots, not one and what comes behind it")
        expect(segments[0].base_offset == snapshots[0].end_offset, f"the log begins with {segments[0].path.name}")
        start = _our_start(copy, java.folder / "our-start")
        expect("in-the-log-alone" in start.state.topic_ids, "the topic that was made last is missing")
    if start is None:
        return
    with report.check("MetadataShell makes the image of a snapshot that we make"):
        snapshot = list_snapshots(copy / LOG_FOLDER)[0]
        ours = _log_of(snapshot)
        expect_none(differences(ours.replayed(), ask_shell(java, ours), "the shell"), "differences")
    whole_run = "a real 4.3 controller starts from our snapshot and the log behind it"
    with report.check(whole_run), real_controller(java, copy, NAME) as controller:
        _question(report, controller, start)
        controller.process.stop()
    with report.check("we start from the real controller's snapshot, and have the image that we had"):
        theirs = _our_start(java.folder / f"{NAME}-data", java.folder / "their-start")
        expect(theirs.end_offset > start.end_offset, f"its log ends at {theirs.end_offset}")
        expect_none(differences(start.state, theirs.state, "its directory"), "differences")


def _question(report: Report, controller: RealController, start: Start) -> None:
    with report.check("the real controller goes on where snapshot and log end, in the next epoch"):
        reported = controller.await_active()
        wanted = (start.leader_epoch + 1, start.end_offset + 1)  # Its LeaderChange is first.
        expect(reported == wanted, f"epoch and next offset are {reported}, not {wanted}")
    with report.check("the real controller has the image that snapshot and log give us"):
        expect_none(differences(start.state, controller.await_snapshot(), "its snapshot"), "differences")
    with report.check("the real controller met no fault with our snapshot"):
        expect_none(controller.faults(), "faults")


async def _go_on(data_dir: Path) -> None:
    cluster = Cluster(brokers=BROKERS, racks=RACKS, seed=SEED, data_dir=data_dir, real_topics=OUTSIDE_TOPIC)
    async with cluster, AdminClient(cluster.bootstrap_servers) as admin:
        for name in ("below-both-snapshots", "between-the-snapshots"):
            await _make(admin, NewTopic(name, 5, 3, {"retention.ms": "7"}))
            await cluster.snapshot()
        await _make(admin, NewTopic("in-the-log-alone", 5, 3, {"retention.ms": "8"}))
        for deleted in await admin.delete_topics(["below-both-snapshots"]):
            deleted.raise_for_error()
    # A snapshot at the end would leave nothing to the log.
    list_snapshots(data_dir / LOG_FOLDER)[-1].path.unlink()


async def _make(admin: AdminClient, topic: NewTopic) -> None:
    (made,) = await admin.create_topics([topic])
    made.raise_for_error()


def _our_start(data_dir: Path, copy: Path) -> Start:
    """The image that Klamm makes of the directory; on a copy, because a start begins an epoch."""
    shutil.copytree(data_dir, copy)
    log = SegmentLog.open(
        copy, new_cluster_id="", new_directory_id=Uuid(bytes(range(16))), timestamp_ms=0, warn=lambda _: None
    )
    try:
        image = Controller(Settings(), log, lambda: 0).image
        return Start(log.end_offset - 1, log.leader_epoch - 1, state_of_image(image))
    finally:
        log.close()
        shutil.rmtree(copy)


def _log_of(snapshot: SnapshotFile) -> OwnLog:
    """A snapshot in the form of a log, as which the shell reads it; the shell ignores the footer."""
    *batches, _ = read_snapshot(snapshot)
    return OwnLog((snapshot.path,), tuple(batches))
