"""What the functions of streams groups are given beside the group, and what they return."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.consumer.topics import Topics
from klamm.broker.groups.streams.group import SoftState
from klamm.broker.groups.streams.internal_topics import InternalTopic
from klamm.protocol.fields import Message


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """The configs in force for one group: the group's own (`streams.*`) or the broker's (`group.streams.*`)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    standby_replicas: int = 0
    max_size: int = 2**31 - 1

    @property
    def assignment_configs(self) -> dict[str, str]:
        """What the assignor is told, as the group's record keeps it."""
        return {"num.standby.replicas": str(self.standby_replicas)}


@dataclass(frozen=True, slots=True)
class Context:
    """Time and surroundings of one request."""

    now_ms: int
    topics: Topics
    topic_changes: int
    """How many changes of topics there were; another number means that the metadata hash may be another."""
    settings: StreamsSettings
    delays_assignment: bool = False
    """The group waits for more members before its first assignment."""
    may_assign: int = 2**63 - 1
    """How many tasks the target assignment of the group may have at most."""
    client_id: str = ""
    client_host: str = ""
    """As Kafka shows it: "/127.0.0.1"."""
    creation_remark: str = ""
    """What is added to the status MISSING_INTERNAL_TOPICS: why the topics are not created."""


class TimerKind(Enum):
    """What time alone does. A member has at most one timer of each kind; INITIAL is the group's."""

    SESSION = "session"
    REBALANCE = "rebalance"
    """The member did not give up tasks in time."""
    INITIAL = "initial"
    """The first assignment of a group is computed."""


@dataclass(frozen=True, slots=True)
class Timer:
    """Starts a timer anew, or stops it (`delay_ms` None)."""

    kind: TimerKind
    member_id: str
    """"" for INITIAL."""
    delay_ms: int | None
    member_epoch: int = -1
    """Kind REBALANCE: the timer counts only while the member is at this epoch."""
    keeps_running: bool = False
    """A timer that runs already is left as it is."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was decided. Nothing of it has been applied yet."""

    response: Message | None = None
    """None: what happened was no request."""
    records: Sequence[Record] = ()
    timers: Sequence[Timer] = ()
    soft: SoftState | None = None
    """What a group that is in the records already remembers; None: what it has. One that this outcome makes does not
    remember it, as in Kafka."""
    missing_topics: Mapping[str, InternalTopic] = field(default_factory=dict)
    """The internal topics that have to be created."""
