"""Stories of a data directory on a disk that loses unsynced data: its operations, the promises on the way, and what a
start finds after the power failed. A story writes topics with growing numbers, so a start must find the first of them,
without a gap. Whenever the code reports something as durable, the story stores it with `promise`: each start from that
point on has to find it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from klamm.broker.log_end_offsets import LogEndOffsets, load_log_end_offsets
from klamm.controller.log import SegmentLog
from klamm.protocol.record_batch import Batch, decode_batches
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.controller.log.logs import TIMESTAMP_MS, append_records, memory_dir, open_log
from tools.power_loss.disk import Disk, lay_down
from tools.power_loss.history import Picture

KEY = (Uuid(bytes(range(16))), 0)
"""The partition whose log end offset is stored."""
OTHER_DIRECTORY_ID = Uuid(bytes(range(50, 66)))
"""What a start would call a directory without an id."""


def topic(number: int) -> TopicRecord:
    return TopicRecord(name=f"t{number}", topic_id=Uuid(number.to_bytes(16, "big")))


def numbers(batches: Iterator[Batch]) -> list[int]:
    return [int(record.name[1:]) for batch in batches for record in batch.records if isinstance(record, TopicRecord)]


@dataclass(frozen=True, slots=True)
class Facts:
    """The content of a directory: promised at a point of a story, or found by a start."""

    cluster_id: str | None = None
    directory_id: Uuid | None = None
    leader_epoch: int = 0
    """The highest epoch that was used before the start."""
    topics: int = 0
    """The number of topics, from topic 0 on."""
    end_offset: int = 0
    snapshot_end: int = 0
    kept_log_end: int = 0


@dataclass
class Story:
    """A data directory below `root`, the log in it while it is open, and the promises."""

    root: Path
    data_dir: Path
    disk: Disk
    promises: list[tuple[int, Facts]] = field(default_factory=list)
    """Each promise with the point of the history at which it was given."""
    written: int = 0
    promised: Facts = Facts()
    _log: SegmentLog | None = None
    _ends: LogEndOffsets | None = None

    @property
    def log(self) -> SegmentLog:
        assert self._log is not None, "a start comes first"
        return self._log

    def start(self, segment_bytes: int = 1 << 30) -> None:
        """Also after `kill`. What a start reads is durable when the start returns."""
        self._log = open_log(self.data_dir, warn=lambda _: None, segment_bytes=segment_bytes)
        self.written = max([-1, *numbers(self.log.read_snapshot()), *numbers(self.log.read())]) + 1
        self.promise(
            cluster_id=self.log.cluster_id, directory_id=self.log.directory_id, leader_epoch=self.log.leader_epoch
        )
        self.promise_what_is_durable()

    def append(self, batches: int = 1) -> None:
        for _ in range(batches):
            append_records(self.log, [topic(self.written)], TIMESTAMP_MS)
            self.written += 1

    def sync(self) -> None:
        self.log.sync()
        self.promise_what_is_durable()

    def promise_what_is_durable(self) -> None:
        """Everything that the log reports as durable, whatever was synced."""
        durable = self.log.durable_offset
        below = [batch for batch in self.log.read() if batch.last_offset < durable]
        topics = max([-1, *numbers(self.log.read_snapshot()), *numbers(iter(below))]) + 1
        self.promise(topics=topics, end_offset=durable)
        self.promise_what_readers_see()

    def promise_what_readers_see(self) -> None:
        """Readers may have copied what they saw: no start may lack it."""
        reader = self.log.reader()
        shown = decode_batches(reader.read(reader.start_offset, 1 << 30))
        snapshots = [decode_batches(reader.read_snapshot(one, 0, 1 << 30).data) for one in reader.snapshots]
        self.promise(
            topics=max([-1, *numbers(shown), *(number for one in snapshots for number in numbers(one))]) + 1,
            end_offset=reader.end_offset,
            snapshot_end=max([0, *(one.end_offset for one in reader.snapshots)]),
        )

    def snapshot(self, *, roll: bool = True) -> None:
        place = self.log.begin_snapshot(roll=roll)
        place.write([[topic(number) for number in range(self.written)]], TIMESTAMP_MS)
        self.promise(snapshot_end=place.end_offset)
        self.promise_what_readers_see()

    def keep_log_end(self, offset: int) -> None:
        """Reserve offsets up to this one. At a multiple of 100, the reservations are replaced."""
        if self._ends is None:
            self._ends = LogEndOffsets(self.data_dir)
        if offset % 100:
            self._ends.append([(KEY, offset)])
        else:
            self._ends.replace([(KEY, offset)])
        self.promise(kept_log_end=offset)

    def kill(self) -> None:
        """The process dies and the machine runs on: nothing is synced."""
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._ends is not None:
            self._ends.close()
            self._ends = None

    def promise(self, **facts: object) -> None:
        self.promised = replace(self.promised, **facts)  # type: ignore[arg-type]
        self.promises.append((self.disk.now, self.promised))

    def promised_at(self, point: int) -> Facts:
        """What every start from this point on must find."""
        return next((facts for at, facts in reversed(self.promises) if at <= point), Facts())

    def find_after(self, picture: Picture) -> Facts:
        """What a start finds in such a directory. It also continues the log, and starts once more. Raises LogError."""
        with memory_dir() as root:
            shutil.rmtree(root)
            lay_down(root, picture)
            return _started_twice(root / self.data_dir.relative_to(self.root))


def _started_twice(data_dir: Path) -> Facts:
    log = open_log(data_dir, warn=lambda _: None, new_directory_id=OTHER_DIRECTORY_ID)
    try:
        found = numbers(log.read_snapshot()) + numbers(log.read())
        assert found == list(range(len(found))), "they are the first ones, without a gap"
        facts = Facts(
            cluster_id=log.cluster_id,
            directory_id=log.directory_id,
            leader_epoch=log.leader_epoch - 1,
            topics=len(found),
            end_offset=log.end_offset - 1,
            snapshot_end=log.snapshot.end_offset if log.snapshot else 0,
            kept_log_end=load_log_end_offsets(data_dir).get(KEY, 0),
        )
        append_records(log, [topic(len(found))], TIMESTAMP_MS)
        log.sync()
    finally:
        log.close()
    log = open_log(data_dir)  # a warning would fail here
    try:
        assert numbers(log.read_snapshot()) + numbers(log.read()) == [*found, len(found)]
    finally:
        log.close()
    return facts


def lacking(found: Facts, promised: Facts) -> list[str]:
    """Promises that are not kept."""
    lacks = [
        f"{name}: {getattr(found, name)}, and {getattr(promised, name)} was promised"
        for name in ("leader_epoch", "topics", "end_offset", "snapshot_end", "kept_log_end")
        if getattr(found, name) < getattr(promised, name)
    ]
    ours = (promised.cluster_id, promised.directory_id)
    if ours not in ((None, None), (found.cluster_id, found.directory_id)):
        lacks.append(f"the directory was {ours}'s")
    return lacks


@contextmanager
def new_story(data_dir: str = "data", prepare: Callable[[Path], None] | None = None) -> Iterator[Story]:
    """`prepare` makes the data directory before the story begins; all of that is durable."""
    with memory_dir() as root:
        if prepare is not None:
            prepare(root / data_dir)
        story = Story(root, root / data_dir, Disk(root))
        with story.disk.watched():
            try:
                yield story
            finally:
                story.kill()
