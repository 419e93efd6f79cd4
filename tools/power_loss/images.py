"""Directories that a loss of power leaves, and what a start makes of each: what was promised has to be there."""

import pickle
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from klamm.controller.core import Controller
from klamm.controller.log import LogError, SegmentLog
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.replay import replay
from klamm.protocol.record_batch import BatchBuilder
from klamm.protocol.record_versions import LATEST_METADATA_VERSION
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tools.power_loss.disk import Disk, lay_down
from tools.power_loss.fates import PAGE_BYTES, random_fate
from tools.power_loss.history import DiskState, Picture
from tools.power_loss.workload import DATA_DIR, SETTINGS, Promise, Workload, open_log

IN_MEMORY = Path("/dev/shm")
ADDED = TopicRecord(name="added-by-a-start", topic_id=Uuid(bytes(range(16))))


@dataclass
class Findings:
    """The results of some workloads."""

    images: int = 0
    holes: int = 0
    """Starts that cut off a valid batch after a hole; it was not durable."""
    torn: int = 0
    """Other starts that cut off the end of the log."""
    faults: list[str] = field(default_factory=list)

    def add(self, other: "Findings") -> None:
        """Add the counts of `other`."""
        self.images += other.images
        self.holes += other.holes
        self.torn += other.torn
        self.faults += other.faults


def try_workload(seed: int, number: int, images: int) -> Findings:
    """Play one workload, let the power fail at `images` points, and start on the remains each time."""
    findings = Findings()
    random = Random(f"{seed} {number}")
    with _folder() as folder:
        workload = Workload(Disk(folder), random)
        with workload.disk.watched():
            workload.play()
        weights = [1 + _unsynced_pages(state) for _, state in workload.disk.states()]
        first = workload.disk.now + 1 - len(weights)
        points = sorted(first + point for point in random.choices(range(len(weights)), weights, k=images))
        for point, state in workload.disk.states():
            while points and points[0] <= point:
                points.pop(0)
                picture = state.picture(random_fate(state, random))
                fault = _start_on(picture, workload, workload.promised_at(point), findings)
                findings.images += 1
                if fault is not None:
                    findings.faults.append(f"workload {number}, before operation {point}: {fault}")
    return findings


def _unsynced_pages(state: DiskState) -> int:
    """How many pages of files a power failure may take. Points with many are the most revealing ones."""
    return sum(state.unsynced_bytes(one.file) // PAGE_BYTES for one in state.pending_files)


def _start_on(picture: Picture, workload: Workload, promise: Promise, findings: Findings) -> str | None:
    """What is wrong with the result of a start; None: nothing."""
    with _folder() as folder:
        lay_down(folder / "machine", picture)
        data_dir = folder / "machine" / DATA_DIR
        warnings: list[str] = []
        try:
            log = open_log(data_dir, 1 << 20, warnings)
        except LogError as error:
            return f"refused: {error}"
        findings.holes += any("sound batch" in warning for warning in warnings)
        findings.torn += any("torn tail" in warning and "sound batch" not in warning for warning in warnings)
        try:
            fault = _compare(log, workload, promise)
            Controller(SETTINGS, log, lambda: 1_700_000_000_000)
            batch = BatchBuilder(LATEST_METADATA_VERSION)
            batch.add([ADDED])
            log.append_batch(batch, 1_700_000_000_000)
            log.sync()
            end_offset = log.end_offset
        finally:
            log.close()
        return fault or _start_again(data_dir, end_offset)


def _compare(log: SegmentLog, workload: Workload, promise: Promise) -> str | None:
    end_offset = log.end_offset - 1  # of the LeaderChange, which is new
    if end_offset < promise.end_offset:
        return f"the log ends at offset {end_offset}, and {promise.end_offset} was promised"
    if log.leader_epoch <= promise.leader_epoch:
        return f"epoch {log.leader_epoch} begins, and {promise.leader_epoch} was used"
    if end_offset not in workload.facts and end_offset > 0:
        return f"the log ends at offset {end_offset}, where it never ended"
    known = pickle.loads(workload.facts[end_offset]) if end_offset else MetadataImage().facts()
    return None if _facts_of(log) == known else f"the metadata at offset {end_offset} is not what it was"


def _facts_of(log: SegmentLog) -> object:
    image = MetadataImage()
    for batches in (log.read_snapshot(), log.read()):
        for batch in batches:
            if not batch.is_control:
                replay(image, batch.contents, batch.base_offset)
    return image.facts()


def _start_again(data_dir: Path, end_offset: int) -> str | None:
    """A start that finds what the one before it has synced, without warnings."""
    warnings: list[str] = []
    try:
        log = open_log(data_dir, 1 << 20, warnings)
    except LogError as error:
        return f"the second start is refused: {error}"
    try:
        if log.end_offset != end_offset + 1:
            return f"the second start finds offset {log.end_offset - 1} as the end, and it was {end_offset}"
    finally:
        log.close()
    return f"the second start says: {warnings[0]}" if warnings else None


@contextmanager
def _folder() -> Iterator[Path]:
    """A directory whose syncs cost nothing, if there is such a place."""
    folder = Path(tempfile.mkdtemp(prefix="klamm-power-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
