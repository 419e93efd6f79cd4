"""A share group: what its records say, and the counts that decisions need of them.

Only `klamm.broker.groups.share.replay` changes a group; `metadata_refreshed_at` is the one field of soft state.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from klamm.broker.groups.assignors import Assignment
from klamm.broker.groups.assignors.spec import NOTHING
from klamm.protocol.uuid import Uuid

FIRST_EPOCH: Final = 1
EMPTY, STABLE = "Empty", "Stable"


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member; one made without more than an id has not joined yet."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    member_epoch: int = 0
    previous_member_epoch: int = -1
    assigned: Assignment = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatePartitions:
    """Partitions of one topic."""

    topic_name: str
    partitions: frozenset[int]
    since_ms: int
    """When their initialization was asked for. After the shard was loaded: the time of the record."""


@dataclass(frozen=True, slots=True)
class StateTopics:
    """The topics whose state the share coordinator has, or is about to have or to delete."""

    initializing: Mapping[Uuid, StatePartitions] = field(default_factory=dict)
    initialized: Mapping[Uuid, StatePartitions] = field(default_factory=dict)
    deleting: Mapping[Uuid, str] = field(default_factory=dict)
    """Names by id."""


class ShareGroup:
    """The members by id, in the order in which they came, and the target assignment by member id."""

    __slots__ = (
        "assignment_epoch",
        "assignment_timestamp_ms",
        "group_epoch",
        "group_id",
        "members",
        "metadata_hash",
        "metadata_refreshed_at",
        "state_topics",
        "target",
        "topic_name_counts",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        """When the target was computed. 0: never."""
        self.members: dict[str, ShareMember] = {}
        self.target: dict[str, Assignment] = {}
        self.state_topics: StateTopics | None = None
        """None: no record says anything of them."""
        self.topic_name_counts: Counter[str] = Counter()
        """How many members name a topic."""
        self.metadata_refreshed_at: int | None = None
        """The group epoch at which the topics' metadata were last compared. None: they have changed since."""

    @property
    def state(self) -> str:
        """Kafka's name of the state."""
        return STABLE if self.members else EMPTY

    @property
    def metadata_are_stale(self) -> bool:
        """A later epoch than the group's means that the records of that refresh were never written."""
        return self.metadata_refreshed_at is None or self.group_epoch < self.metadata_refreshed_at

    def target_of(self, member_id: str) -> Assignment:
        return self.target.get(member_id, NOTHING)

    def counts_with(self, becomes: ShareMember | None, was: ShareMember | None) -> Counter[str]:
        """`topic_name_counts` when one member has changed; None: it was not there before, or is not afterwards."""
        counts = self.topic_name_counts.copy()
        if was is not None:
            counts.subtract(was.subscribed_topic_names)
        if becomes is not None:
            counts.update(becomes.subscribed_topic_names)
        return +counts

    def put_member(self, member: ShareMember) -> None:
        self.topic_name_counts = self.counts_with(member, self.members.get(member.member_id))
        self.members[member.member_id] = member

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self.topic_name_counts = self.counts_with(None, member)
