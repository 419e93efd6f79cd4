"""Makes streams groups of their records. Nothing else changes what a group has in records."""

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, Final

from klamm.broker.groups.replaying import group_of_record, replay_target_epoch
from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.groups.streams.member import LEAVING_EPOCH, Member, MemberState, UserEndpoint
from klamm.broker.groups.streams.tasks import AssignedTasks, TaskEpochs, Tasks, task_sets
from klamm.broker.groups.streams.topology import TopologyFault, topology_of
from klamm.protocol.fields import Message
from klamm.protocol.records.coordinator.streams_groups import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from klamm.protocol.records.coordinator.streams_groups import (
    StreamsGroupCurrentMemberAssignmentValueTaskIds as CurrentTaskIds,
)

Groups = MutableMapping[str, StreamsGroup]


def replay(groups: Groups, key: Message, value: Message | None) -> bool:
    """Apply one record to `groups`; False: it is none of a streams group, and nothing was done."""
    apply = _REPLAY.get(type(key))
    if apply is None:
        return False
    group = group_of_record(groups, StreamsGroup, StreamsGroupMetadataKey, key, value)
    if group is not None:
        apply(group, key, value)
    return True


def _epoch(group: StreamsGroup, _: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue) -> None:
    group.group_epoch = value.epoch
    group.metadata_hash = value.metadata_hash
    group.validated_topology_epoch = value.validated_topology_epoch
    group.assignment_configs = {each.key: each.value for each in value.last_assignment_configs or ()}


def _topology(group: StreamsGroup, _: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None) -> None:
    try:
        group.topology = topology_of(value) if value is not None else None
    except TopologyFault:
        # Written by somebody else: members will be asked for the topology again.
        group.topology = None


def _metadata(
    group: StreamsGroup, key: StreamsGroupMemberMetadataKey, value: StreamsGroupMemberMetadataValue | None
) -> None:
    if value is None:
        group.remove_member(key.member_id)
        return
    end_point = value.user_endpoint
    group.put_member(
        replace(
            group.members.get(key.member_id) or Member(key.member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=None if end_point is None else UserEndpoint(end_point.host, end_point.port),
            client_tags={each.key: each.value for each in value.client_tags},
        )
    )


def _current(
    group: StreamsGroup,
    key: StreamsGroupCurrentMemberAssignmentKey,
    value: StreamsGroupCurrentMemberAssignmentValue | None,
) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            nothing = AssignedTasks()
            group.put_member(
                replace(
                    member,
                    member_epoch=LEAVING_EPOCH,
                    previous_member_epoch=LEAVING_EPOCH,
                    assigned=nothing,
                    pending_revocation=nothing,
                )
            )
        return
    known = value.state in set(MemberState)
    group.put_member(
        replace(
            member or Member(key.member_id),
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            assigned=AssignedTasks(
                _epochs(value.active_tasks, value.member_epoch),
                task_sets(value.standby_tasks),
                task_sets(value.warmup_tasks),
            ),
            pending_revocation=AssignedTasks(
                _epochs(value.active_tasks_pending_revocation, value.member_epoch),
                task_sets(value.standby_tasks_pending_revocation),
                task_sets(value.warmup_tasks_pending_revocation),
            ),
        )
    )


def _target_epoch(
    group: StreamsGroup,
    _: StreamsGroupTargetAssignmentMetadataKey,
    value: StreamsGroupTargetAssignmentMetadataValue | None,
) -> None:
    replay_target_epoch(group, value)


def _target(
    group: StreamsGroup,
    key: StreamsGroupTargetAssignmentMemberKey,
    value: StreamsGroupTargetAssignmentMemberValue | None,
) -> None:
    tasks = None
    if value is not None:
        tasks = Tasks(task_sets(value.active_tasks), task_sets(value.standby_tasks), task_sets(value.warmup_tasks))
    group.put_target(key.member_id, tasks)


def _epochs(listed: Sequence[CurrentTaskIds], member_epoch: int) -> TaskEpochs:
    """Records of releases before 4.3 have no epochs of tasks: the member's stands for them."""
    epochs: dict[str, dict[int, int]] = {}
    for each in listed:
        since = each.assignment_epochs
        if since is None or len(since) != len(each.partitions):
            since = [member_epoch] * len(each.partitions)
        epochs[each.subtopology_id] = dict(zip(each.partitions, since, strict=True))
    return epochs


_REPLAY: Final[dict[type[Message], Callable[[StreamsGroup, Any, Any], None]]] = {
    StreamsGroupMetadataKey: _epoch,
    StreamsGroupTopologyKey: _topology,
    StreamsGroupMemberMetadataKey: _metadata,
    StreamsGroupCurrentMemberAssignmentKey: _current,
    StreamsGroupTargetAssignmentMetadataKey: _target_epoch,
    StreamsGroupTargetAssignmentMemberKey: _target,
}
KEYS: Final = frozenset(_REPLAY)
