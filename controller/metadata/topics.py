"""Topics and partitions as a kind of state. `replay_partitions` has the replay of partition records in bulk, and
`saved_partitions` writes partitions for snapshots."""

from collections.abc import Iterator, Mapping
from typing import Any

from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.kind import Replay, ReplayError, SnapshotRecord
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.controller.metadata.replay_partitions import (
    replay_change,
    replay_change_run,
    replay_new_partitions,
    replay_new_run,
)
from klamm.controller.metadata.saved_partitions import SavedPartitions
from klamm.controller.metadata.topic import MAX_TOPIC_NAME_CHARACTERS, Topic, is_legal_name
from klamm.controller.metadata.topic_table import TopicTable
from klamm.protocol.columns import Columns
from klamm.protocol.fields import Message
from klamm.protocol.records.partitions import ClearElrRecord, PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from klamm.quick_dataclasses import dataclass


class Topics(TopicTable):
    """All topics with their partitions."""

    def replays(self) -> Mapping[type[Message], Replay]:
        return {
            TopicRecord: self._add,
            RemoveTopicRecord: self._remove,
            PartitionRecord: self._add_partition,
            PartitionChangeRecord: self._change_partition,
            ClearElrRecord: self._clear_elr,
        }

    def run_replays(self) -> Mapping[type[Message], Replay]:
        return {PartitionRecord: self._add_run, PartitionChangeRecord: self._change_run}

    def _add(self, record: TopicRecord, delta: Delta) -> None:
        if not is_legal_name(record.name):
            raise ReplayError(f"no topic may be called {record.name[:MAX_TOPIC_NAME_CHARACTERS]!r}")
        if record.name in self.by_name or record.topic_id in self.by_id:
            raise ReplayError(f"topic {record.name} with id {record.topic_id} exists already")
        delta.new_topics.append(self.add(record.name, record.topic_id))

    def _remove(self, record: RemoveTopicRecord, delta: Delta) -> None:
        topic = self.by_id.get(record.topic_id)
        if topic is None:
            raise ReplayError(f"no topic with id {record.topic_id} to remove")
        self.remove(topic)
        delta.removed_topics.append(topic)

    def _add_partition(self, record: PartitionRecord, delta: Delta) -> None:
        replay_new_partitions(self, [record], delta)

    def _add_run(self, run: Columns[PartitionRecord], delta: Delta) -> None:
        replay_new_run(self, run, delta)

    def _change_partition(self, record: PartitionChangeRecord, delta: Delta) -> None:
        replay_change(self, record, delta)

    def _change_run(self, run: Columns[PartitionChangeRecord], delta: Delta) -> None:
        replay_change_run(self, run, delta)

    def _clear_elr(self, record: ClearElrRecord, delta: Delta) -> None:
        """Clear the eligible leader replicas of a topic, or of all topics, because its minimum ISR has changed.

        As on real brokers, the partition epoch grows if the partition had any, so that its leader notices the change.
        """
        partitions = self.partitions
        cleared = list(partitions.elr)
        if record.topic_name:
            topic = self.by_name.get(record.topic_name)
            if topic is None:
                raise ReplayError(f"no topic {record.topic_name} to clear eligible leader replicas of")
            cleared = [key for key in cleared if key.topic_row == topic.row]
        for key in cleared:
            table, row = partitions.locate(*key)
            table.partition_epoch[row] += 1
            table.sparse[row] = key in partitions.reassigning
            del partitions.elr[key]
            self.note_change(key.topic_row)
            delta.changed_partitions.add(*key)

    def save(self, room: PartitionTable | None) -> "_Saved":
        return _Saved(list(self.by_row.values()), self.partitions.copy(room))

    def facts(self) -> dict[str, Any]:
        return {
            "topics": {topic.name: topic.topic_id for topic in self.by_name.values()},
            "order of topics": [topic.name for topic in self.by_row.values()],
            "order of names": list(self.by_name),
            "partitions": {
                (topic.name, index): self.partitions.read(topic.row, index)
                for topic in self.by_name.values()
                for index in range(self.partition_count(topic))
            },
            "total_partitions": self.partitions.total(),
            "collision_keys": dict(self.collision_keys),
            "usage": (
                {broker_id: count for broker_id, count in self.usage.replicas.items() if count},
                self.usage.partitions,
                self.usage.placeholders,
            ),
        }


@dataclass(frozen=True, slots=True)
class _Saved:
    topics: list[Topic]
    """The topics in the order of creation."""
    partitions: PartitionTable

    def records(self) -> Iterator[SnapshotRecord]:
        partitions = SavedPartitions(self.partitions)
        for topic in self.topics:
            yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
            yield from partitions.records(topic)
