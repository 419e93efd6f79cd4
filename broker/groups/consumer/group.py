"""A consumer group: what its records say, and the counts that decisions need of them.

Only `klamm.broker.groups.consumer.replay` changes a group, by the methods here; `metadata_refreshed_at` is the one
field of soft state.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from klamm.broker.groups.assignors import Assignment
from klamm.broker.groups.assignors.spec import NOTHING
from klamm.broker.groups.consumer.member import Member, PartitionEpochs
from klamm.protocol.uuid import Uuid

FIRST_EPOCH: Final = 1


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matched, and when."""

    topic_names: frozenset[str]
    version: int
    """Of the metadata: the offset of the last record that they had."""
    resolved_at_ms: int


class ConsumerGroup:
    """The members by id, in the order in which they came, and the target assignment by member id."""

    __slots__ = (
        "_owner_epochs",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "assignor_counts",
        "classic_protocol_counts",
        "classic_size",
        "group_epoch",
        "group_id",
        "has_partition_metadata_record",
        "members",
        "metadata_hash",
        "metadata_refreshed_at",
        "regex_counts",
        "resolved",
        "resolved_topic_counts",
        "static_members",
        "target",
        "topic_name_counts",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        """When the target was computed. 0: never, or not by a record that says so."""
        self.has_partition_metadata_record = False
        """Releases before 4.1 wrote one: it is removed when the metadata are next refreshed."""
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.target: dict[str, Assignment] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.topic_name_counts: Counter[str] = Counter()
        """How many members name a topic."""
        self.regex_counts: Counter[str] = Counter()
        self.resolved_topic_counts: Counter[str] = Counter()
        """How many regular expressions matched a topic."""
        self.assignor_counts: Counter[str] = Counter()
        self.classic_size = 0
        """How many members use the classic protocol."""
        self.classic_protocol_counts: Counter[str] = Counter()
        self._owner_epochs: defaultdict[Uuid, dict[int, int]] = defaultdict(dict)
        self.metadata_refreshed_at: int | None = None
        """The group epoch at which the topics' metadata were last compared. None: they have changed since."""

    @property
    def state(self) -> str:
        """Kafka's name of the state."""
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def metadata_are_stale(self) -> bool:
        """A later epoch than the group's means that the records of that refresh were never written."""
        return self.metadata_refreshed_at is None or self.group_epoch < self.metadata_refreshed_at

    def static_member(self, instance_id: str | None) -> Member | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return self.members[member_id] if member_id is not None else None

    def target_of(self, member_id: str) -> Assignment:
        return self.target.get(member_id, NOTHING)

    def is_owned(self, topic_id: Uuid, partition: int) -> bool:
        """A member has the partition, or has not confirmed yet that it gave it up."""
        return partition in self._owner_epochs.get(topic_id, ())

    def put_member(self, member: Member) -> None:
        old = self.members.get(member.member_id)
        self._count(old, -1)
        self.members[member.member_id] = member
        self._count(member, 1)
        if old is not None:
            self._disown(old)
            self._release_instance(old)
        self._own(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count(member, -1)
        self._disown(member)
        self._release_instance(member)

    def _release_instance(self, member: Member) -> None:
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def put_resolved(self, regex: str, resolved: ResolvedRegex | None) -> None:
        old = self.resolved.pop(regex, None)
        if old is not None:
            _add(self.resolved_topic_counts, old.topic_names, -1)
        if resolved is not None:
            self.resolved[regex] = resolved
            _add(self.resolved_topic_counts, resolved.topic_names, 1)

    def copy(self) -> "ConsumerGroup":
        """A group that may be changed without this one, for trying out records that are not written yet."""
        copied = ConsumerGroup(self.group_id)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(copied, name, value.copy() if isinstance(value, dict) else value)
        copied._owner_epochs = defaultdict(
            dict, {topic_id: partitions.copy() for topic_id, partitions in self._owner_epochs.items()}
        )
        return copied

    def _count(self, member: Member | None, step: int) -> None:
        if member is None:
            return
        _add(self.topic_name_counts, member.subscribed_topic_names, step)
        if member.subscribed_topic_regex:
            _add(self.regex_counts, (member.subscribed_topic_regex,), step)
        if member.server_assignor is not None:
            _add(self.assignor_counts, (member.server_assignor,), step)
        if member.classic is not None:
            self.classic_size += step
            _add(self.classic_protocol_counts, (it.name for it in member.classic.supported_protocols), step)

    def _own(self, member: Member) -> None:
        for topic_id, partition in _both(member):
            owners = self._owner_epochs[topic_id]
            # A partition belongs to the member with the highest epoch, as in Kafka.
            owners[partition] = max(member.member_epoch, owners.get(partition, member.member_epoch))

    def _disown(self, member: Member) -> None:
        for topic_id, partition in _both(member):
            owners = self._owner_epochs.get(topic_id, {})
            if owners.get(partition) == member.member_epoch:
                del owners[partition]
            if not owners:
                self._owner_epochs.pop(topic_id, None)


def _both(member: Member) -> Iterable[tuple[Uuid, int]]:
    epochs: PartitionEpochs
    for epochs in (member.assigned, member.pending_revocation):
        for topic_id, partitions in epochs.items():
            for partition in partitions:
                yield topic_id, partition


def _add(counts: Counter[str], names: Iterable[str], step: int) -> None:
    for name in names:
        counts[name] += step
        if not counts[name]:
            del counts[name]
