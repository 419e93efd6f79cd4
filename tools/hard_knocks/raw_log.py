"""Reads the metadata log's files after a crash, before a server has repaired them.

It shares only the decoding of batches with the server. Which files there are, where each batch begins, which batch may
follow which, and how much may be missing at the end is checked here independently, by the rules of KRaft's format.
Bytes that were once complete must never change, and a snapshot must agree with the log.
"""

from dataclasses import dataclass, field
from pathlib import Path

from klamm.controller.metadata.image import TOPIC_RESOURCE, MetadataImage
from klamm.controller.metadata.replay import ReplayError, replay
from klamm.protocol.record_batch import Batch, CorruptBatch, decode_batch, decode_batches
from klamm.protocol.records.control import SnapshotFooterRecord, SnapshotHeaderRecord
from tools.hard_knocks.facts import Topic, Topics, differences

LOG_FOLDER = "__cluster_metadata-0"
OFFSET_DIGITS = 20


class BadLog(Exception):
    """The log has a state that no crash can leave: one line."""


@dataclass(frozen=True, slots=True)
class RawSnapshot:
    """The content of a `.checkpoint` file."""

    name: str
    end_offset: int
    leader_epoch: int
    image: MetadataImage


@dataclass(slots=True)
class LogReader:
    """Reads one log repeatedly as it grows, and keeps the image of what it has read."""

    data_dir: Path
    image: MetadataImage = field(default_factory=MetadataImage)
    end_offset: int = 0
    leader_epoch: int = 0
    snapshots: int = 0
    """The number of snapshots that were compared with the log, or replaced it."""
    _first_offset: int = 0
    """The end offset of the snapshot from which the last reading had to continue."""
    _seen: dict[int, bytes] = field(default_factory=dict)
    """By base offset of the segment: the bytes that were complete at the last reading."""
    _known_snapshots: set[str] = field(default_factory=set)
    _new_snapshots: dict[int, RawSnapshot] = field(default_factory=dict)
    """By end offset."""

    def read_on(self) -> int:
        """Read what has been added. Returns the number of incomplete bytes at the end. Raises BadLog."""
        self._read_snapshots()
        segments = self._segments()
        if segments and segments[0][0] > self.end_offset:
            self._begin_with_snapshot(segments[0][0])
        torn_bytes = 0
        for number, (base_offset, data) in enumerate(segments):
            known = self._seen.get(base_offset, b"")
            if not data.startswith(known):
                raise BadLog(f"segment {base_offset} has changed within the {len(known)} bytes that were whole")
            if base_offset > self.end_offset:
                raise BadLog(f"segment {base_offset} follows offset {self.end_offset}")
            whole = self._read_segment(base_offset, data, len(known))
            self._seen[base_offset] = data[:whole]
            torn_bytes = len(data) - whole
            if torn_bytes and any(later for _, later in segments[number + 1 :]):
                raise BadLog(f"segment {base_offset} ends with half a batch, and another segment follows")
            if torn_bytes:
                break
        self._compare_with_snapshot()
        if self._new_snapshots:
            name = min(self._new_snapshots.values(), key=lambda snapshot: snapshot.end_offset).name
            raise BadLog(f"snapshot {name} ends where no batch does: the log goes up to {self.end_offset}")
        return torn_bytes

    def _read_snapshots(self) -> None:
        for path in sorted((self.data_dir / LOG_FOLDER).glob("*.checkpoint")):
            if path.name not in self._known_snapshots:
                snapshot = read_snapshot(path)
                self._known_snapshots.add(path.name)
                self._new_snapshots[snapshot.end_offset] = snapshot

    def _segments(self) -> list[tuple[int, bytes]]:
        found = [
            (int(path.stem), path.read_bytes())
            for path in sorted((self.data_dir / LOG_FOLDER).glob("*.log"))
            if len(path.stem) == OFFSET_DIGITS and path.stem.isdigit()
        ]
        present = {base_offset for base_offset, _ in found}
        for base_offset in sorted(self._seen.keys() - present):
            # Its last offset is unknown, but the next batch has its base offset.
            following = min((other for other in self._seen.keys() | present if other > base_offset), default=None)
            if self._seen[base_offset] and (following is None or following > self._newest_snapshot()):
                raise BadLog(f"segment {base_offset} is not there any more, and no snapshot stands for it")
            del self._seen[base_offset]
        return found

    def _newest_snapshot(self) -> int:
        names = [path.name for path in (self.data_dir / LOG_FOLDER).glob("*.checkpoint")]
        return max((int(name[:OFFSET_DIGITS]) for name in names), default=0)

    def _begin_with_snapshot(self, first_offset: int) -> None:
        """A part of what was written since the last reading is gone; a snapshot replaces it."""
        reaching = [end_offset for end_offset in self._new_snapshots if end_offset >= first_offset]
        if not reaching:
            raise BadLog(f"offsets {self.end_offset} to {first_offset - 1} are not there, and no snapshot is, either")
        snapshot = self._new_snapshots[min(reaching)]
        self._new_snapshots = {end: newer for end, newer in self._new_snapshots.items() if end > snapshot.end_offset}
        self.image = snapshot.image
        self.end_offset, self.leader_epoch = snapshot.end_offset, snapshot.leader_epoch
        self._first_offset = snapshot.end_offset
        self.snapshots += 1

    def _read_segment(self, base_offset: int, data: bytes, position: int) -> int:
        """Read from `position` on. Returns where the complete part ends."""
        while position < len(data):
            try:
                batch = decode_batch(data, position)
            except CorruptBatch as error:
                if error.torn:
                    return position
                raise BadLog(f"segment {base_offset}, byte {position}: {error.reason}") from error
            if batch.base_offset >= self._first_offset:  # The offsets below were read from a snapshot.
                self._follow(f"segment {base_offset}, byte {position}", batch)
            position += batch.size_bytes
        return position

    def _follow(self, where: str, batch: Batch) -> None:
        self._compare_with_snapshot()
        if batch.base_offset != self.end_offset:
            raise BadLog(f"{where}: offset {batch.base_offset} where {self.end_offset} belongs")
        begins = batch.is_control and batch.leader_epoch > self.leader_epoch
        if batch.leader_epoch != self.leader_epoch and not begins:
            raise BadLog(f"{where}: epoch {batch.leader_epoch} within epoch {self.leader_epoch}")
        self.end_offset, self.leader_epoch = batch.last_offset + 1, batch.leader_epoch
        _replay(where, self.image, batch)

    def _compare_with_snapshot(self) -> None:
        snapshot = self._new_snapshots.pop(self.end_offset, None)
        if snapshot is None:
            return
        if snapshot.leader_epoch != self.leader_epoch:
            raise BadLog(f"snapshot {snapshot.name} ends in epoch {self.leader_epoch}")
        if found := differences(topics_of(self.image), topics_of(snapshot.image)):
            raise BadLog(f"snapshot {snapshot.name} says otherwise than the log: {found[0]}")
        if snapshot.image.brokers.keys() != self.image.brokers.keys():
            raise BadLog(f"snapshot {snapshot.name} has other brokers than the log: {sorted(snapshot.image.brokers)}")
        self.snapshots += 1


def read_snapshot(path: Path) -> RawSnapshot:
    """Read a snapshot with its final name, which has to be complete. Raises BadLog if it is not."""
    end_offset, epoch = (int(number) for number in path.stem.split("-"))
    image = MetadataImage()
    try:
        batches = list(decode_batches(path.read_bytes()))
    except CorruptBatch as error:
        raise BadLog(f"snapshot {path.name}, byte {error.position}: {error.reason}") from error
    ends = [type(batch.records[0]) for batch in batches if batch.is_control]
    if not batches or not batches[-1].is_control or ends != [SnapshotHeaderRecord, SnapshotFooterRecord]:
        raise BadLog(f"snapshot {path.name} is not between a header and a footer")
    for batch in batches:
        _replay(f"snapshot {path.name}", image, batch)
    return RawSnapshot(path.name, end_offset, epoch, image)


def _replay(where: str, image: MetadataImage, batch: Batch) -> None:
    try:
        if not batch.is_control:
            replay(image, batch.records, batch.base_offset)
    except ReplayError as error:
        raise BadLog(f"{where}: {error}") from error


def topics_of(image: MetadataImage) -> Topics:
    """All topics of an image as complete facts."""
    found: dict[str, Topic] = {}
    for topic in image.topics_by_name.values():
        partitions = [image.partitions.read(topic.row, index) for index in range(image.partition_count(topic))]
        targets = tuple(
            tuple(broker for broker in partition.replicas if broker not in partition.removing_replicas)
            for partition in partitions
        )
        configs = image.config(TOPIC_RESOURCE, topic.name)
        found[topic.name] = Topic(str(topic.topic_id), targets, tuple(sorted(configs.items())))
    return found
