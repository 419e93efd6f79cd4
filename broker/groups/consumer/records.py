"""The records of a consumer group, as Kafka 4.3 writes them, and those that remove what an earlier one said."""

from dataclasses import dataclass

from klamm.broker.groups.assignors import Assignment
from klamm.broker.groups.consumer.group import ConsumerGroup, ResolvedRegex
from klamm.broker.groups.consumer.member import Member, PartitionEpochs
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
    TopicPartition,
    TopicPartitions,
)


@dataclass(frozen=True, slots=True)
class Record:
    """A record of `__consumer_offsets`; one without value removes what its key names."""

    key: Message
    value: Message | None = None


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    return Record(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def subscription(group_id: str, member: Member) -> Record:
    return Record(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=member.classic,
        ),
    )


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    return Record(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def target(group_id: str, member_id: str, assignment: Assignment) -> Record:
    return Record(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=list(assignment[topic_id]))
                for topic_id in sorted(assignment)
            ]
        ),
    )


def current(group_id: str, member: Member) -> Record:
    return Record(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=int(member.state),
            assigned_partitions=_with_epochs(member.assigned),
            partitions_pending_revocation=_with_epochs(member.pending_revocation),
        ),
    )


def resolved_regex(group_id: str, regex: str, resolved: ResolvedRegex) -> Record:
    return Record(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topic_names), version=resolved.version, timestamp=resolved.resolved_at_ms
        ),
    )


def no_regex(group_id: str, regex: str) -> Record:
    return Record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def no_partition_metadata(group_id: str) -> Record:
    return Record(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def no_member(group_id: str, member_id: str) -> list[Record]:
    return [
        Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def no_group(group: ConsumerGroup) -> list[Record]:
    """What removes the group and all that belongs to it; the offsets are others' records."""
    group_id = group.group_id
    current_keys, target_keys, member_keys = (
        [Record(kind(group_id=group_id, member_id=member_id)) for member_id in group.members]
        for kind in (
            ConsumerGroupCurrentMemberAssignmentKey,
            ConsumerGroupTargetAssignmentMemberKey,
            ConsumerGroupMemberMetadataKey,
        )
    )
    return [
        *current_keys,
        *target_keys,
        Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *member_keys,
        *(no_regex(group_id, regex) for regex in group.resolved),
        no_partition_metadata(group_id),
        Record(ConsumerGroupMetadataKey(group_id=group_id)),
    ]


def whole_group(group: ConsumerGroup) -> list[Record]:
    """The records that make the group anew."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(subscription(group_id, member) for member in members),
        group_epoch(group_id, group.group_epoch, group.metadata_hash),
        *(target(group_id, member.member_id, group.target_of(member.member_id)) for member in members),
        target_epoch(group_id, group.assignment_epoch, group.assignment_timestamp_ms),
        *(current(group_id, member) for member in members),
        *(resolved_regex(group_id, regex, resolved) for regex, resolved in group.resolved.items()),
    ]


def _with_epochs(epochs: PartitionEpochs) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(epochs[topic_id]),
            assignment_epochs=[epochs[topic_id][partition] for partition in sorted(epochs[topic_id])],
        )
        for topic_id in sorted(epochs)
    ]
