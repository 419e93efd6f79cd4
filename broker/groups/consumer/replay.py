"""Records to groups: the one way in which a consumer group changes, live and when a coordinator loads its partition."""

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, Final

from klamm.broker.groups.consumer.group import ConsumerGroup, ResolvedRegex
from klamm.broker.groups.consumer.member import Member, MemberState, PartitionEpochs
from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.replaying import group_of_record, replay_target_epoch
from klamm.protocol.fields import Message
from klamm.protocol.records.coordinator.consumer_groups import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartitions,
)

Groups = MutableMapping[str, ConsumerGroup]


def replay(groups: Groups, key: Message, value: Message | None) -> bool:
    """Apply one record to `groups`; False: it is none of a consumer group, and nothing was done."""
    apply = _REPLAY.get(type(key))
    if apply is None:
        return False
    group = group_of_record(groups, ConsumerGroup, ConsumerGroupMetadataKey, key, value)
    if group is not None:
        apply(group, key, value)
    return True


def replayed_on(group: ConsumerGroup, records: Sequence[Record]) -> ConsumerGroup:
    """A copy of the group with the records applied; they do not remove it. Records of other kinds are passed over."""
    groups = {group.group_id: group.copy()}
    for record in records:
        replay(groups, record.key, record.value)
    return groups[group.group_id]


def _epoch(group: ConsumerGroup, _: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue) -> None:
    group.group_epoch = value.epoch
    group.metadata_hash = value.metadata_hash


def _partition_metadata(group: ConsumerGroup, _: ConsumerGroupPartitionMetadataKey, value: Message | None) -> None:
    group.has_partition_metadata_record = value is not None


def _subscription(
    group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    if value is None:
        group.remove_member(key.member_id)
        return
    group.put_member(
        replace(
            group.members.get(key.member_id) or Member(key.member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex or "",
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )
    )


def _current(
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    member = group.members.get(key.member_id)
    if value is not None:
        states = set(MemberState)
        group.put_member(
            replace(
                member or Member(key.member_id),
                member_epoch=value.member_epoch,
                previous_member_epoch=value.previous_member_epoch,
                state=MemberState(value.state) if value.state in states else MemberState.UNKNOWN,
                assigned=_partition_epochs(value.assigned_partitions, value.member_epoch),
                pending_revocation=_partition_epochs(value.partitions_pending_revocation, value.member_epoch),
            )
        )
    elif member is not None:
        group.put_member(replace(member, member_epoch=-1, previous_member_epoch=-1, assigned={}, pending_revocation={}))


def _target_epoch(
    group: ConsumerGroup,
    _: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    replay_target_epoch(group, value)


def _target(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.target.pop(key.member_id, None)
        return
    group.target[key.member_id] = {
        topic.topic_id: tuple(sorted(topic.partitions)) for topic in value.topic_partitions if topic.partitions
    }


def _regex(
    group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp) if value is not None else None
    group.put_resolved(key.regular_expression, resolved)


def _partition_epochs(topics: Sequence[TopicPartitions], member_epoch: int) -> PartitionEpochs:
    """Records of releases before 4.3 have no epochs of partitions: the member's stands for them."""
    return {
        topic.topic_id: dict(
            zip(
                topic.partitions,
                topic.assignment_epochs
                if topic.assignment_epochs and len(topic.assignment_epochs) == len(topic.partitions)
                else [max(member_epoch, 0)] * len(topic.partitions),
                strict=True,
            )
        )
        for topic in topics
    }


_REPLAY: Final[dict[type[Message], Callable[[ConsumerGroup, Any, Any], None]]] = {
    ConsumerGroupMetadataKey: _epoch,
    ConsumerGroupPartitionMetadataKey: _partition_metadata,
    ConsumerGroupMemberMetadataKey: _subscription,
    ConsumerGroupCurrentMemberAssignmentKey: _current,
    ConsumerGroupTargetAssignmentMetadataKey: _target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _target,
    ConsumerGroupRegularExpressionKey: _regex,
}
