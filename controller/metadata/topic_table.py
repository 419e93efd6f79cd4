"""The topics and partitions of the cluster: indexes by name, id and row, and the replica counts that limits use."""

from klamm.controller.metadata.configs import Configs
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.controller.metadata.topic import Topic, collision_key
from klamm.controller.metadata.usage import UNLIMITED_TOPICS, ReplicaUsage
from klamm.protocol.uuid import Uuid


class TopicTable:
    """All topics. `configs` are the configs of the same image: removing a topic removes its configs."""

    def __init__(self, configs: Configs) -> None:
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[Uuid, Topic] = {}
        self.by_row: dict[int, Topic] = {}
        self.partitions = PartitionTable()
        self.usage = ReplicaUsage()
        self.collision_keys: dict[str, set[str]] = {}
        """By name with dots replaced by underscores: the names that collide because they share this form."""
        self.counts_at_change: dict[int, int] = {}
        """By topic row: the number of partitions that the topic had when a partition of it last changed. Topics whose
        partitions never changed have no entry. Snapshots do not contain these numbers, as those of Apache Kafka."""
        self._configs = configs
        self._next_row = 0

    def partition_count(self, topic: Topic) -> int:
        return self.partitions.partition_count(topic.row)

    def unlimited_rows(self) -> list[int]:
        """The rows of the topics that KIP-578 neither counts nor limits."""
        found = (self.by_name.get(name) for name in UNLIMITED_TOPICS)
        return [topic.row for topic in found if topic is not None]

    def add(self, name: str, topic_id: Uuid) -> Topic:
        """Add a topic without partitions."""
        topic = Topic(name, topic_id, self._next_row)
        self._next_row += 1
        self.by_name[name] = self.by_id[topic_id] = self.by_row[topic.row] = topic
        if key := collision_key(name):
            self.collision_keys.setdefault(key, set()).add(name)
        return topic

    def note_change(self, topic_row: int) -> None:
        """Note that a partition of the topic has changed."""
        self.counts_at_change[topic_row] = self.partitions.partition_count(topic_row)

    def remove(self, topic: Topic) -> None:
        """Remove a topic with its partitions and configs."""
        del self.by_id[topic.topic_id], self.by_name[topic.name], self.by_row[topic.row]
        if key := collision_key(topic.name):
            self.collision_keys[key].discard(topic.name)
            if not self.collision_keys[key]:
                del self.collision_keys[key]
        self._configs.remove_topic(topic.name)
        for owned, table in self.partitions.topic_ranges(topic.row):
            self.usage.remove(topic.name, table.replicas[owned.rows])
        self.partitions.remove_topic(topic.row)
        self.counts_at_change.pop(topic.row, None)
