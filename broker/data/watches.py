"""Callbacks for partitions of the data plane: answers that wait for records or replication use them to wake up.

A callback runs while the data plane is changing. It may only note that the partition changed, and read it later.
"""

from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

from klamm.controller.metadata.partition import LogKey
from klamm.protocol.uuid import Uuid

Wake: TypeAlias = Callable[[LogKey], None]


class Watches:
    """The callbacks, by partition."""

    def __init__(self) -> None:
        self._by_topic: dict[Uuid, dict[int, list[Wake]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_topic)

    def __iter__(self) -> Iterator[LogKey]:
        """The partitions that have callbacks."""
        return ((topic_id, index) for topic_id, of_topic in self._by_topic.items() for index in of_topic)

    def has_topic(self, topic_id: Uuid) -> bool:
        """Whether a partition of the topic has a callback."""
        return topic_id in self._by_topic

    def add(self, partitions: Collection[LogKey], wake: Wake) -> None:
        """Call `wake` with the partition's key whenever one of these partitions changes."""
        for topic_id, partition_index in partitions:
            self._by_topic.setdefault(topic_id, {}).setdefault(partition_index, []).append(wake)

    def remove(self, partitions: Collection[LogKey], wake: Wake) -> None:
        """Undo an `add` with the same arguments."""
        for topic_id, partition_index in partitions:
            of_topic = self._by_topic[topic_id]
            of_topic[partition_index].remove(wake)
            if not of_topic[partition_index]:
                del of_topic[partition_index]
            if not of_topic:
                del self._by_topic[topic_id]

    def touch(self, key: LogKey) -> None:
        """Call the callbacks of a partition."""
        for wake in tuple(self._by_topic.get(key[0], {}).get(key[1], ())):
            wake(key)

    def touch_topic(self, topic_id: Uuid) -> None:
        """Call the callbacks of all partitions of a topic."""
        for partition_index in tuple(self._by_topic.get(topic_id, ())):
            self.touch((topic_id, partition_index))
