"""A classic group: its members, its generation and its state.

The states and the transitions between them (Apache Kafka: ClassicGroupState):

| From                | To                  | When |
|---------------------|---------------------|------|
| Empty               | PreparingRebalance  | a member joins |
| PreparingRebalance  | CompletingRebalance | all members have joined, or the rebalance timeout is over |
| PreparingRebalance  | Empty               | the same, and no member is left |
| CompletingRebalance | Stable              | the leader has sent the assignment with SyncGroup |
| CompletingRebalance | PreparingRebalance  | a member joins, leaves, fails, or does not send SyncGroup in time |
| Stable              | PreparingRebalance  | a member joins, leaves or fails; the leader or new metadata join again |
| any                 | Dead                | the group is deleted, or its partition has moved to another broker |

Only this module changes `state`. What a request does to the group is in `classic_protocol.py`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from klamm.broker.coordinator.outbox import Waiter
from klamm.broker.groups.limits import MEMBER_BYTES
from klamm.controller.config_definitions.hash_order import in_hash_order
from klamm.protocol.codec.messages import decode_message_at
from klamm.protocol.errors import ErrorCode, ProtocolError
from klamm.protocol.records.coordinator.groups import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from klamm.protocol.records.data import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
NO_TIMESTAMP: Final = -1
VERSION_BYTES: Final = 2


class GroupState(Enum):
    """The state of a classic group. The values are the names in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_S = GroupState
PREVIOUS_STATES: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE}),
    _S.PREPARING_REBALANCE: frozenset({_S.STABLE, _S.COMPLETING_REBALANCE, _S.EMPTY}),
    _S.COMPLETING_REBALANCE: frozenset({_S.PREPARING_REBALANCE}),
    _S.STABLE: frozenset({_S.COMPLETING_REBALANCE}),
    _S.DEAD: frozenset(_S),
}
"""By state: those from which a group may enter it."""


@dataclass(slots=True)
class Member:
    """One member of a classic group; times in ms."""

    member_id: str
    instance_id: str | None
    """`group.instance.id` of a static member (KIP-345); None: a dynamic member."""
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Mapping[str, bytes]
    """The metadata by protocol name, the preferred protocol first."""
    assignment: bytes = b""
    is_new: bool = False
    """Whether it has not been through a completed join yet: it can expire while it waits for one."""
    awaiting_join: Waiter | None = None
    awaiting_sync: Waiter | None = None

    def vote(self, candidates: frozenset[str]) -> str:
        """The preferred protocol among the candidates, which the member supports all."""
        return next(name for name in self.protocols if name in candidates)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its metadata for a protocol; empty if it does not support it."""
        return self.protocols.get(protocol_name or "", b"")

    def matches(self, protocols: Mapping[str, bytes]) -> bool:
        """Whether these protocols are the member's, in the same order and with the same metadata."""
        return list(self.protocols.items()) == list(protocols.items())


@dataclass(slots=True)
class ClassicGroup:
    """One group. `members` are in the order in which they were added."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.EMPTY
    state_since_ms: int = NO_TIMESTAMP
    """When the group entered its state; -1: unknown."""
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """Member ids by instance id."""
    pending_members: set[str] = field(default_factory=set)
    """Member ids that were given out and have not joined yet (KIP-394)."""
    pending_sync: set[str] = field(default_factory=set)
    """Members that have not sent SyncGroup in this generation."""
    awaiting_join_count: int = 0
    new_member_added: bool = False
    """Whether a member was added during the present step of the initial rebalance delay."""
    initial_delay_ms: int = 0
    """The present step of the initial rebalance delay."""
    initial_remaining_ms: int = 0
    """How much the initial rebalance delay may still be extended."""
    subscribed_topics: frozenset[str] | None = None
    """The topics that the members are subscribed to; None: unknown."""
    metadata_bytes: int = 0
    """The size of the members' metadata, for all their protocols."""
    _supported: dict[str, int] = field(default_factory=dict)
    """By protocol name: how many members support it."""

    # -- state -----------------------------------------------------------------------------------------------------

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Enter a state. Only the transitions in the table above are possible."""
        assert self.state in PREVIOUS_STATES[state], f"from {self.state} to {state}"
        self.previous_state, self.state = self.state, state
        self.state_since_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return self.state in PREVIOUS_STATES[GroupState.PREPARING_REBALANCE]

    def begin_next_generation(self, now_ms: int) -> None:
        """Complete the join: CompletingRebalance, or Empty without members."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._find_subscribed_topics()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)
        self.pending_sync.clear()

    # -- members ---------------------------------------------------------------------------------------------------

    def in_order(self) -> Iterator[Member]:
        """The members in the order of Kafka's HashMap."""
        return (self.members[member_id] for member_id in in_hash_order(self.members))

    def add(self, member: Member, waiter: Waiter | None) -> None:
        """Add a member. The first one becomes leader, and decides the protocol type."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        self._await_join(member, waiter)
        self.pending_members.discard(member.member_id)

    def update(
        self,
        member: Member,
        protocols: Mapping[str, bytes],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        waiter: Waiter | None,
    ) -> None:
        """Take over what a member has sent with JoinGroup."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms, member.session_timeout_ms = rebalance_timeout_ms, session_timeout_ms
        self._await_join(member, waiter)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member id. The leadership passes to the first remaining member."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            self._await_join(member, None)
            if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
                del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next((member.member_id for member in self.in_order()), None)
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)

    def replace_static(self, instance_id: str, new_member_id: str) -> Member:
        """Give a static member a new member id. The caller has answered what the old one waits for."""
        old = self.members.pop(self.static_members[instance_id])
        self._await_join(old, None)
        new = Member(
            new_member_id,
            old.instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocol_type,
            old.protocols,
            old.assignment,
        )
        self.members[new_member_id] = new
        if self.leader_id == old.member_id:
            self.leader_id = new_member_id
        self.static_members[instance_id] = new_member_id
        return new

    def take_awaiting_join(self, member: Member) -> Waiter | None:
        """The JoinGroup request that the member waits with, which is answered now."""
        waiter = member.awaiting_join
        self._await_join(member, None)
        return waiter

    def _await_join(self, member: Member, waiter: Waiter | None) -> None:
        self.awaiting_join_count += (waiter is not None) - (member.awaiting_join is not None)
        member.awaiting_join = waiter

    def _count(self, member: Member, change: int) -> None:
        self.metadata_bytes += change * sum(map(len, member.protocols.values()))
        for name in member.protocols:
            self._supported[name] = self._supported.get(name, 0) + change
            if not self._supported[name]:
                del self._supported[name]

    def size_bytes(self) -> int:
        """What its members and its pending member ids take, roughly. The time is proportional to their number."""
        ids = [member.member_id + (member.instance_id or "") + member.client_id for member in self.members.values()]
        ids += self.pending_members
        return self.metadata_bytes + sum(map(len, ids)) + MEMBER_BYTES * len(ids)

    @property
    def has_all_members_joined(self) -> bool:
        return len(self.members) == self.awaiting_join_count and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Make a member leader that has joined, unless the leader has. False: no member has joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        joined = next((member.member_id for member in self.in_order() if member.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined
        return True

    def validate_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """NONE for a member; FENCED_INSTANCE_ID for an older id of a static member; else UNKNOWN_MEMBER_ID."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # -- protocols -------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Mapping[str, bytes]) -> bool:
        """Whether a member with these protocols may join: one of them is supported by all members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        if self.protocol_type != protocol_type:
            return False
        return any(self._supported.get(name, 0) == len(self.members) for name in protocols)

    def select_protocol(self) -> str:
        """The protocol that most members prefer among those that all support."""
        candidates = frozenset(name for name, count in self._supported.items() if count == len(self.members))
        return most_voted(member.vote(candidates) for member in self.members.values())

    def _find_subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if self.protocol_name is None and self.members:
            return None
        names: set[str] = set()
        for member in self.members.values():
            topics = subscribed_topics(member.metadata(self.protocol_name))
            if topics is None:
                return None
            names.update(topics)
        return frozenset(names)

    def is_subscribed_to(self, topic_name: str) -> bool:
        """Whether a member is subscribed to the topic, as far as the coordinator can read the subscriptions."""
        if self.subscribed_topics is not None:
            return topic_name in self.subscribed_topics
        return self.uses_consumer_protocol

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    # -- records ---------------------------------------------------------------------------------------------------

    def to_record(self, assignment: Mapping[str, bytes]) -> tuple[GroupMetadataKey, GroupMetadataValue]:
        """The record of the group with these assignments by member id."""
        members = [
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(self.protocol_name),
                assignment=assignment.get(member.member_id, b""),
            )
            for member in self.in_order()
        ]
        return GroupMetadataKey(group=self.group_id), GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=self.state_since_ms,
            members=members,
        )

    @classmethod
    def from_record(cls, key: GroupMetadataKey, value: GroupMetadataValue) -> "ClassicGroup":
        """The group that a record says, as far as records say it."""
        group = cls(
            key.group,
            state=GroupState.STABLE if value.members else GroupState.EMPTY,
            generation_id=value.generation,
            protocol_type=value.protocol_type or None,
        )
        for one in value.members:
            member = Member(
                one.member_id,
                one.group_instance_id,
                one.client_id,
                one.client_host,
                # Records of version 0 have no rebalance timeout.
                one.session_timeout if one.rebalance_timeout == -1 else one.rebalance_timeout,
                one.session_timeout,
                value.protocol_type or "",
                {value.protocol or "": one.subscription},
                one.assignment,
            )
            group.add(member, None)
        group.protocol_name = value.protocol
        group.leader_id = value.leader
        group.protocol_type = value.protocol_type or None
        group.state_since_ms = value.current_state_timestamp
        group.subscribed_topics = group._find_subscribed_topics()
        return group


def subscribed_topics(metadata: bytes) -> Sequence[str] | None:
    """The topics in a consumer's subscription; None if it cannot be read. Newer versions begin like version 0."""
    if len(metadata) < VERSION_BYTES or int.from_bytes(metadata[:VERSION_BYTES], "big", signed=True) < 0:
        return None
    try:
        subscription, _ = decode_message_at(ConsumerProtocolSubscription, 0, False, metadata, VERSION_BYTES)
    except ProtocolError:
        return None
    return subscription.topics


def most_voted(votes: Iterable[str]) -> str:
    """The name with most votes. Kafka counts in a HashMap, and the last one of several maxima wins."""
    counts = Counter(votes)
    most = max(counts.values())
    return [name for name in in_hash_order(counts) if counts[name] == most][-1]
