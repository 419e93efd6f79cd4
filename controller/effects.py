"""Effects: the changes of the controller's soft state by accepted requests (sessions, log levels, work for later).

An effect (`klamm.controller.outcome.Effect`) is part of a handler's outcome. The core applies it after it has replayed
the records. A handler changes nothing itself, so a handler that fails has changed nothing. Effects are neither logged
nor replayed. Effects on what brokers hold are in `klamm.broker.handlers`.
"""

from collections.abc import Callable, Collection, Mapping

from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SoftState:
    """The soft state of one controller, for effects. Effects on brokers have references to what they change."""

    image: MetadataImage
    """For reading only."""
    set_root_log_level: Callable[[int, str], None]
    """Sets the level of a node's root logger: the node's id, the level."""
    touch_session: Callable[[int, int, int | None], None]
    """Extends a broker's session: its id, the time in ms, and, if its controlled shutdown begins, the offset that it
    has to reach before it may stop."""
    leave_work: "Callable[[Departing | WentOffline], None]"
    """Hands work that is too much for one request to the background."""
    make_quorum_dynamic: Callable[[], None]
    """Appends the records of a dynamic quorum to the metadata log."""


@dataclass(frozen=True, slots=True)
class BrokerContact:
    """A heartbeat: it extends the session of its broker."""

    broker_id: int
    controlled_shutdown_offset: int | None = None
    """The offset that the broker has to reach before it may stop; only set when its controlled shutdown begins."""

    def apply(self, soft: SoftState, now_ms: int) -> None:
        soft.touch_session(self.broker_id, now_ms, self.controlled_shutdown_offset)


@dataclass(frozen=True, slots=True)
class QuorumUpgrade:
    """The step from kraft.version 0 to 1. Its records are control records of the log, which the image does not have."""

    def apply(self, soft: SoftState, _now_ms: int) -> None:
        soft.make_quorum_dynamic()


@dataclass(frozen=True, slots=True)
class Departing:
    """A broker that is in more ISRs than one request may change, and has to leave all of them."""

    broker_id: int
    unclean: bool = False
    """Whether it also loses its eligibility to lead, because it may have lost records."""

    def apply(self, soft: SoftState, _now_ms: int) -> None:
        soft.leave_work(self)


@dataclass(frozen=True, slots=True)
class WentOffline:
    """Offline log directories of a live broker whose replicas there are in more ISRs than one request may change."""

    broker_id: int
    directories: Collection[Uuid]

    def apply(self, soft: SoftState, _now_ms: int) -> None:
        soft.leave_work(self)


@dataclass(frozen=True, slots=True)
class RootLogLevels:
    """New levels of root loggers, by node id. They last as long as the process."""

    levels: Mapping[int, str]

    def apply(self, soft: SoftState, _now_ms: int) -> None:
        for node_id, level in self.levels.items():
            soft.set_root_log_level(node_id, level)
