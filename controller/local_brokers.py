"""The brokers that run in the controller's process, as far as the controller needs them.

A real controller gets from brokers what no record says: which replicas have caught up (AlterPartition), and which
brokers are gone (missing heartbeats). For brokers of its own process the controller asks this interface about replicas
instead, so that a change of thousands of ISRs is a few batches. `klamm.broker` implements it; the controller imports
nothing of that room. A controller without such brokers has `NO_BROKERS`.
"""

from collections.abc import Collection
from math import inf
from typing import Final, Protocol

from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey


class Replication(Protocol):
    """The progress of replicas of partitions with records, and which brokers are down."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no partition that holds or held records."""

    @property
    def down(self) -> Collection[int]:
        """The brokers that neither fetch nor serve records, whether the controller has fenced them or not."""

    @property
    def simulated(self) -> Collection[int] | None:
        """The brokers whose replication is simulated here, whether they are down or not; None: all. The leaders among
        all other brokers report their followers themselves."""

    @property
    def incomplete(self) -> Collection[LogKey]:
        """The partitions with records that have a replica outside the ISR."""

    @property
    def is_behind(self) -> bool:
        """Whether partitions are left for `follow_on`."""

    def follow(self, image: MetadataImage, delta: Delta, now_ms: int) -> None:
        """Apply the changes of a replayed batch. A part of them may be left for `follow_on`."""

    def follow_on(self, image: MetadataImage, now_ms: int) -> int:
        """Apply changes that `follow` has left to the next partitions. Returns the number of partitions."""

    @property
    def next_due_ms(self) -> float:
        """When `due` may have partitions to check; infinite: not before another change."""

    def due(self, now_ms: int, most: int) -> list[tuple[LogKey, tuple[int, ...]]]:
        """Up to `most` partitions whose leader would change the ISR by now, each with the ISR that it would request."""


class LocalBrokers(Protocol):
    """The brokers of this process."""

    @property
    def replication(self) -> Replication:
        """The progress of their replicas."""

    def begin(self, image: MetadataImage, now_ms: int) -> None:
        """Called once, when the image is replayed up to the end of the log; `Replication.follow` gets later changes."""

    def root_log_level(self, broker_id: int) -> str | None:
        """The level of a broker's root logger, if a request has set it."""

    def set_root_log_level(self, broker_id: int, level: str) -> None:
        """Set the level of a broker's root logger. It lasts as long as the process."""


class _NoReplication:
    """Nothing is replicated here."""

    is_empty = True
    is_behind = False
    down: Collection[int] = ()
    simulated: Collection[int] | None = ()
    incomplete: Collection[LogKey] = ()
    next_due_ms = inf

    def follow(self, image: MetadataImage, delta: Delta, now_ms: int) -> None:
        pass

    def follow_on(self, _image: MetadataImage, _now_ms: int) -> int:
        return 0

    def due(self, _now_ms: int, _most: int) -> list[tuple[LogKey, tuple[int, ...]]]:
        return []


class _NoBrokers:
    """No broker runs in this process."""

    replication: Replication = _NoReplication()

    def begin(self, image: MetadataImage, now_ms: int) -> None:
        pass

    def root_log_level(self, _broker_id: int) -> str | None:
        return None

    def set_root_log_level(self, broker_id: int, level: str) -> None:
        pass


NO_BROKERS: Final[LocalBrokers] = _NoBrokers()
