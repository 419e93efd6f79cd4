"""A kind of state: what one module says about its part of the image, so that nothing of it can be forgotten.

Each kind has its state, how its records are replayed, a copy that stays as it is, the records that a snapshot holds of
it, and its facts for comparison. `klamm.controller.metadata.image` has the one list of kinds; replay, snapshots and the
tests go through that list.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.protocol.columns import Columns
from klamm.protocol.fields import Message

SnapshotRecord: TypeAlias = Message | Columns[Any]
"""A record, or a run of them as columns."""
Replay: TypeAlias = Callable[[Any, Delta], None]
"""Applies a record, or a run of records as columns, and says in the delta what that touched. Raises ReplayError."""


class ReplayError(Exception):
    """A record that contradicts the image: the log holds what must never be in it."""


class Saved(Protocol):
    """A kind of state as it was at one moment, while the image goes on changing."""

    def records(self) -> Iterator[SnapshotRecord]:
        """The records that rebuild it, in the image's own order: answers have the same order after a start from them.
        Called in a thread."""


class Kind(Protocol):
    """One kind of state, as the image holds it. Replay alone changes it."""

    def replays(self) -> Mapping[type[Message], Replay]:
        """How each type of record that is about this kind is applied."""

    def run_replays(self) -> Mapping[type[Message], Replay]:
        """The same for runs of records as columns; none for kinds whose records come one by one."""

    def save(self, room: PartitionTable | None) -> Saved:
        """A copy, for a snapshot; partitions are copied into `room`, if it is given."""

    def facts(self) -> dict[str, Any]:
        """All that it says, by name, as plain values in which equal content is equal: what tests compare. Not how it
        happens to lie in memory, such as the numbers of rows."""
