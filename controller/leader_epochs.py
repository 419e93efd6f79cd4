"""The offsets that each leader epoch wrote to a log, to find where logs diverge (KIP-101, KIP-279, KIP-320).

An epoch reaches from its first offset to the first offset of the next one. An epoch that wrote nothing is replaced by
the next one, so there is at most one entry more than there are batches. Kafka: LeaderEpochFileCache.
"""

from bisect import bisect_right
from typing import Final

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1


class LeaderEpochs:
    """The epochs of one log, oldest first; epochs and their first offsets both grow."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []

    @property
    def latest(self) -> int:
        """The newest epoch; -1 if there is none."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at `offset`; -1 if the offset is before the oldest known epoch."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else NO_EPOCH

    def begin(self, leader_epoch: int, offset: int) -> None:
        """Begin an epoch at `offset`. Entries that contradict it are removed."""
        if self._epochs and self._epochs[-1] == leader_epoch and self._starts[-1] <= offset:
            return
        while self._epochs and (self._epochs[-1] >= leader_epoch or self._starts[-1] >= offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(leader_epoch)
        self._starts.append(offset)

    def end_offset(self, requested_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch that is not above the requested one, and its end offset; (-1, -1) if the requested epoch is
        -1 or newer than all. For an epoch that is older than all, the offset at which the oldest one begins."""
        if requested_epoch == NO_EPOCH or requested_epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if requested_epoch == self.latest:
            return requested_epoch, log_end_offset
        following = bisect_right(self._epochs, requested_epoch)
        found = self._epochs[following - 1] if following else requested_epoch
        return found, self._starts[following]

    def cut_end(self, offset: int) -> None:
        """Forget epochs that begin at `offset` or later."""
        while self._starts and self._starts[-1] >= offset:
            self._epochs.pop()
            self._starts.pop()

    def cut_start(self, offset: int) -> None:
        """Forget epochs that end at or before `offset`; the epoch that contains `offset` begins there."""
        gone = bisect_right(self._starts, offset) - 1
        if gone >= 0:
            del self._epochs[:gone], self._starts[:gone]
            self._starts[0] = offset
