"""The committed offsets of the groups of one shard. Only replay changes them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from klamm.broker.coordinator.outbox import Outbox, Written
from klamm.protocol.records.coordinator.groups import OffsetCommitKey, OffsetCommitValue
from klamm.protocol.uuid import ZERO_UUID, Uuid

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """What a group has committed for one partition; times in ms."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    """When the offset expires whatever the group does (OffsetCommit v2 to v4 with a retention time); -1: never."""
    topic_id: Uuid
    """The id of the topic at the commit; zero: unknown."""
    record_offset: int
    """Where its record is."""

    def is_expired(self, since_ms: int, now_ms: int, retention_ms: int) -> bool:
        """Whether it is to be removed. `since_ms`: when the retention time of the group's offsets began."""
        if self.expire_timestamp_ms != NO_TIMESTAMP:
            return now_ms >= self.expire_timestamp_ms
        return now_ms - since_ms >= retention_ms


ByTopic: TypeAlias = dict[str, dict[int, CommittedOffset]]
"""By topic name and partition."""


@dataclass(slots=True)
class Offsets:
    """The offsets by group id, and those of open transactions (KIP-447)."""

    by_group: dict[str, ByTopic] = field(default_factory=dict)
    pending: dict[int, dict[str, ByTopic]] = field(default_factory=dict)
    """By producer id and group id: offsets of transactions that have not ended."""
    count: int = 0
    """The number of committed offsets."""
    pending_count: int = 0
    """The number of records of offsets that open transactions have."""
    _pending_counts: dict[int, int] = field(default_factory=dict)
    """The same by producer id."""

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """The committed offsets of a group."""
        return self.by_group.get(group_id, {})

    def find(self, group_id: str, topic_name: str, partition: int) -> CommittedOffset | None:
        """The committed offset of a partition; None: there is none."""
        return self.by_group.get(group_id, {}).get(topic_name, {}).get(partition)

    def is_pending(self, group_id: str, topic_name: str, partition: int) -> bool:
        """Whether an open transaction has an offset of the partition."""
        return any(partition in of_groups.get(group_id, {}).get(topic_name, {}) for of_groups in self.pending.values())

    def has_pending(self, group_id: str) -> bool:
        """Whether an open transaction has an offset of the group."""
        return any(of_groups.get(group_id) for of_groups in self.pending.values())

    # -- replay ----------------------------------------------------------------------------------------------------

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, written: Written) -> None:
        """Apply the record of one offset. A tombstone also removes pending ones."""
        if value is None:
            self._remove(self.by_group, key)
            for of_groups in self.pending.values():
                self._remove(of_groups, key, is_pending=True)
            return
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            written.offset,
        )
        if written.producer_id >= 0:
            self.pending_count += 1
            self._pending_counts[written.producer_id] = self._pending_counts.get(written.producer_id, 0) + 1
            self._put(self.pending.setdefault(written.producer_id, {}), key.group, key.topic, key.partition, committed)
        elif self._put(self.by_group, key.group, key.topic, key.partition, committed):
            self.count += 1

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Make the pending offsets of a producer the committed ones, unless newer ones were committed meanwhile, or
        drop them."""
        self.pending_count -= self._pending_counts.pop(producer_id, 0)
        for group_id, topics in self.pending.pop(producer_id, {}).items():
            for topic_name, partitions in topics.items() if committed else ():
                for partition, pending in partitions.items():
                    known = self.find(group_id, topic_name, partition)
                    if known is None or known.record_offset < pending.record_offset:
                        self.count += self._put(self.by_group, group_id, topic_name, partition, pending)

    @staticmethod
    def _put(by_group: dict[str, ByTopic], group_id: str, topic: str, partition: int, value: CommittedOffset) -> bool:
        partitions = by_group.setdefault(group_id, {}).setdefault(topic, {})
        is_new = partition not in partitions
        partitions[partition] = value
        return is_new

    def _remove(self, by_group: dict[str, ByTopic], key: OffsetCommitKey, *, is_pending: bool = False) -> None:
        topics = by_group.get(key.group, {})
        partitions = topics.get(key.topic, {})
        if partitions.pop(key.partition, None) is not None and not is_pending:
            self.count -= 1
        if not partitions:
            topics.pop(key.topic, None)
        if not topics:
            by_group.pop(key.group, None)

    # -- records ---------------------------------------------------------------------------------------------------

    def write_tombstones_of_group(self, group_id: str, out: Outbox) -> None:
        """Remove all offsets of a group, pending ones too."""
        places = [(topic, partition) for topic, found in self.of_group(group_id).items() for partition in found]
        for of_groups in self.pending.values():
            places += [
                (topic, partition) for topic, found in of_groups.get(group_id, {}).items() for partition in found
            ]
        for topic, partition in dict.fromkeys(places):
            write_tombstone(out, group_id, topic, partition)

    def places_of_topics(self, names: frozenset[str]) -> Iterator[tuple[str, str, int]]:
        """Group id, topic name and partition of every offset, committed or pending, of these topics."""
        for by_group in (self.by_group, *self.pending.values()):
            for group_id, topics in by_group.items():
                for topic in names & topics.keys():
                    for partition in topics[topic]:
                        yield group_id, topic, partition


def write_offset(
    out: Outbox,
    group_id: str,
    topic: str,
    partition: int,
    offset: int,
    *,
    leader_epoch: int,
    metadata: str,
    now_ms: int,
    expire_timestamp_ms: int = NO_TIMESTAMP,
    topic_id: Uuid = ZERO_UUID,
) -> None:
    """Write the record of one committed offset."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=now_ms,
        expire_timestamp=expire_timestamp_ms,
        topic_id=topic_id,
    )
    # Only version 1 has the expiry. Kafka writes that version for such offsets, too.
    out.write(key, value, None if expire_timestamp_ms == NO_TIMESTAMP else 1)


def write_tombstone(out: Outbox, group_id: str, topic: str, partition: int) -> None:
    """Remove one committed offset."""
    out.write(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
