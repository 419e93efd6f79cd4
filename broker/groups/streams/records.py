"""The records of a streams group, as Kafka 4.3 writes them, and those that remove what an earlier one said."""

from collections.abc import Mapping

from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.groups.streams.member import Member
from klamm.broker.groups.streams.tasks import TaskEpochs, Tasks, TaskSets
from klamm.protocol.records.coordinator.streams_groups import (
    Endpoint,
    KeyValue,
    LastAssignmentConfig,
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
    TaskIds,
)
from klamm.protocol.records.coordinator.streams_groups import (
    StreamsGroupCurrentMemberAssignmentValueTaskIds as CurrentTaskIds,
)


def group_epoch(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]
) -> Record:
    return Record(
        StreamsGroupMetadataKey(group_id=group_id),
        StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_topology_epoch,
            last_assignment_configs=[LastAssignmentConfig(key=key, value=configs[key]) for key in sorted(configs)],
        ),
    )


def topology(group_id: str, value: StreamsGroupTopologyValue) -> Record:
    return Record(StreamsGroupTopologyKey(group_id=group_id), value)


def metadata(group_id: str, member: Member) -> Record:
    end_point, tags = member.user_endpoint, member.client_tags
    return Record(
        StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=None if end_point is None else Endpoint(host=end_point.host, port=end_point.port),
            client_tags=[KeyValue(key=key, value=tags[key]) for key in sorted(tags)],
        ),
    )


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    return Record(
        StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def target(group_id: str, member_id: str, tasks: Tasks) -> Record:
    return Record(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        StreamsGroupTargetAssignmentMemberValue(
            active_tasks=_listed(tasks.active),
            standby_tasks=_listed(tasks.standby),
            warmup_tasks=_listed(tasks.warmup),
        ),
    )


def current(group_id: str, member: Member) -> Record:
    assigned, revoked = member.assigned, member.pending_revocation
    return Record(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=int(member.state),
            active_tasks=_with_epochs(assigned.active),
            standby_tasks=_without_epochs(assigned.standby),
            warmup_tasks=_without_epochs(assigned.warmup),
            active_tasks_pending_revocation=_with_epochs(revoked.active),
            standby_tasks_pending_revocation=_without_epochs(revoked.standby),
            warmup_tasks_pending_revocation=_without_epochs(revoked.warmup),
        ),
    )


def no_member(group_id: str, member_id: str) -> list[Record]:
    return [
        Record(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        Record(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        Record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def no_group(group: StreamsGroup) -> list[Record]:
    """The group has no members."""
    group_id = group.group_id
    return [
        Record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)),
        Record(StreamsGroupMetadataKey(group_id=group_id)),
        Record(StreamsGroupTopologyKey(group_id=group_id)),
    ]


def _listed(tasks: TaskSets) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=sorted(tasks[name])) for name in sorted(tasks)]


def _without_epochs(tasks: TaskSets) -> list[CurrentTaskIds]:
    return [CurrentTaskIds(subtopology_id=name, partitions=sorted(tasks[name])) for name in sorted(tasks)]


def _with_epochs(tasks: TaskEpochs) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(
            subtopology_id=name,
            partitions=sorted(tasks[name]),
            assignment_epochs=[tasks[name][partition] for partition in sorted(tasks[name])],
        )
        for name in sorted(tasks)
    ]
