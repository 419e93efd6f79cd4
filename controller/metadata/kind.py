"""The interface of a kind of state, such as brokers or ACLs: one module with all that the controller does with it.

A kind holds its part of the image, replays its records, makes a copy for snapshots, writes that copy as records, and
lists its facts for comparison. `MetadataImage.kinds` is the only list of kinds: replay, snapshots and tests iterate
over it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.protocol.columns import Columns
from klamm.protocol.fields import Message

SnapshotRecord: TypeAlias = Message | Columns[Any]
"""One record, or a run of records as columns."""
Replay: TypeAlias = Callable[[Any, Delta], None]
"""Applies a record, or a run of records as columns, and adds to the delta what changed. Raises ReplayError."""


class ReplayError(Exception):
    """A record contradicts the image. A log with such a record is unusable."""


class Saved(Protocol):
    """A copy of a kind of state. It does not change when the image does."""

    def records(self) -> Iterator[SnapshotRecord]:
        """The records that rebuild the state, in the order of the image, so that responses keep their order after a
        start from a snapshot. Called in a thread."""


class Kind(Protocol):
    """One kind of state in an image. Only replay changes it."""

    def replays(self) -> Mapping[type[Message], Replay]:
        """The function that applies each record type of this kind."""

    def run_replays(self) -> Mapping[type[Message], Replay]:
        """The function that applies runs of a record type as columns. Empty if the kind has no such runs."""

    def save(self, room: PartitionTable | None) -> Saved:
        """A copy for a snapshot. `room` is an empty table to copy partitions into; None allocates one."""

    def facts(self) -> dict[str, Any]:
        """The whole state as plain values by name, for comparison in tests. Equal states have equal facts: memory
        layout, such as row numbers, is not included."""
