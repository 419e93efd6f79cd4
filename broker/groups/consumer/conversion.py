"""Between the protocols: what kind of group an id names, upgrades of classic groups, downgrades of consumer groups.

Source: KIP-848, section on the compatibility of the protocols, and Kafka 4.3's answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from klamm.broker.groups.assignors import Assignment
from klamm.broker.groups.classic_group import most_voted
from klamm.broker.groups.consumer import records
from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.consumer.member import Member, at_epoch
from klamm.broker.groups.consumer.outcome import Context, Downgrade, GroupSettings, Outcome, Timer, TimerKind
from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.consumer.replay import replayed_on
from klamm.broker.groups.consumer.subscriptions import metadata_hash
from klamm.broker.groups.consumer.topics import Topics
from klamm.broker.groups.consumer_protocol import (
    CONSUMER,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    version_of,
)
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.errors import ApiError, ProtocolError
from klamm.protocol.records.coordinator.consumer_groups import ClassicMemberMetadata, ClassicProtocol
from klamm.protocol.records.coordinator.groups import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from klamm.protocol.records.data import ConsumerProtocolAssignment, ConsumerProtocolAssignmentTopicPartition


@dataclass(frozen=True, slots=True)
class ClassicMemberView:
    """A member of a classic group, as far as a conversion needs it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Sequence[ClassicProtocol]
    """In the member's order of preference."""
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ClassicView:
    """A classic group, as far as a conversion needs it."""

    group_id: str
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    members: Sequence[ClassicMemberView]


@dataclass(frozen=True, slots=True)
class Opened:
    """A consumer group, and what has to be written to make one of what was there."""

    group: ConsumerGroup
    records: list[Record] = field(default_factory=list)
    timers: list[Timer] = field(default_factory=list)


def open_group(
    found: ConsumerGroup | ClassicView | None, group_id: str, context: Context, *, joins: bool
) -> Opened | ApiError:
    """The consumer group of a heartbeat. One that joins makes a group, takes over an empty classic one, or upgrades a
    classic one that has members."""
    if isinstance(found, ConsumerGroup):
        return Opened(found)
    if found is None:
        return Opened(ConsumerGroup(group_id)) if joins else _not_found(f"Consumer group {group_id} not found.")
    if not joins:
        return _not_consumer(group_id)
    if not found.members:
        return Opened(ConsumerGroup(group_id), [Record(GroupMetadataKey(group=group_id))])
    return _upgrade(found, context)


def opened_consumer_group(found: ConsumerGroup | ClassicView | None, group_id: str) -> ConsumerGroup | ApiError:
    """The consumer group of a request that makes none."""
    if isinstance(found, ConsumerGroup):
        return found
    return _not_found(f"Group {group_id} not found.") if found is None else _not_consumer(group_id)


def _not_found(message: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _not_consumer(group_id: str) -> ApiError:
    return _not_found(f"Group {group_id} is not a consumer group.")


def _upgrade(classic: ClassicView, context: Context) -> Opened | ApiError:
    """The classic group as a consumer group: its generation is the epoch, its members keep their partitions."""
    start = f"Cannot upgrade classic group {classic.group_id} to consumer group because"
    settings = context.settings
    if not settings.migration_policy.upgrades:
        return _not_found(f"{start} online upgrade is disabled.")
    if classic.protocol_type != CONSUMER:
        return _not_found(f"{start} the group does not use the consumer embedded protocol.")
    if len(classic.members) > settings.max_size:
        return _not_found(f"{start} the group size exceeds the consumer group maximum size.")
    draft = ConsumerGroup(classic.group_id)
    draft.group_epoch = draft.assignment_epoch = classic.generation
    try:
        for view in classic.members:
            assignment = _assigned(view.assignment, context.topics)
            if assignment is None:
                return _not_found(
                    f"{start} an unsupported custom assignor is in use. Please refer to the documentation or switch to "
                    "a default assignor before re-attempting the upgrade."
                )
            draft.put_member(_as_consumer(view, classic, assignment))
            draft.target[view.member_id] = assignment
    except ProtocolError:
        return _not_found(f"{start} the embedded consumer protocol is malformed.")
    draft.metadata_hash = metadata_hash(draft.topic_name_counts, context.topics)
    written = [Record(GroupMetadataKey(group=classic.group_id)), *records.whole_group(draft)]
    timers = [Timer(TimerKind.SESSION, view.member_id, view.session_timeout_ms) for view in classic.members]
    return Opened(replayed_on(ConsumerGroup(classic.group_id), written), written, timers)


def _assigned(data: bytes, topics: Topics) -> Assignment | None:
    """The partitions in an assignment's bytes, of topics that exist; None if an assignor added data of its own."""
    if not data:
        return {}
    assignment = decode_assignment(data)
    if assignment.user_data:
        return None
    found = {each.topic: each.partitions for each in assignment.assigned_partitions if each.partitions}
    known = ((topics.named(name), partitions) for name, partitions in found.items())
    return {topic.topic_id: tuple(sorted(partitions)) for topic, partitions in known if topic is not None}


def _as_consumer(view: ClassicMemberView, classic: ClassicView, assignment: Assignment) -> Member:
    metadata = {each.name: each.metadata for each in view.protocols}.get(classic.protocol_name or "", b"")
    subscription = decode_subscription(metadata)
    return Member(
        member_id=view.member_id,
        instance_id=view.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=view.client_id,
        client_host=view.client_host,
        rebalance_timeout_ms=view.rebalance_timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        classic=ClassicMemberMetadata(
            session_timeout_ms=view.session_timeout_ms, supported_protocols=list(view.protocols)
        ),
        member_epoch=classic.generation,
        previous_member_epoch=classic.generation,
        assigned=at_epoch(assignment, classic.generation),
    )


def downgrades_without(group: ConsumerGroup, leaving: Sequence[Member], settings: GroupSettings) -> bool:
    """Those that stay all use the classic protocol, and may have a classic group."""
    staying = len(group.members) - len(leaving)
    classic_staying = group.classic_size - sum(member.classic is not None for member in leaving)
    return 0 < staying == classic_staying <= settings.classic_max_size and settings.migration_policy.downgrades


def downgrades_by_replacement(group: ConsumerGroup, replaced: Member, settings: GroupSettings) -> bool:
    """A static member that is replaced by one of the classic protocol was the last of the consumer protocol."""
    return (
        replaced.classic is None
        and group.classic_size == len(group.members) - 1
        and len(group.members) <= settings.classic_max_size
        and settings.migration_policy.downgrades
    )


def downgrade(
    group: ConsumerGroup, leaving: Sequence[Member], joined: Member | None, context: Context, *, rebalance: bool
) -> Outcome | ApiError:
    """The group without those that leave, as a classic group: the epoch is its generation, and the target assignment
    is what its members have. `joined`: a member of `group` as the request leaves it."""
    gone = {member.member_id for member in leaving}
    members = [member for member_id, member in group.members.items() if member_id not in gone]
    if joined is not None:
        members = [joined if member.member_id == joined.member_id else member for member in members]
    protocols = {
        member.member_id: list(member.classic.supported_protocols) for member in members if member.classic is not None
    }
    chosen = choose_protocol(protocols)
    try:
        written = [_as_classic(member, group, chosen, context.topics) for member in members]
    except ProtocolError as error:
        return _not_found(f"Cannot downgrade the classic group {group.group_id}: {error}.")
    value = GroupMetadataValue(
        protocol_type=CONSUMER,
        generation=group.group_epoch,
        protocol=chosen,
        leader=members[0].member_id,
        current_state_timestamp=context.now_ms,
        members=written,
    )
    timers = [Timer(kind, member_id, None) for member_id in group.members for kind in TimerKind]
    return Outcome(
        records=[*records.no_group(group), Record(GroupMetadataKey(group=group.group_id), value)],
        timers=timers,
        downgrade=Downgrade(protocols, rebalance),
    )


def choose_protocol(protocols: Mapping[str, Sequence[ClassicProtocol]]) -> str:
    """Of the protocols that all members support, the one that most of them prefer to the others."""
    common = set.intersection(*({each.name for each in offered} for offered in protocols.values()))
    return most_voted(
        next((each.name for each in offered if each.name in common), "") for offered in protocols.values()
    )


def _as_classic(member: Member, group: ConsumerGroup, protocol: str, topics: Topics) -> MemberMetadata:
    classic = member.classic or ClassicMemberMetadata()
    metadata = {each.name: each.metadata for each in classic.supported_protocols}.get(protocol, b"")
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=classic.session_timeout_ms,
        subscription=metadata,
        assignment=classic_assignment(group.target_of(member.member_id), version_of(metadata), topics),
    )


def classic_assignment(assignment: Assignment, version: int, topics: Topics) -> bytes:
    """The bytes of the partitions, by topic name; topics that no longer exist are left out."""
    named = ((topics.with_id(topic_id), partitions) for topic_id, partitions in assignment.items())
    partitions_by_name = [
        ConsumerProtocolAssignmentTopicPartition(topic=topic.name, partitions=list(partitions))
        for topic, partitions in named
        if topic is not None
    ]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=partitions_by_name), version)
