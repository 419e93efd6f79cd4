"""Where answers wait for record data: until something becomes of a partition that they ask about, or their time comes.

What they wait for, and whether it is there, they know themselves (`klamm.controller.outcome.Waiting`). Kafka calls the
same place purgatory.
"""

from collections.abc import Collection

import trio

from klamm.controller.data.data_plane import DataPlane, LogKey
from klamm.protocol.uuid import Uuid


class WaitingRoom:
    """Everybody who waits, by the partitions that they wait for."""

    def __init__(self, data: DataPlane) -> None:
        self._data = data
        self._waiting: dict[Uuid, dict[int, set[trio.Event]]] = {}
        self._is_closed = False
        data.awaited = self._waiting

    def close(self) -> None:
        """Nobody is to wait any longer: the server stops."""
        self._is_closed = True
        for of_topic in self._waiting.values():
            for events in of_topic.values():
                for event in events:
                    event.set()

    def notice(self) -> None:
        """To be called after anything may have become of partitions: wakes those who wait for them."""
        for topic_id, partition_index in self._data.take_touched():
            for event in self._waiting.get(topic_id, {}).get(partition_index, ()):
                event.set()

    async def wait(self, partitions: Collection[LogKey], milliseconds: int) -> bool:
        """Return when something became of one of the partitions, or when the time is over; False if there is no use in
        waiting any longer."""
        if self._is_closed:
            return False
        event = trio.Event()
        for topic_id, partition_index in partitions:
            self._waiting.setdefault(topic_id, {}).setdefault(partition_index, set()).add(event)
        try:
            with trio.move_on_after(milliseconds / 1000):
                await event.wait()
        finally:
            for topic_id, partition_index in partitions:
                self._forget(topic_id, partition_index, event)
        return not self._is_closed

    def _forget(self, topic_id: Uuid, partition_index: int, event: trio.Event) -> None:
        of_topic = self._waiting[topic_id]
        of_topic[partition_index].discard(event)
        if not of_topic[partition_index]:
            del of_topic[partition_index]
        if not of_topic:
            del self._waiting[topic_id]
