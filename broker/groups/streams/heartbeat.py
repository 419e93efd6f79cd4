"""StreamsGroupHeartbeat (KIP-1071): a member joins, brings the topology, says what it has, and learns what it gets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.limits import MAX_STREAMS_MEMBERS
from klamm.broker.groups.streams import records
from klamm.broker.groups.streams.checks import JOINING_EPOCH, NOT_GIVEN, check_tasks, fenced_epoch
from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.groups.streams.leaving import leave
from klamm.broker.groups.streams.member import LEAVING_EPOCH, LEAVING_STATIC_EPOCH, Member, UserEndpoint
from klamm.broker.groups.streams.outcome import Context, Outcome, Timer, TimerKind
from klamm.broker.groups.streams.response import full_response
from klamm.broker.groups.streams.tasks import Tasks, task_sets
from klamm.broker.groups.streams.topology import TopologyFault, topology_of, topology_record
from klamm.broker.groups.streams.work import Work
from klamm.controller.configs import shortened
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.errors import ApiError
from klamm.protocol.messages.streams.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)
from klamm.protocol.records.coordinator.groups import GroupMetadataKey


@dataclass(frozen=True, slots=True)
class OtherKind:
    """A group of another kind has the group id."""

    is_empty_classic: bool
    """A classic group without members becomes a streams group when a member joins."""


def refused(error: ApiError) -> StreamsGroupHeartbeatResponse:
    """The response of a refused heartbeat."""
    text = shortened(error.message) if error.message is not None else None
    return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=text)


def handle_heartbeat(
    found: StreamsGroup | OtherKind | None, request: StreamsGroupHeartbeatRequest, context: Context
) -> Outcome | ApiError:
    """Decide a heartbeat about `found`, which is what the coordinator has under the request's group id.

    The request has passed `check_request`, which needs no coordinator."""
    if request.member_epoch in (LEAVING_EPOCH, LEAVING_STATIC_EPOCH):
        return leave(found if isinstance(found, StreamsGroup) else None, found is not None, request, refused)
    opened = _open(found, request)
    if isinstance(opened, ApiError):
        return opened
    group, written = opened
    refusal = _full(group, request, context) or _unknown(group, request)
    if refusal is not None:
        return refusal
    member = group.members.get(request.member_id) or Member(request.member_id)
    refusal = fenced_epoch(member, request)
    if refusal is not None:
        return refusal
    try:
        return _beat(Work(group, context, written), member, request, is_known=found is not None)
    except TopologyFault as fault:
        return ApiError(fault.code, fault.text)


def _open(
    found: StreamsGroup | OtherKind | None, request: StreamsGroupHeartbeatRequest
) -> tuple[StreamsGroup, list[Record]] | ApiError:
    """The group, and what has to be written to make it one."""
    group_id, joins = request.group_id, request.member_epoch == JOINING_EPOCH
    if isinstance(found, StreamsGroup):
        return found, []
    if found is None:
        return (StreamsGroup(group_id), []) if joins else _not_found(f"Streams group {group_id} not found.")
    if joins and found.is_empty_classic:
        return StreamsGroup(group_id), [Record(GroupMetadataKey(group=group_id))]
    return _not_found(f"Group {group_id} is not a streams group.")


def _full(group: StreamsGroup, request: StreamsGroupHeartbeatRequest, context: Context) -> ApiError | None:
    """Refuses whoever joins a group of the largest size, its own members too, as Kafka does."""
    most = min(context.settings.max_size, MAX_STREAMS_MEMBERS)
    if request.member_epoch != JOINING_EPOCH or len(group.members) < most:
        return None
    text = f"The streams group has reached its maximum capacity of {most} members."
    return ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def _unknown(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> ApiError | None:
    if request.member_epoch == JOINING_EPOCH or request.member_id in group.members:
        return None
    text = f"Member {request.member_id} is not a member of group {group.group_id}."
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, text)


def _not_found(message: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _beat(work: Work, member: Member, request: StreamsGroupHeartbeatRequest, *, is_known: bool) -> Outcome | ApiError:
    group, context = work.group, work.context
    updated = _updated(member, request, context)
    if updated != member:
        work.records.append(records.metadata(group.group_id, updated))
        work.bump = True
    refusal = _choose_topology(work, request)
    if refusal is not None:
        return refusal
    work.note_stale_topology(updated)
    topology = work.configure()
    if topology.is_ready:
        refusal = check_tasks(topology.subtopologies or {}, request)
        if refusal is not None:
            return refusal
    work.advance_epoch()
    target = work.target(updated)
    if isinstance(target, ApiError):
        return target
    settled = work.reconcile(updated, target, _owned(request))
    if isinstance(settled, ApiError):
        return settled
    work.timers.append(Timer(TimerKind.SESSION, settled.member_id, context.settings.session_timeout_ms))
    if request.shutdown_application and work.soft.shutdown_by is None:
        work.soft.shutdown_by = settled.member_id
    response = full_response(work, member, settled, request, is_known=is_known)
    return Outcome(response, work.records, work.timers, work.soft, topology.missing)


def _updated(member: Member, request: StreamsGroupHeartbeatRequest, context: Context) -> Member:
    """The member with what the request says; what it leaves out (null, -1) stays."""
    end_point, tags, timeout_ms = request.user_endpoint, request.client_tags, request.rebalance_timeout_ms
    if tags is not None and len({tag.key for tag in tags}) < len(tags):
        raise TopologyFault(ErrorCode.UNKNOWN_SERVER_ERROR)
    return replace(
        member,
        rack_id=request.rack_id if request.rack_id is not None else member.rack_id,
        rebalance_timeout_ms=timeout_ms if timeout_ms != NOT_GIVEN else member.rebalance_timeout_ms,
        topology_epoch=request.topology.epoch if request.topology is not None else member.topology_epoch,
        client_id=context.client_id,
        client_host=context.client_host,
        process_id=request.process_id if request.process_id is not None else member.process_id,
        client_tags={tag.key: tag.value for tag in tags} if tags is not None else member.client_tags,
        user_endpoint=(UserEndpoint(end_point.host, end_point.port) if end_point is not None else member.user_endpoint),
    )


def _choose_topology(work: Work, request: StreamsGroupHeartbeatRequest) -> ApiError | None:
    """The group's topology, or the request's if the group has none yet. Another one than the group's is refused,
    unless it is older: its member learns that by a status."""
    known = work.group.topology
    if request.topology is not None:
        value = topology_record(request.topology)
        brought = topology_of(value)
        if known is None:
            work.records.append(records.topology(work.group.group_id, value))
            known = brought
        elif known.epoch <= brought.epoch and known != brought:
            return ApiError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    if known is None:
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    work.topology = known
    return None


def _owned(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """The tasks that the member says it has. All three lists are there, or none."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return Tasks(_named_once(active), _named_once(standby), _named_once(warmup))


def _named_once(tasks: Sequence[TaskIds]) -> dict[str, frozenset[int]]:
    """Kafka's coordinator fails if a subtopology is there twice."""
    sets = task_sets(tasks)
    if len(sets) < len(tasks):
        raise TopologyFault(ErrorCode.UNKNOWN_SERVER_ERROR)
    return sets
