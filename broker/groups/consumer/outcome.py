"""What the functions of consumer groups are given beside the group, and what they return."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.consumer.topics import Topics
from klamm.protocol.fields import Message
from klamm.protocol.records.coordinator.consumer_groups import ClassicProtocol


class MigrationPolicy(Enum):
    """`group.consumer.migration.policy`: which conversions of groups with members are allowed."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The configs in force for one group: the group's own (`consumer.*`) or the broker's (`group.consumer.*`)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    assignors: tuple[str, ...] = ("uniform", "range")
    """The first is the default."""
    max_size: int = 2**31 - 1
    classic_max_size: int = 2**31 - 1
    """`group.max.size`: a group with more members is not downgraded."""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000


@dataclass(frozen=True, slots=True)
class Context:
    """Time, chance and surroundings of one request."""

    now_ms: int
    topics: Topics
    settings: GroupSettings
    new_member_id: Callable[[], str]
    """A random UUID in Kafka's base64."""
    client_id: str = ""
    client_host: str = ""
    """As Kafka shows it: "/127.0.0.1"."""
    api_version: int = 0


class TimerKind(Enum):
    """Why a member may be removed by time alone. A member has at most one timer of each kind."""

    SESSION = "session"
    REBALANCE = "rebalance"
    """It did not give up partitions in time."""
    JOIN = "join"
    """A member of the classic protocol did not join again in time."""
    SYNC = "sync"
    """A member of the classic protocol joined and did not sync in time."""


@dataclass(frozen=True, slots=True)
class Timer:
    """Starts the timer of this kind of a member anew, or stops it (`delay_ms` None)."""

    kind: TimerKind
    member_id: str
    delay_ms: int | None
    member_epoch: int = -1
    """Kind REBALANCE: the timer counts only while the member is at this epoch."""
    keeps_running: bool = False
    """A timer that runs already is left as it is."""


@dataclass(frozen=True, slots=True)
class Downgrade:
    """The records make the group a classic one. What its GroupMetadata record cannot say, by member id."""

    protocols: Mapping[str, Sequence[ClassicProtocol]]
    rebalance: bool
    """A rebalance starts at once, because partitions have to move."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was decided. Nothing of it has been applied; records come first, the rest only after they are replayed."""

    response: Message | None = None
    """None: what happened was no request."""
    records: Sequence[Record] = ()
    timers: Sequence[Timer] = ()
    refreshed_at: int | None = None
    """The group epoch at which the topics' metadata were compared with the group's."""
    regexes_to_resolve: frozenset[str] = field(default_factory=frozenset)
    """The regular expressions that have to be resolved in the background (`regexes.resolve_in_steps`)."""
    downgrade: Downgrade | None = None
