"""Members leave or are removed: by a request, or because a timer expired; and the first assignment after its delay."""

from collections.abc import Callable
from dataclasses import replace

from klamm.broker.groups.streams import records
from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.groups.streams.member import MemberState
from klamm.broker.groups.streams.outcome import Context, Outcome, StreamsSettings, Timer, TimerKind
from klamm.broker.groups.streams.target import compute_target
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.errors import ApiError
from klamm.protocol.fields import Message
from klamm.protocol.messages.streams.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

STANDBY_REPLICAS = "num.standby.replicas"


def leave(
    group: StreamsGroup | None,
    exists: bool,
    request: StreamsGroupHeartbeatRequest,
    refused: Callable[[ApiError], Message],
) -> Outcome | ApiError:
    """A member leaves. Who asks for a shutdown of the application need not be a member, as in Kafka."""
    group_id, member_id = request.group_id, request.member_id
    if group is None:
        text = f"Group {group_id} is not a streams group." if exists else f"Group {group_id} not found."
        return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, text)
    soft = replace(group.soft)
    if request.shutdown_application and soft.shutdown_by is None:
        soft.shutdown_by = member_id
    if member_id not in group.members:
        text = f"Member {member_id} is not a member of group {group_id}."
        return Outcome(refused(ApiError(ErrorCode.UNKNOWN_MEMBER_ID, text)), soft=soft)
    response = StreamsGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch, status=[])
    return replace(remove(group, member_id, response), soft=soft)


def remove(group: StreamsGroup, member_id: str, response: Message | None = None) -> Outcome:
    """Remove a member; the group's next epoch tells the others that its tasks are free."""
    group_id = group.group_id
    written = [
        *records.no_member(group_id, member_id),
        records.group_epoch(
            group_id,
            group.group_epoch + 1,
            group.metadata_hash,
            group.validated_topology_epoch,
            group.assignment_configs,
        ),
    ]
    timers = [Timer(kind, member_id, None) for kind in (TimerKind.SESSION, TimerKind.REBALANCE)]
    return Outcome(response, written, timers)


def expire(group: StreamsGroup | None, timer: Timer, context: Context) -> Outcome:
    """What a timer does when it expires; nothing if the member is gone or has moved on."""
    if group is None:
        return Outcome()
    if timer.kind is TimerKind.INITIAL:
        return _assign_first(group, context)
    member = group.members.get(timer.member_id)
    if member is None:
        return Outcome()
    if timer.kind is TimerKind.REBALANCE and member.member_epoch != timer.member_epoch:
        return Outcome()
    return remove(group, timer.member_id)


def _assign_first(group: StreamsGroup, context: Context) -> Outcome:
    """The target of those that have joined while the first assignment was delayed. A group whose only heartbeat so far
    made it does not know its topics yet: the next heartbeat computes the target."""
    configured = group.soft.configured
    if not group.members or configured is None or group.group_epoch <= group.assignment_epoch:
        return Outcome()
    standby_replicas = int(group.assignment_configs.get(STANDBY_REPLICAS, "0"))
    computed = compute_target(group, group.group_epoch, None, configured, standby_replicas, context)
    return Outcome() if isinstance(computed, ApiError) else Outcome(records=computed[0])


def timers_when_loaded(group: StreamsGroup, settings: StreamsSettings) -> list[Timer]:
    """The timers of all members when a coordinator has loaded the group: sessions start anew."""
    timers = []
    for member in group.members.values():
        timers.append(Timer(TimerKind.SESSION, member.member_id, settings.session_timeout_ms))
        if member.state is MemberState.UNREVOKED_TASKS:
            timers.append(
                Timer(TimerKind.REBALANCE, member.member_id, member.rebalance_timeout_ms, member.member_epoch)
            )
    return timers
