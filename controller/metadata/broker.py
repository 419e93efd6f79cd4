"""What the log says of one broker. Sessions and heartbeats are soft state and live in `klamm.controller.sessions`."""

from dataclasses import dataclass

from klamm.protocol.uuid import ZERO_UUID, Uuid

# Directory ids with a meaning of their own (KIP-858): a replica without a known directory is in one of these.
MIGRATING_DIRECTORY = ZERO_UUID
UNASSIGNED_DIRECTORY = Uuid(15 * b"\0" + b"\1")


@dataclass(frozen=True, slots=True)
class EndPoint:
    """Where one listener of a broker is reached."""

    name: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True)
class BrokerState:
    """One registration: who the broker is, where it listens, and whether it may lead."""

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
        """Where the listener of that name is reached, None if there is none; with no name asked for, the first."""
        if listener_name is None:
            return self.end_points[0] if self.end_points else None
        return next((point for point in self.end_points if point.name == listener_name), None)

    @property
    def live(self) -> bool:
        """Whether it may lead and be in an ISR: neither fenced nor leaving."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def cordoned(self) -> bool:
        """Whether all of its log directories are closed to new replicas."""
        return bool(self.log_dirs) and set(self.log_dirs) <= set(self.cordoned_log_dirs or ())

    @property
    def default_directory(self) -> Uuid:
        """Where a new replica goes: the only log directory, or unassigned when the broker has to choose (KIP-858)."""
        return self.log_dirs[0] if len(self.log_dirs) == 1 else UNASSIGNED_DIRECTORY

    def has_directory(self, directory: Uuid) -> bool:
        """Whether a replica in this directory is there; one whose directory is not known yet is somewhere."""
        return directory in self.log_dirs or directory in (MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY)
