"""The changes of partitions in a metadata log, in its order, and the state that results from them.

Left out is what no prediction can know: the ids of directories, which each cluster draws at random. Left out is also
one known difference: Apache Kafka leaves a replica that a reassignment removes among the eligible leader replicas
(docs/known-differences.md).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from klamm import TopicPartition
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import Partition, merge
from klamm.controller.metadata.replay import replay
from klamm.controller.restore import TRANSACTION_RECORDS
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import Batch, CorruptBatch, decode_batch
from klamm.protocol.records.cluster import NoOpRecord
from klamm.protocol.records.partitions import ClearElrRecord, PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import ZERO_UUID, Uuid


@dataclass(frozen=True, slots=True)
class State:
    """What is compared after a step."""

    partitions: dict[TopicPartition, Partition]
    """Without partition epochs, which count the changes; these are compared one by one. In uneven topics without the
    eligible leader replicas."""
    uneven: frozenset[str] = field(compare=False)
    """The topics whose partitions have different numbers of replicas."""
    stale: frozenset[TopicPartition] = field(compare=False)
    """The partitions with an eligible leader replica that is no replica any more."""
    brokers: dict[int, tuple[bool, bool]]
    """Whether each broker is fenced, and whether it is in controlled shutdown."""
    configs: dict[Any, dict[str, str]]


def state_of(image: MetadataImage) -> State:
    """The state of a cluster."""
    partitions = {one: replace(found, partition_epoch=0) for one, found in _partitions(image).items()}
    counts: dict[str, set[int]] = {}
    for one, found in partitions.items():
        counts.setdefault(one.topic_name, set()).add(len(found.replicas))
    uneven = frozenset(name for name, found in counts.items() if len(found) > 1)
    return State(
        {one: without_elr(found) if one.topic_name in uneven else found for one, found in partitions.items()},
        uneven,
        _with_removed_leaders(image),
        {one.broker_id: (one.fenced, one.in_controlled_shutdown) for one in image.brokers.values()},
        {key: dict(found) for key, found in image.configs.items() if found},
    )


def _with_removed_leaders(image: MetadataImage) -> frozenset[TopicPartition]:
    found = set()
    for key, (eligible, _) in image.partitions.elr.items():
        if set(eligible) - set(image.partitions.read(*key).replicas):
            found.add(TopicPartition(image.topics_by_row[key.topic_row].name, key.partition_index))
    return frozenset(found)


def without_elr(partition: Partition) -> Partition:
    """The partition as if it had no eligible leader replicas."""
    return replace(partition, eligible_leader_replicas=(), last_known_elr=())


def _partitions(image: MetadataImage) -> dict[TopicPartition, Partition]:
    return {
        TopicPartition(name, index): _plain(image.partitions.read(topic.row, index))
        for name, topic in sorted(image.topics_by_name.items())
        for index in range(image.partition_count(topic))
    }


def _plain(partition: Partition) -> Partition:
    return replace(
        partition,
        directories=(),
        eligible_leader_replicas=tuple(one for one in partition.eligible_leader_replicas if one in partition.replicas),
    )


@dataclass(slots=True)
class Changes:
    """Follows the records of one log: the image, and what each partition became, one after the other, since `forget`.

    The first state of a partition is the one that it had then, unless it is new. Partition epochs count from there."""

    image: MetadataImage = field(default_factory=MetadataImage)
    by_partition: dict[TopicPartition, list[Partition]] = field(default_factory=dict)
    records: int = 0
    """How many records that say something were seen."""
    _names: dict[Uuid, str] = field(default_factory=dict)
    """Also those of topics that were deleted since."""

    def forget(self) -> None:
        """Begin anew with the changes."""
        self.by_partition = {one: [replace(found, partition_epoch=0)] for one, found in _partitions(self.image).items()}
        self._names = {topic.topic_id: topic.name for topic in self.image.topics_by_name.values()}

    def take(self, batch: Batch) -> None:
        """Apply a batch."""
        if not batch.is_control:
            # The first records of a log are a transaction, which Kafka's controller always ends.
            contents = [one for one in batch.contents if type(one) not in TRANSACTION_RECORDS]
            replay(self.image, contents, batch.base_offset)
            self.note(batch.records)

    def note(self, records: Sequence[Message]) -> None:
        """Note what the records of a batch say, which is in the image."""
        for record in records:
            self.records += not isinstance(record, NoOpRecord)
            match record:
                case TopicRecord():
                    self._names[record.topic_id] = record.name
                case PartitionRecord():
                    found = self.by_partition.setdefault(self._of(record), [])
                    found.append(_plain(_new(record)))
                case PartitionChangeRecord():
                    states = self.by_partition[self._of(record)]
                    states.append(_merged(states[-1], record))
                case ClearElrRecord():
                    self._clear_elr(record.topic_name)
                case _:
                    pass

    def changes(self) -> int:
        """How many changes there were."""
        return sum(len(states) - 1 for states in self.by_partition.values())

    def _of(self, record: PartitionRecord | PartitionChangeRecord) -> TopicPartition:
        return TopicPartition(self._names[record.topic_id], record.partition_id)

    def _clear_elr(self, topic_name: str) -> None:
        for partition, states in self.by_partition.items():
            last = states[-1]
            is_meant = not topic_name or partition.topic_name == topic_name
            if is_meant and (last.eligible_leader_replicas or last.last_known_elr):
                cleared = replace(last, eligible_leader_replicas=(), last_known_elr=())
                states.append(replace(cleared, partition_epoch=last.partition_epoch + 1))


def _merged(partition: Partition, change: PartitionChangeRecord) -> Partition:
    # `merge` wants one directory for each replica.
    unknown = replace(partition, directories=(ZERO_UUID,) * len(partition.replicas))
    return _plain(merge(unknown, change))


def _new(record: PartitionRecord) -> Partition:
    return Partition(
        replicas=tuple(record.replicas),
        isr=tuple(record.isr),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        directories=(),
        leader_recovery_state=record.leader_recovery_state,
        adding_replicas=tuple(record.adding_replicas),
        removing_replicas=tuple(record.removing_replicas),
        eligible_leader_replicas=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
    )


class LogTail:
    """Reads the growing log of a controller's folder, from its first segment on."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"{0:020}.log"
        self._position = 0
        self.end_offset = 0

    def read(self) -> Iterator[Batch]:
        """The whole batches that were written since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        at = 0
        while at < len(data):
            try:
                batch = decode_batch(data, at)
            except CorruptBatch as error:
                if not error.torn:
                    raise
                return  # The controller is writing it.
            at += batch.size_bytes
            self._position += batch.size_bytes
            self.end_offset = batch.last_offset + 1
            yield batch
