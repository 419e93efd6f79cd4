"""What the functions of share groups are given beside the group, and what they return."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.consumer.topics import Topics
from klamm.protocol.fields import Message
from klamm.protocol.uuid import Uuid


@dataclass(frozen=True, slots=True)
class ShareGroupSettings:
    """The configs in force for one group: the group's own (`share.*`) or the broker's (`group.share.*`)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    max_size: int = 200
    initialize_retry_ms: int = 30_000
    """`group.share.initialize.retry.interval.ms`, which is internal in Kafka: how long the share coordinator may take
    to answer before it is asked again."""


@dataclass(frozen=True, slots=True)
class ShareContext:
    """Time and surroundings of one request."""

    now_ms: int
    topics: Topics
    settings: ShareGroupSettings
    client_id: str = ""
    client_host: str = ""
    """As Kafka shows it: "/127.0.0.1"."""


@dataclass(frozen=True, slots=True)
class Initialization:
    """What the share coordinator is to be asked: the state of these partitions, from these start offsets."""

    group_id: str
    state_epoch: int
    start_offsets: Mapping[Uuid, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class ShareOutcome:
    """What was decided. Nothing of it has been applied; records come first, the rest only after they are replayed."""

    response: Message | None = None
    """None: what happened was no request."""
    records: Sequence[Record] = ()
    session_of: str | None = None
    """The member whose session timeout starts anew."""
    without_session: str | None = None
    """The member whose session timeout stops."""
    refreshed_at: int | None = None
    """The group epoch at which the topics' metadata were compared with the group's."""
    initialization: Initialization | None = None
