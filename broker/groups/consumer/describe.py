"""ConsumerGroupDescribe: a group as clients see it."""

from klamm.broker.groups.assignors import Assignment as Partitions
from klamm.broker.groups.consumer.conversion import ClassicView, opened_consumer_group
from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.consumer.member import Member, PartitionEpochs, partitions_of
from klamm.broker.groups.consumer.outcome import GroupSettings
from klamm.broker.groups.consumer.target import preferred_assignor
from klamm.broker.groups.consumer.topics import Topics
from klamm.protocol.errors import ApiError
from klamm.protocol.messages.groups import consumer_group_describe as message

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe(
    found: ConsumerGroup | ClassicView | None, group_id: str, topics: Topics, settings: GroupSettings
) -> message.DescribedGroup:
    """The group, or why there is none; topics that no longer exist are left out."""
    group = opened_consumer_group(found, group_id)
    if isinstance(group, ApiError):
        return message.DescribedGroup(group_id=group_id, error_code=group.code, error_message=group.message)
    return message.DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group, settings),
        members=[_member(member, group.target_of(member.member_id), topics) for member in group.members.values()],
    )


def _member(member: Member, target: Partitions, topics: Topics) -> message.Member:
    return message.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(partitions_of(_owned(member)), topics),
        target_assignment=_assignment(target, topics),
        member_type=CLASSIC_MEMBER if member.classic is not None else CONSUMER_MEMBER,
    )


def _owned(member: Member) -> PartitionEpochs:
    """With those that the member has still to give up."""
    topic_ids = member.assigned.keys() | member.pending_revocation.keys()
    return {
        topic_id: {**member.assigned.get(topic_id, {}), **member.pending_revocation.get(topic_id, {})}
        for topic_id in topic_ids
    }


def _assignment(partitions: Partitions, topics: Topics) -> message.Assignment:
    return message.Assignment(
        topic_partitions=[
            message.TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=list(indexes))
            for topic_id, indexes in partitions.items()
            if (topic := topics.with_id(topic_id)) is not None
        ]
    )
