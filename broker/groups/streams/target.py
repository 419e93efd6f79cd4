"""The target assignment: which member is to have which tasks, computed by the sticky assignor for a group epoch."""

from collections.abc import Mapping

from klamm.broker.groups.assignors.sticky_tasks import (
    AssignedMember,
    StreamsSpec,
    SubtopologySize,
    TaskMember,
    assign_sticky,
)
from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.streams import records
from klamm.broker.groups.streams.group import NO_TASKS, StreamsGroup
from klamm.broker.groups.streams.internal_topics import ConfiguredTopology
from klamm.broker.groups.streams.member import Member
from klamm.broker.groups.streams.outcome import Context
from klamm.broker.groups.streams.tasks import Tasks, TaskSets
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.errors import ApiError


def may_compute(group: StreamsGroup, context: Context) -> bool:
    """`streams.assignment.interval.ms` has passed since the last target assignment."""
    interval_ms, last_ms = context.settings.assignment_interval_ms, group.assignment_timestamp_ms
    return not interval_ms or not last_ms or context.now_ms >= last_ms + interval_ms


def compute_target(
    group: StreamsGroup,
    epoch: int,
    updated: Member | None,
    topology: ConfiguredTopology,
    standby_replicas: int,
    context: Context,
) -> tuple[list[Record], Mapping[str, Tasks]] | ApiError:
    """The records of the new target assignment, and the assignment. `updated`: a member as it will be."""
    members = {member.member_id: member for member in group.in_table_order()}
    if updated is not None:
        members[updated.member_id] = updated
    assigned: Mapping[str, AssignedMember] = {}
    if topology.is_ready:
        sizes = [
            SubtopologySize(name, each.tasks, each.is_stateful) for name, each in (topology.subtopologies or {}).items()
        ]
        # No more replicas than members can hold.
        replicas = min(standby_replicas, len(members))
        wanted = sum(each.tasks * (1 + replicas * each.is_stateful) for each in sizes)
        if wanted > context.may_assign:
            return ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, "The streams groups have too many tasks.")
        specs = {
            member_id: TaskMember(member.process_id, target.active, target.standby)
            for member_id, member in members.items()
            for target in (group.target_of(member_id),)
        }
        assigned = assign_sticky(StreamsSpec(specs, sizes, standby_replicas))
    target = {member_id: _tasks(assigned[member_id]) if assigned else NO_TASKS for member_id in members}
    written = [
        records.target(group.group_id, member_id, tasks)
        for member_id, tasks in target.items()
        if tasks != group.target.get(member_id)
    ]
    return [*written, records.target_epoch(group.group_id, epoch, context.now_ms)], target


def _tasks(assigned: AssignedMember) -> Tasks:
    return Tasks(_frozen(assigned.active), _frozen(assigned.standby))


def _frozen(sets: Mapping[str, set[int]]) -> TaskSets:
    return {subtopology: frozenset(partitions) for subtopology, partitions in sets.items()}
