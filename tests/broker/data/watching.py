"""A watcher of partitions, which collects those that were touched."""

from collections.abc import Iterable

from klamm.broker.data.watches import Watches
from klamm.controller.metadata.partition import LogKey


class Watcher:
    """Watches one set of partitions at a time."""

    def __init__(self, watches: Watches) -> None:
        self.watches = watches
        self.watched: set[LogKey] = set()
        self._touched: set[LogKey] = set()

    def watch(self, partitions: Iterable[LogKey]) -> None:
        """Watch these partitions from now on, and no others."""
        self.watches.remove(self.watched, self._note)
        self.watched = set(partitions)
        self.watches.add(self.watched, self._note)

    def move_to(self, watches: Watches) -> None:
        """Watch the same partitions with these watches, if they are those of another process."""
        if watches is not self.watches:
            self.watches = watches
            self.watches.add(self.watched, self._note)

    def take(self) -> set[LogKey]:
        """The partitions that were touched since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def _note(self, key: LogKey) -> None:
        assert key in self.watched
        self._touched.add(key)
