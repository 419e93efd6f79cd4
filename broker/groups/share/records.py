"""The records of a share group, as Kafka 4.3 writes them, and those that remove what an earlier one said."""

from collections.abc import Mapping

from klamm.broker.groups.assignors import Assignment
from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.share.group import ShareGroup, ShareMember, StatePartitions, StateTopics
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
    TopicInfo,
    TopicPartition,
    TopicPartitions,
    TopicPartitionsInfo,
)
from klamm.protocol.uuid import Uuid

_STABLE = 0


def subscription(group_id: str, member: ShareMember) -> Record:
    return Record(
        ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
        ),
    )


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Record(ShareGroupMetadataKey(group_id=group_id), value)


def target(group_id: str, member_id: str, assignment: Assignment) -> Record:
    topics = [TopicPartition(topic_id=topic_id, partitions=list(found)) for topic_id, found in assignment.items()]
    return Record(
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ShareGroupTargetAssignmentMemberValue(topic_partitions=topics),
    )


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    return Record(
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def current(group_id: str, member: ShareMember) -> Record:
    topics = [TopicPartitions(topic_id=topic_id, partitions=list(found)) for topic_id, found in member.assigned.items()]
    return Record(
        ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=_STABLE,
            assigned_partitions=topics,
        ),
    )


def state_topics(group_id: str, topics: StateTopics) -> Record:
    return Record(
        ShareGroupStatePartitionMetadataKey(group_id=group_id),
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=_infos(topics.initializing),
            initialized_topics=_infos(topics.initialized),
            deleting_topics=[
                TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in topics.deleting.items()
            ],
        ),
    )


def _infos(topics: Mapping[Uuid, StatePartitions]) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=found.topic_name, partitions=sorted(found.partitions))
        for topic_id, found in topics.items()
    ]


def no_member(group_id: str, member_id: str) -> list[Record]:
    """Remove a member."""
    return [
        Record(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        Record(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        Record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def no_group(group: ShareGroup) -> list[Record]:
    """Remove a group, with its members if it has any."""
    group_id = group.group_id
    return [
        *(record for member_id in group.members for record in no_member(group_id, member_id)),
        Record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id)),
        Record(ShareGroupStatePartitionMetadataKey(group_id=group_id)),
        Record(ShareGroupMetadataKey(group_id=group_id)),
    ]
