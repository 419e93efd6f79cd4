"""The registration of one broker in the log. Sessions and heartbeats are soft state (`klamm.controller.sessions`)."""

from klamm.protocol.uuid import ZERO_UUID, Uuid
from klamm.quick_dataclasses import dataclass

# Reserved directory ids (KIP-858): a replica whose directory is not known has one of these.
MIGRATING_DIRECTORY = ZERO_UUID
UNASSIGNED_DIRECTORY = Uuid(15 * b"\0" + b"\1")


REAL_BROKER = "klamm.real.broker"
"""A feature that Klamm adds to the registration of a broker of another process, so that the log has which brokers are
real. Brokers and controllers of Kafka ignore features that they do not know."""


@dataclass(frozen=True, slots=True)
class EndPoint:
    """The address of one listener of a broker."""

    name: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True)
class BrokerState:
    """One registration: the broker's identity, its listeners, and whether it may lead."""

    broker_id: int
    broker_epoch: int
    incarnation_id: Uuid
    rack: str | None
    end_points: tuple[EndPoint, ...]
    features: tuple[tuple[str, int, int], ...]
    """Supported features: name, lowest and highest level."""
    log_dirs: tuple[Uuid, ...]
    fenced: bool
    in_controlled_shutdown: bool
    cordoned_log_dirs: tuple[Uuid, ...] | None = None

    def end_point(self, listener_name: str | None) -> EndPoint | None:
        """The end point of the listener with this name, None if there is none; with the name None, that of the first
        one."""
        if listener_name is None:
            return self.end_points[0] if self.end_points else None
        return next((point for point in self.end_points if point.name == listener_name), None)

    @property
    def is_real(self) -> bool:
        """Whether it is a broker of another process, not a simulated one."""
        return any(name == REAL_BROKER for name, _, _ in self.features)

    @property
    def live(self) -> bool:
        """Whether it may lead and be in an ISR: neither fenced nor in controlled shutdown."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def cordoned(self) -> bool:
        """Whether all of its log directories are closed to new replicas."""
        if not self.log_dirs or not self.cordoned_log_dirs:
            return False
        return set(self.log_dirs) <= set(self.cordoned_log_dirs)

    @property
    def default_directory(self) -> Uuid:
        """The directory of a new replica: the only log directory, UNASSIGNED if the broker has to choose, or MIGRATING
        if its registration has none (KIP-858)."""
        if len(self.log_dirs) == 1:
            return self.log_dirs[0]
        return UNASSIGNED_DIRECTORY if self.log_dirs else MIGRATING_DIRECTORY

    def has_directory(self, directory: Uuid) -> bool:
        """Whether the broker has this directory online. A reserved id, for a directory not known yet, counts as
        online."""
        return directory in self.log_dirs or directory in (MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY)
