"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

The group's epoch is their generation, the coordinator is their leader: no member sees the others' metadata, and each
gets its partitions by SyncGroup. Source: KIP-848, section on the compatibility of the protocols.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from klamm.broker.groups.consumer.conversion import (
    classic_assignment,
    downgrade,
    downgrades_by_replacement,
)
from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.consumer.joining import (
    Found,
    fenced_instance,
    find_joining,
    find_present,
    full,
    unknown_member,
)
from klamm.broker.groups.consumer.leaving import remove
from klamm.broker.groups.consumer.member import Member, MemberState, partitions_of
from klamm.broker.groups.consumer.outcome import Context, Outcome, Timer, TimerKind
from klamm.broker.groups.consumer.reconciliation import Owned, Target
from klamm.broker.groups.consumer.topics import Topics
from klamm.broker.groups.consumer.work import Work
from klamm.broker.groups.consumer_protocol import CONSUMER, decode_subscription, version_of
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.errors import ApiError, ProtocolError
from klamm.protocol.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from klamm.protocol.messages.groups.join_group import JoinGroupRequest, JoinGroupResponse
from klamm.protocol.messages.groups.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from klamm.protocol.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from klamm.protocol.records.coordinator.consumer_groups import ClassicMemberMetadata, ClassicProtocol
from klamm.protocol.records.data import ConsumerProtocolSubscription

FIRST_VERSION_WITH_REQUIRED_MEMBER_ID = 4


def join(group: ConsumerGroup, request: JoinGroupRequest, context: Context) -> Outcome | ApiError:
    """JoinGroup of a consumer group that has members."""
    member_id = request.member_id or context.new_member_id()
    refusal = full(group, member_id, context.settings) or _unsupported(group, member_id, request)
    if refusal is not None:
        return refusal
    static = request.group_instance_id is not None
    if not (request.member_id or static) and context.api_version >= FIRST_VERSION_WITH_REQUIRED_MEMBER_ID:
        return Outcome(JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED))
    found = _find(group, request, member_id)
    if isinstance(found, ApiError):
        return found
    try:
        subscription = decode_subscription(request.protocols[0].metadata)
    except ProtocolError as error:
        return ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"The subscription of member {member_id} is malformed: {error}."
        )
    updated = _updated(found.member, request, subscription, context)
    replaced = group.static_member(request.group_instance_id)
    if replaced is not None and downgrades_by_replacement(group, replaced, context.settings):
        return _join_and_downgrade(found, updated, subscription, context)
    work = Work(found.group, context, list(found.records), list(found.timers))
    settled = work.settle(found.member, updated, _owned(subscription, context.topics))
    if isinstance(settled, ApiError):
        return settled
    work.timers += [
        Timer(TimerKind.JOIN, settled.member_id, None),
        Timer(TimerKind.SESSION, settled.member_id, request.session_timeout_ms),
        Timer(TimerKind.SYNC, settled.member_id, request.rebalance_timeout_ms),
    ]
    return work.outcome(_joined(settled))


def _unsupported(group: ConsumerGroup, member_id: str, request: JoinGroupRequest) -> ApiError | None:
    """A member of the classic protocol must offer one that all the others of this protocol support."""
    counts, size = group.classic_protocol_counts, group.classic_size
    if request.protocol_type == CONSUMER and any(counts[each.name] == size for each in request.protocols):
        return None
    return ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")


def _find(group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> Found | ApiError:
    if request.group_instance_id is None or not request.member_id:
        return find_joining(group, member_id, request.group_instance_id, classic=True)
    present = find_present(group, member_id, request.group_instance_id)
    return present if isinstance(present, ApiError) else Found(group, present)


def _updated(
    member: Member, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription, context: Context
) -> Member:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=timeout_ms if timeout_ms != -1 else member.rebalance_timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",
        client_id=context.client_id,
        client_host=context.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=each.name, metadata=each.metadata) for each in request.protocols],
        ),
    )


def _owned(subscription: ConsumerProtocolSubscription, topics: Topics) -> Owned:
    named = ((topics.named(each.topic), each.partitions) for each in subscription.owned_partitions)
    return {topic.topic_id: frozenset(partitions) for topic, partitions in named if topic is not None}


def _join_and_downgrade(
    found: Found, updated: Member, subscription: ConsumerProtocolSubscription, context: Context
) -> Outcome | ApiError:
    """The last member of the consumer protocol is replaced: the group becomes a classic one. It rebalances at once if
    its target assignment is older than the group."""
    group = found.group
    work = Work(group, context, list(found.records), list(found.timers))
    refusal = work.subscribe(found.member, updated)
    if refusal is not None:
        return refusal
    rebalance = group.assignment_epoch < work.group_epoch
    settled: Member | ApiError = updated
    if not rebalance:
        target = Target(group.assignment_epoch, group.target_of(updated.member_id))
        settled = work.reconcile(updated, target, _owned(subscription, context.topics))
    if isinstance(settled, ApiError):
        return settled
    converted = downgrade(group, [], settled, context, rebalance=rebalance)
    if isinstance(converted, ApiError):
        return converted
    return replace(
        converted,
        response=_joined(settled),
        records=[*work.records, *converted.records],
        timers=[*work.timers, *converted.timers],
    )


def _joined(member: Member) -> JoinGroupResponse:
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.member_epoch,
        protocol_type=CONSUMER,
        protocol_name=_protocols(member)[0].name,
    )


def _protocols(member: Member) -> Sequence[ClassicProtocol]:
    return member.classic.supported_protocols if member.classic is not None else ()


def sync(group: ConsumerGroup, request: SyncGroupRequest, context: Context) -> Outcome | ApiError:
    """SyncGroup: the member's partitions, in the version of its subscription."""
    member = _find_classic(group, request.member_id, request.group_instance_id)
    if isinstance(member, ApiError):
        return member
    refusal = _other_generation(member, request.generation_id) or _other_protocol(member, request)
    if refusal is not None:
        return refusal
    if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        # The refusal itself starts a timer: the member has to join again in time.
        return Outcome(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), timers=[_join_again(member)])
    version = version_of(_protocols(member)[0].metadata)
    response = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=classic_assignment(partitions_of(member.assigned), version, context.topics),
    )
    return Outcome(response, timers=[Timer(TimerKind.SYNC, member.member_id, None), _session(member)])


def heartbeat(group: ConsumerGroup, request: HeartbeatRequest) -> Outcome | ApiError:
    """Heartbeat: REBALANCE_IN_PROGRESS when the member has to join again, to give up partitions or to get some."""
    member = _find_classic(group, request.member_id, request.group_instance_id)
    if isinstance(member, ApiError):
        return member
    refusal = _other_generation(member, request.generation_id)
    if refusal is not None:
        return refusal
    rejoins = (
        member.member_epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
    )
    if not rejoins:
        return Outcome(HeartbeatResponse(), timers=[_session(member)])
    return Outcome(
        HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), timers=[_session(member), _join_again(member)]
    )


def leave(group: ConsumerGroup, identities: Iterable[MemberIdentity], context: Context) -> Outcome:
    """LeaveGroup (v3 and later): each member by its id or, if it is static, by its instance id alone; also members of
    the consumer protocol."""
    answers: list[MemberResponse] = []
    leaving: dict[str, Member] = {}
    for identity in identities:
        member = _find_leaving(group, identity)
        error = member.code if isinstance(member, ApiError) else ErrorCode.NONE
        if not isinstance(member, ApiError):
            leaving[member.member_id] = member
        answers.append(
            MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error)
        )
    return remove(group, list(leaving.values()), context, LeaveGroupResponse(members=answers))


def _find_leaving(group: ConsumerGroup, identity: MemberIdentity) -> Member | ApiError:
    if identity.group_instance_id is not None and not identity.member_id:
        member = group.static_member(identity.group_instance_id)
        return member or unknown_member(group, identity.member_id)
    return find_present(group, identity.member_id, identity.group_instance_id)


def _find_classic(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member | ApiError:
    member = group.members.get(member_id) if instance_id is None else group.static_member(instance_id)
    if member is None:
        return unknown_member(group, member_id)
    refusal = fenced_instance(member, member_id, instance_id) if instance_id is not None else None
    if refusal is None and member.classic is None:
        refusal = ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    return refusal or member


def _other_generation(member: Member, generation: int) -> ApiError | None:
    if generation == member.member_epoch:
        return None
    return ApiError(
        ErrorCode.ILLEGAL_GENERATION,
        f"The request generation id {generation} is not equal to the member epoch {member.member_epoch} of member "
        f"{member.member_id}.",
    )


def _other_protocol(member: Member, request: SyncGroupRequest) -> ApiError | None:
    wrong_type = request.protocol_type not in (None, CONSUMER)
    wrong_name = request.protocol_name not in (None, _protocols(member)[0].name)
    if not wrong_type and not wrong_name:
        return None
    return ApiError(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        f"Member {member.member_id} syncs by another protocol than the join response named.",
    )


def _waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    """A partition of its target is still another member's."""
    return any(
        partition not in member.assigned.get(topic_id, ()) and group.is_owned(topic_id, partition)
        for topic_id, partitions in group.target_of(member.member_id).items()
        for partition in partitions
    )


def _session(member: Member) -> Timer:
    return Timer(TimerKind.SESSION, member.member_id, member.classic.session_timeout_ms if member.classic else 0)


def _join_again(member: Member) -> Timer:
    return Timer(TimerKind.JOIN, member.member_id, member.rebalance_timeout_ms, keeps_running=True)
