"""The state of one cluster between two calls of `klamm.pipeline.windows.fold`: brokers, partitions, and open windows.

A partition is a reference to its lists of broker ids, and equal lists are one object. So a million partitions take some
200 MB. The state has a form of JSON values for files; changes have the same form, with only the changed partitions.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

Brokers = tuple[int, ...]
Plain = dict[str, Any]
"""JSON values."""
UNDER_REPLICATION: Final = "under_replication"
REASSIGNMENT: Final = "reassignment"


class Lists(NamedTuple):
    """The lists of broker ids of a partition."""

    replicas: Brokers = ()
    isr: Brokers = ()
    adding_replicas: Brokers = ()
    removing_replicas: Brokers = ()


class PartitionChange(NamedTuple):
    """The part of a record about a partition that can change a window. A list that does not change is None."""

    topic_id: str
    partition_index: int
    lists: Sequence[Brokers | None]
    """In the order of `Lists`."""


class Record(NamedTuple):
    """The columns of bronze.metadata_record that can change a window."""

    record_offset: int
    batch_offset: int
    is_in_snapshot: bool
    timestamp: int | None
    """The time in microseconds."""
    type: str
    partition: PartitionChange | None
    body: str | None

    @classmethod
    def from_plain(cls, values: Sequence[Any]) -> "Record":
        """A record from its JSON values."""
        record = cls(*values)
        if record.partition is None:
            return record
        topic_id, index, lists = record.partition
        held = tuple(None if one is None else tuple(one) for one in lists)
        return record._replace(partition=PartitionChange(topic_id, index, held))


@dataclass(slots=True)
class Topic:
    """A topic that exists, with the windows that are open, by partition and kind."""

    name: str
    partitions: dict[int, Lists] = field(default_factory=dict)
    windows: dict[int, dict[str, Plain]] = field(default_factory=dict)


class ClusterState:
    """The state of a cluster, and what has changed since `take_changes`."""

    def __init__(self) -> None:
        self.brokers: dict[int, dict[str, bool]] = {}
        self.snapshot_end = -1
        """The last offset that the snapshot contains, at which the log begins."""
        self.waiting: list[Record] | None = None
        """The records of a transaction that has not ended."""
        self._topics: dict[str, Topic] = {}
        self._shared: dict[Any, Any] = {}
        self._changed: dict[str, set[int]] = {}
        self._replaced: set[str] = set()
        """Topics that were created or deleted: what was known about them before is out of date."""

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self._topics.values())

    def topic(self, topic_id: str) -> Topic | None:
        return self._topics.get(topic_id)

    def create_topic(self, topic_id: str, name: str) -> None:
        self._topics[topic_id] = Topic(name)
        self._replaced.add(topic_id)
        self._changed.pop(topic_id, None)

    def delete_topic(self, topic_id: str) -> None:
        self._topics.pop(topic_id, None)
        self._replaced.add(topic_id)
        self._changed.pop(topic_id, None)

    def change(self, change: PartitionChange) -> tuple[Lists | None, Lists]:
        """The lists of a partition of a topic that exists, before the change and after it."""
        partitions = self._topics[change.topic_id].partitions
        before = partitions.get(change.partition_index)
        share = self._shared.setdefault
        kept = before or Lists()
        # `share` returns the equal object that came first.
        new = [old if one is None else share(one, one) for old, one in zip(kept, change.lists, strict=True)]
        lists = Lists(*new)
        partitions[change.partition_index] = lists = share(lists, lists)
        self._changed.setdefault(change.topic_id, set()).add(change.partition_index)
        return before, lists

    def take_changes(self) -> Iterator[Plain]:
        """The changes since the last call as JSON values, one for each topic and one for the rest of the cluster."""
        changed, replaced = self._changed, self._replaced
        self.forget_changes()
        yield self._plain_cluster()
        for topic_id in sorted({*changed, *replaced}):
            yield self._plain_topic(topic_id, changed.get(topic_id, ()), is_whole=topic_id in replaced)

    def forget_changes(self) -> None:
        """Begin as after `take_changes`."""
        self._changed, self._replaced = {}, set()

    def everything(self) -> Iterator[Plain]:
        """The whole state in the form of `take_changes`."""
        yield self._plain_cluster()
        for topic_id, topic in self._topics.items():
            yield self._plain_topic(topic_id, topic.partitions, is_whole=True)

    def apply(self, changes: Iterable[Plain]) -> None:
        """Apply what `take_changes` or `everything` of another state has returned."""
        for plain in changes:
            if "topic_id" in plain:
                self._apply_topic(plain)
            else:
                self.brokers = {int(broker_id): switches for broker_id, switches in plain["brokers"].items()}
                self.snapshot_end = plain["snapshot_end"]
                waiting = plain["waiting"]
                self.waiting = None if waiting is None else [Record.from_plain(values) for values in waiting]

    def _plain_cluster(self) -> Plain:
        return {"brokers": self.brokers, "snapshot_end": self.snapshot_end, "waiting": self.waiting}

    def _plain_topic(self, topic_id: str, indexes: Iterable[int], *, is_whole: bool) -> Plain:
        topic = self._topics.get(topic_id)
        if topic is None:
            return {"topic_id": topic_id, "name": None}
        partitions = [[index, topic.partitions[index], topic.windows.get(index)] for index in sorted(indexes)]
        return {"topic_id": topic_id, "name": topic.name, "is_whole": is_whole, "partitions": partitions}

    def _apply_topic(self, plain: Mapping[str, Any]) -> None:
        topic_id = plain["topic_id"]
        if plain["name"] is None:
            self._topics.pop(topic_id, None)
            return
        if plain["is_whole"]:
            self._topics[topic_id] = Topic(plain["name"])
        topic, share = self._topics[topic_id], self._shared.setdefault
        for index, values, windows in plain["partitions"]:
            held = (tuple(one) for one in values)
            lists = Lists(*(share(one, one) for one in held))
            topic.partitions[index] = share(lists, lists)
            if windows is None:
                topic.windows.pop(index, None)
            else:
                topic.windows[index] = windows
