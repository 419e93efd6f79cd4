"""What members leave on the leaders of share partitions when their sessions end, until it is released.

A session may leave millions of records. They are released some at a time, so that other clients are served meanwhile;
those of a share partition at the latest when a request uses it, so that no request finds records of a member that has
gone.
"""

from collections.abc import Callable
from typing import Final

from klamm.broker.share_partitions.releases import release_member
from klamm.broker.share_partitions.share_partition import Phase, SharePartition

RELEASED_AT_ONCE: Final = 2_000
"""States that one call of `release_some` examines, about 20 ms of work. Those of one share partition are not
divided."""
MAX_LEFT: Final = 100_000
"""Share partitions that wait to be released. Beyond it the first ones are released at once."""


class LeftRecords:
    """The share partitions with members that have gone, in the order in which they went."""

    def __init__(self, unused: Callable[[SharePartition], None]) -> None:
        """`unused` is called with a share partition that was noted as unused, when nothing is left there."""
        self._members: dict[SharePartition, dict[str, None]] = {}
        self._noted_as_unused: set[SharePartition] = set()
        self._unused = unused

    def __len__(self) -> int:
        return len(self._members)

    def note(self, partition: SharePartition, member_id: str) -> None:
        """A member has gone."""
        self._members.setdefault(partition, {})[member_id] = None

    def note_unused(self, partition: SharePartition) -> None:
        """The last member has gone."""
        self._members.setdefault(partition, {})
        self._noted_as_unused.add(partition)

    def release(self, partition: SharePartition) -> int:
        """Release what is left of a share partition that is used. Returns how many states were examined."""
        self._noted_as_unused.discard(partition)
        members = self._members.pop(partition, {})
        if partition.phase is not Phase.ACTIVE:
            return 1
        states = 1 + partition.batches.state_count * len(members)
        for member_id in members:
            release_member(partition, member_id, lambda _: None)
        return states

    def release_some(self) -> None:
        """Release what waits longest."""
        done = 0
        while self._members and (done < RELEASED_AT_ONCE or len(self._members) > MAX_LEFT):
            partition = next(iter(self._members))
            is_unused = partition in self._noted_as_unused
            done += self.release(partition)
            if is_unused:
                self._unused(partition)
