"""Records to share groups: the one way in which a share group changes, live and when a coordinator loads."""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, Final

from klamm.broker.groups.assignors import Assignment
from klamm.broker.groups.replaying import group_of_record, replay_target_epoch
from klamm.broker.groups.share.group import ShareGroup, ShareMember, StatePartitions, StateTopics
from klamm.protocol.fields import Message
from klamm.protocol.records.coordinator.share_groups import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
    TopicPartitionsInfo,
)
from klamm.protocol.uuid import Uuid

ShareGroupsById = MutableMapping[str, ShareGroup]


def replay(groups: ShareGroupsById, key: Message, value: Message | None, timestamp_ms: int) -> bool:
    """Apply one record to `groups`; False: it is none of a share group, and nothing was done."""
    apply = _REPLAY.get(type(key))
    if apply is None:
        return False
    group = group_of_record(groups, ShareGroup, ShareGroupMetadataKey, key, value)
    if group is not None:
        apply(group, key, value, timestamp_ms)
    return True


def _epoch(group: ShareGroup, _: ShareGroupMetadataKey, value: ShareGroupMetadataValue, _at: int) -> None:
    group.group_epoch = value.epoch
    group.metadata_hash = value.metadata_hash


def _subscription(
    group: ShareGroup, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue | None, _at: int
) -> None:
    if value is None:
        group.remove_member(key.member_id)
        return
    group.put_member(
        replace(
            group.members.get(key.member_id) or ShareMember(key.member_id),
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
        )
    )


def _current(
    group: ShareGroup,
    key: ShareGroupCurrentMemberAssignmentKey,
    value: ShareGroupCurrentMemberAssignmentValue | None,
    _at: int,
) -> None:
    member = group.members.get(key.member_id)
    if value is not None:
        group.put_member(
            replace(
                member or ShareMember(key.member_id),
                member_epoch=value.member_epoch,
                previous_member_epoch=value.previous_member_epoch,
                assigned=_assignment(value.assigned_partitions),
            )
        )
    elif member is not None:
        group.put_member(replace(member, member_epoch=-1, previous_member_epoch=-1, assigned={}))


def _target_epoch(
    group: ShareGroup,
    _: ShareGroupTargetAssignmentMetadataKey,
    value: ShareGroupTargetAssignmentMetadataValue | None,
    _at: int,
) -> None:
    replay_target_epoch(group, value)


def _target(
    group: ShareGroup,
    key: ShareGroupTargetAssignmentMemberKey,
    value: ShareGroupTargetAssignmentMemberValue | None,
    _at: int,
) -> None:
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = _assignment(value.topic_partitions)


def _state_topics(
    group: ShareGroup,
    _: ShareGroupStatePartitionMetadataKey,
    value: ShareGroupStatePartitionMetadataValue | None,
    at_ms: int,
) -> None:
    if value is None:
        group.state_topics = None
        return
    group.state_topics = StateTopics(
        _partitions(value.initializing_topics, at_ms),
        _partitions(value.initialized_topics, at_ms),
        {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
    )


def _partitions(topics: Iterable[TopicPartitionsInfo], at_ms: int) -> Mapping[Uuid, StatePartitions]:
    return {one.topic_id: StatePartitions(one.topic_name, frozenset(one.partitions), at_ms) for one in topics}


def _assignment(topics: Sequence[TopicPartition] | Sequence[TopicPartitions]) -> Assignment:
    return {topic.topic_id: tuple(sorted(topic.partitions)) for topic in topics}


_REPLAY: Final[dict[type[Message], Callable[[ShareGroup, Any, Any, int], None]]] = {
    ShareGroupMetadataKey: _epoch,
    ShareGroupMemberMetadataKey: _subscription,
    ShareGroupCurrentMemberAssignmentKey: _current,
    ShareGroupTargetAssignmentMetadataKey: _target_epoch,
    ShareGroupTargetAssignmentMemberKey: _target,
    ShareGroupStatePartitionMetadataKey: _state_topics,
}
