"""Controllers on the log of a data directory, for tests of what a start reads from it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from klamm.controller.core import Controller
from klamm.controller.log import SegmentLog
from klamm.controller.log.snapshot_files import SnapshotFile, list_snapshots
from klamm.controller.settings import Settings
from klamm.protocol.fields import Message
from klamm.protocol.records.topics import TopicRecord
from tests.controller.cluster_states import uuid_of
from tests.controller.log.logs import TIMESTAMP_MS, open_log
from tests.controller.snapshots import lasting_facts

FOLDER = "__cluster_metadata-0"


class Cluster:
    """A controller on the log of a data directory."""

    def __init__(self, log: SegmentLog) -> None:
        self.log = log
        self.controller = Controller(Settings(seed=1), self.log, lambda: TIMESTAMP_MS)

    def write(self, *records: Message) -> None:
        self.controller._commit(records)
        self.log.sync()

    def topic(self, number: int) -> None:
        self.write(TopicRecord(name=f"t{number}", topic_id=uuid_of(number)))

    def snapshot(self, *, roll: bool = True) -> None:
        pending = self.controller.begin_snapshot(roll=roll)
        assert pending is not None
        pending.write()

    def names(self) -> list[str]:
        return list(self.controller.image.topics_by_name)

    def facts(self) -> dict[str, object]:
        """Without the offset, which grows with each start."""
        return {**lasting_facts(self.controller.image), "next_offset": None}


@contextmanager
def started(
    data_dir: Path,
    warn: Callable[[str], None] | None = None,
    *,
    keep_history: bool = False,
    segment_bytes: int = 1 << 30,
) -> Iterator[Cluster]:
    cluster = Cluster(open_log(data_dir, warn=warn, keep_history=keep_history, segment_bytes=segment_bytes))
    try:
        yield cluster
    finally:
        cluster.log.close()


def names_after(data_dir: Path, warn: Callable[[str], None] | None = None) -> list[str]:
    with started(data_dir, warn) as cluster:
        return cluster.names()


def files(data_dir: Path) -> list[str]:
    """Segments by their base offset, snapshots by their end offset."""
    found = [
        f"{int(path.name[:20])}{path.suffix}"
        for path in (data_dir / FOLDER).iterdir()
        if path.suffix in (".log", ".checkpoint", ".part")
    ]
    return sorted(found, key=lambda name: (int(name.partition(".")[0]), name))


def snapshot_files(data_dir: Path) -> list[SnapshotFile]:
    return list_snapshots(data_dir / FOLDER)


BEGIN = 8  # LeaderChange, and the first records of a new cluster


def three_snapshots(data_dir: Path) -> None:
    """Topics 1 to 7, with snapshots after the first, the third and the fifth."""
    with started(data_dir) as cluster:
        for number in range(1, 8):
            cluster.topic(number)
            if number in (1, 3, 5):
                cluster.snapshot()


ALL = [f"t{number}" for number in range(1, 8)]
