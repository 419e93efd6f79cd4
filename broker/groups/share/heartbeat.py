"""ShareGroupHeartbeat (KIP-932): a member joins, says what it subscribes to, and learns its partitions; or leaves."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from klamm.broker.groups.assignors import Assignment, GroupSpec, MemberSpec
from klamm.broker.groups.assignors.simple import assign_simple
from klamm.broker.groups.assignors.spec import NOTHING
from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.consumer.subscriptions import metadata_hash
from klamm.broker.groups.share import records
from klamm.broker.groups.share.group import ShareGroup, ShareMember
from klamm.broker.groups.share.outcome import Initialization, ShareContext, ShareOutcome
from klamm.broker.groups.share.state_partitions import (
    UNINITIALIZED,
    assignment_is_pending,
    missing_partitions,
    with_initializing,
)
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.errors import ApiError
from klamm.protocol.messages.shares import share_group_heartbeat as message
from klamm.protocol.messages.shares.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from klamm.protocol.uuid import Uuid

LEAVING_EPOCH: Final = -1
MAX_MEMBER_ID_CHARACTERS: Final = 36


def refused(error: ApiError) -> ShareGroupHeartbeatResponse:
    """The response of a refused heartbeat: member id null, epoch and interval 0."""
    return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def check_request(request: ShareGroupHeartbeatRequest) -> ApiError | None:
    """What is wrong with the request whatever the group is, in Kafka's order."""
    for name, text in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("RackId", request.rack_id),
    ):
        if text is not None and not text.strip():
            return _invalid(f"{name} can't be empty.")
    if request.member_epoch == 0 and not request.subscribed_topic_names:
        return _invalid("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVING_EPOCH:
        return _invalid("MemberEpoch is invalid.")
    return None


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, text)


def handle_heartbeat(
    group: ShareGroup | None, request: ShareGroupHeartbeatRequest, context: ShareContext
) -> ShareOutcome | ApiError:
    """Decide a heartbeat that has passed `check_request`. `group`: None if there is none of this id."""
    if request.member_epoch == LEAVING_EPOCH:
        return _leave(group, request, context)
    joins = request.member_epoch == 0
    if group is None:
        if not joins:
            return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {request.group_id} not found.")
        group = ShareGroup(request.group_id)
    member = group.members.get(request.member_id)
    if member is None and len(group.members) >= context.settings.max_size:
        return ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {context.settings.max_size} members.",
        )
    if member is None:
        if not joins:
            return _unknown_member(request)
        member = ShareMember(request.member_id)
    return _fenced_epoch(member, request.member_epoch) or _beat(group, member, request, context)


def _unknown_member(request: ShareGroupHeartbeatRequest) -> ApiError:
    text = f"Member {request.member_id} is not a member of group {request.group_id}."
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, text)


def _fenced_epoch(member: ShareMember, epoch: int) -> ApiError | None:
    """The epoch before is accepted: the member may have lost the answer with the new one."""
    if epoch in (0, member.member_epoch):
        return None
    known = f"({epoch}) than the one known by the group coordinator ({member.member_epoch})"
    if epoch > member.member_epoch:
        text = f"The share group member has a greater member epoch {known}. "
    elif epoch != member.previous_member_epoch:
        text = f"The share group member has a smaller member epoch {known}, and it does not match the previous member "
        text += f"epoch ({member.previous_member_epoch}). "
    else:
        return None
    return ApiError(ErrorCode.FENCED_MEMBER_EPOCH, text + "The member must abandon all its partitions and rejoin.")


def _beat(
    group: ShareGroup, member: ShareMember, request: ShareGroupHeartbeatRequest, context: ShareContext
) -> ShareOutcome:
    names = request.subscribed_topic_names
    updated = replace(
        member,
        rack_id=request.rack_id if request.rack_id is not None else member.rack_id,
        subscribed_topic_names=frozenset(names) if names is not None else member.subscribed_topic_names,
        client_id=context.client_id,
        client_host=context.client_host,
    )
    written: list[Record] = []
    if updated != member:
        written.append(records.subscription(group.group_id, updated))
    has_changed = updated.subscribed_topic_names != member.subscribed_topic_names
    epoch, counts, was_bumped, refreshed_at = _group_epoch(group, member, updated, context, written, bump=has_changed)
    target_epoch, target = _target(group, epoch, updated, counts, context, written)
    settled = _reconciled(updated, target_epoch, target, context, subscription_changed=was_bumped)
    if settled != updated:
        written.append(records.current(group.group_id, settled))
    shows_assignment = request.member_epoch == 0 or names is not None or settled.assigned != member.assigned
    response = ShareGroupHeartbeatResponse(
        member_id=settled.member_id,
        member_epoch=settled.member_epoch,
        heartbeat_interval_ms=context.settings.heartbeat_interval_ms,
        assignment=_shown(settled.assigned) if shows_assignment else None,
    )
    initialization = _initialization(group, epoch, counts, context, written)
    return ShareOutcome(
        response, written, session_of=member.member_id, refreshed_at=refreshed_at, initialization=initialization
    )


def _shown(assignment: Assignment) -> message.Assignment:
    return message.Assignment(
        topic_partitions=[
            message.TopicPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in assignment.items()
        ]
    )


def _group_epoch(
    group: ShareGroup,
    was: ShareMember,
    becomes: ShareMember,
    context: ShareContext,
    written: list[Record],
    *,
    bump: bool,
) -> tuple[int, Mapping[str, int], bool, int | None]:
    """The group's epoch, how many members name each topic, whether the epoch has grown, and at which epoch the topics'
    metadata were compared (None: they were not)."""
    counts: Mapping[str, int] = group.topic_name_counts
    if group.assignment_epoch >= group.group_epoch:
        bump |= assignment_is_pending(group)
    if not bump and not group.metadata_are_stale:
        return group.group_epoch, counts, False, None
    counts = group.counts_with(becomes, was)
    hashed = metadata_hash(counts, context.topics)
    bump |= hashed != group.metadata_hash
    epoch = group.group_epoch + bump
    if bump:
        written.append(records.group_epoch(group.group_id, epoch, hashed))
    return epoch, counts, bump, epoch


def _target(
    group: ShareGroup,
    epoch: int,
    member: ShareMember,
    counts: Mapping[str, int],
    context: ShareContext,
    written: list[Record],
) -> tuple[int, Assignment]:
    """The epoch of the target assignment and the member's part of it, which are computed anew if they are due."""
    interval_ms, last_ms = context.settings.assignment_interval_ms, group.assignment_timestamp_ms
    may_compute = not interval_ms or not last_ms or context.now_ms >= last_ms + interval_ms
    if group.assignment_epoch >= epoch or not may_compute:
        return group.assignment_epoch, group.target_of(member.member_id)
    members = {**group.members, member.member_id: member}
    sizes: dict[Uuid, int] = {}
    ids: dict[str, Uuid] = {}
    for name in counts:
        topic = context.topics.named(name)
        if topic is not None:
            ids[name], sizes[topic.topic_id] = topic.topic_id, topic.partitions
    specs = {
        name: MemberSpec(
            frozenset(ids[one] for one in each.subscribed_topic_names if one in ids), group.target_of(name)
        )
        for name, each in members.items()
    }
    homogeneous = all(count == len(members) for count in counts.values())
    ready = group.state_topics.initialized if group.state_topics is not None else {}
    assignments = assign_simple(
        GroupSpec(specs, sizes, homogeneous),
        lambda topic_id, partition: topic_id in ready and partition in ready[topic_id].partitions,
    )
    written += [
        records.target(group.group_id, name, assignments.get(name, NOTHING))
        for name in members
        if assignments.get(name, NOTHING) != group.target.get(name)
    ]
    written.append(records.target_epoch(group.group_id, epoch, context.now_ms))
    return epoch, assignments.get(member.member_id, NOTHING)


def _reconciled(
    member: ShareMember, epoch: int, target: Assignment, context: ShareContext, *, subscription_changed: bool
) -> ShareMember:
    """The member with its part of the target assignment: share groups have no revocation, because members share."""
    if not subscription_changed and member.member_epoch == epoch:
        return member
    subscribed = {
        topic.topic_id for name in member.subscribed_topic_names if (topic := context.topics.named(name)) is not None
    }
    assigned = {topic_id: partitions for topic_id, partitions in target.items() if topic_id in subscribed}
    if member.member_epoch == epoch:
        return replace(member, assigned=assigned)
    return replace(member, assigned=assigned, member_epoch=epoch, previous_member_epoch=member.member_epoch)


def _initialization(
    group: ShareGroup, epoch: int, counts: Mapping[str, int], context: ShareContext, written: list[Record]
) -> Initialization | None:
    missing = missing_partitions(group, counts, context.topics, context.now_ms, context.settings.initialize_retry_ms)
    if not missing:
        return None
    written.append(records.state_topics(group.group_id, with_initializing(group.state_topics, missing)))
    offsets = {topic_id: dict.fromkeys(sorted(found.partitions), UNINITIALIZED) for topic_id, found in missing.items()}
    return Initialization(group.group_id, epoch, offsets)


def _leave(
    group: ShareGroup | None, request: ShareGroupHeartbeatRequest, context: ShareContext
) -> ShareOutcome | ApiError:
    if group is None:
        return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
    if request.member_id not in group.members:
        return _unknown_member(request)
    response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    return without_member(group, request.member_id, context, response)


def without_member(
    group: ShareGroup, member_id: str, context: ShareContext, response: ShareGroupHeartbeatResponse | None = None
) -> ShareOutcome:
    """A member leaves, or its session has ended. The target assignment is computed by the next heartbeat."""
    hashed = metadata_hash(group.counts_with(None, group.members[member_id]), context.topics)
    written = [
        *records.no_member(group.group_id, member_id),
        records.group_epoch(group.group_id, group.group_epoch + 1, hashed),
    ]
    return ShareOutcome(response, written, without_session=member_id)
