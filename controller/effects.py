"""What an accepted request does to soft state: to record data, sessions, log levels, work that is left for later.

An effect (`klamm.controller.outcome.Effect`) is a part of the outcome. The core applies it when the request is settled,
behind the records: a handler changes nothing itself, and one that fails, by a bug too, has changed nothing. Nothing of
it is logged or replayed.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from klamm.controller.data.data_plane import DataPlane
from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.uuid import Uuid


@dataclass(frozen=True, slots=True)
class SoftState:
    """All that effects can change, and what they may look at meanwhile."""

    image: MetadataImage
    """For reading."""
    data: DataPlane
    root_log_levels: dict[int, str]
    """The levels that root loggers were given, by node."""
    touch_session: Callable[[int, int, int | None], None]
    """Note that a broker was heard from: its id, the time in ms, and, if its controlled shutdown begins, the offset
    that it has to catch up to before it may stop."""
    leave_work: "Callable[[Departing | WentOffline], None]"
    """Leave what is more than one request may change to the work in the background."""


@dataclass(frozen=True, slots=True)
class BrokerContact:
    """A broker's heartbeat: its session lives on."""

    broker_id: int
    controlled_shutdown_offset: int | None = None
    """Set when this request began its controlled shutdown: what the broker has to catch up to before it may stop."""

    def apply(self, soft: SoftState, now_ms: int) -> None:
        soft.touch_session(self.broker_id, now_ms, self.controlled_shutdown_offset)


@dataclass(frozen=True, slots=True)
class Departing:
    """A broker that has to leave more ISRs than one request may change."""

    broker_id: int
    unclean: bool = False
    """Whether it is no longer eligible to lead, either: it may have lost what it was trusted with."""

    def apply(self, soft: SoftState, _now_ms: int) -> None:
        soft.leave_work(self)


@dataclass(frozen=True, slots=True)
class WentOffline:
    """Log directories of a broker that serves, with more replicas in ISRs than one request may change."""

    broker_id: int
    directories: Collection[Uuid]

    def apply(self, soft: SoftState, _now_ms: int) -> None:
        soft.leave_work(self)


@dataclass(frozen=True, slots=True)
class RootLogLevels:
    """New levels of root loggers, by node. A process forgets them when it ends."""

    levels: Mapping[int, str]

    def apply(self, soft: SoftState, _now_ms: int) -> None:
        soft.root_log_levels.update(self.levels)
