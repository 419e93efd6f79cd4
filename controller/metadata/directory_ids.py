"""Log directories as small numbers, so that a column can hold them."""

from klamm.controller.metadata.broker import MIGRATING_DIRECTORY
from klamm.protocol.uuid import Uuid


class DirectoryIds:
    """Log directory ids as small numbers, so that a column can hold them. Grows with distinct directories only."""

    def __init__(self) -> None:
        self.ids: list[Uuid] = [MIGRATING_DIRECTORY]
        self._numbers: dict[Uuid, int] = {MIGRATING_DIRECTORY: 0}

    def number(self, directory: Uuid) -> int:
        """The number of a directory; a new number if it has none. Only replay calls this."""
        known = self._numbers.get(directory)
        if known is None:
            known = self._numbers[directory] = len(self.ids)
            self.ids.append(directory)
        return known

    def copy(self) -> "DirectoryIds":
        copied = DirectoryIds()
        copied.ids, copied._numbers = self.ids.copy(), self._numbers.copy()
        return copied

    def known(self, directory: Uuid) -> int | None:
        """The number of a directory; None if no replica is or was in it."""
        return self._numbers.get(directory)
