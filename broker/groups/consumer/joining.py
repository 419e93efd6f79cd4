"""Which member a heartbeat or a join is about, and whether it may speak: new members, epochs, static members."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from klamm.broker.groups.consumer import records
from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.consumer.member import LEAVING_STATIC_EPOCH, Member
from klamm.broker.groups.consumer.outcome import GroupSettings, Timer, TimerKind
from klamm.broker.groups.consumer.reconciliation import Owned
from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.consumer.replay import replayed_on
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.errors import ApiError


@dataclass(frozen=True, slots=True)
class Found:
    """The member, and the group in which it is (or will be) one."""

    group: ConsumerGroup
    """With `records` applied."""
    member: Member
    records: list[Record] = field(default_factory=list)
    """What has to be written first."""
    timers: list[Timer] = field(default_factory=list)


def full(group: ConsumerGroup, member_id: str, settings: GroupSettings) -> ApiError | None:
    """Refuses members that are not in the group yet when it has its largest size."""
    if len(group.members) < settings.max_size or member_id in group.members:
        return None
    return ApiError(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"The consumer group has reached its maximum capacity of {settings.max_size} members.",
    )


def unknown_member(group: ConsumerGroup, member_id: str) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


def find_joining(group: ConsumerGroup, member_id: str, instance_id: str | None, *, classic: bool) -> Found | ApiError:
    """The member that joins: a new one, one that joins again, or one that takes over a static member's place.

    The place of a member of the consumer protocol is free only when it has left for a while (epoch -2).
    """
    present = group.static_member(instance_id)
    if present is None:
        return Found(group, group.members.get(member_id) or Member(member_id))
    if not classic and present.classic is None and present.member_epoch != LEAVING_STATIC_EPOCH:
        return ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {present.member_id} member.",
        )
    return _replaced(group, present, member_id)


def _replaced(group: ConsumerGroup, present: Member, member_id: str) -> Found:
    newcomer = replace(present, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    group_id = group.group_id
    written = [
        *records.no_member(group_id, present.member_id),
        records.subscription(group_id, newcomer),
        records.target(group_id, member_id, group.target_of(present.member_id)),
        records.current(group_id, newcomer),
    ]
    draft = replayed_on(group, written)
    stopped = [] if member_id == present.member_id else stopped_timers(present.member_id)
    return Found(draft, draft.members[member_id], written, stopped)


def find_present(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member | ApiError:
    """The member that says so of itself by member id and, if it is static, instance id."""
    if instance_id is None:
        return group.members.get(member_id) or unknown_member(group, member_id)
    member = group.static_member(instance_id)
    if member is None:
        return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    return fenced_instance(member, member_id, instance_id) or member


def fenced_instance(member: Member, member_id: str, instance_id: str) -> ApiError | None:
    """Refuses a member id other than the one that has the instance id."""
    if member.member_id == member_id:
        return None
    return ApiError(
        ErrorCode.FENCED_INSTANCE_ID,
        f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
    )


def fenced_epoch(member: Member, epoch: int, owned: Owned | None) -> ApiError | None:
    """Refuses epochs other than the member's. The one before is accepted from a member that has lost the answer with
    the new one: it owns nothing but what it has been assigned."""
    if epoch in (0, member.member_epoch):
        return None
    if epoch == member.previous_member_epoch < member.member_epoch and _is_subset(owned, member):
        return None
    relation = "greater" if epoch > member.member_epoch else "smaller"
    return ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def _is_subset(owned: Owned | None, member: Member) -> bool:
    nothing: Collection[int] = ()
    return owned is not None and all(
        topic_id in member.assigned and partition in member.assigned.get(topic_id, nothing)
        for topic_id, partitions in owned.items()
        for partition in partitions
    )


def stopped_timers(member_id: str) -> list[Timer]:
    """All timers of a member that is no longer one."""
    return [Timer(kind, member_id, None) for kind in TimerKind]
