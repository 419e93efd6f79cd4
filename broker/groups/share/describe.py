"""ShareGroupDescribe: a share group as clients see it."""

from klamm.broker.groups.consumer.topics import Topics
from klamm.broker.groups.share.group import ShareGroup, ShareMember
from klamm.protocol.messages.shares import share_group_describe as message

ASSIGNOR = "simple"


def describe(group: ShareGroup, topics: Topics) -> message.DescribedGroup:
    """The group; topics that no longer exist are left out."""
    return message.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(member, topics) for member in group.members.values()],
    )


def _member(member: ShareMember, topics: Topics) -> message.Member:
    assigned = [
        message.TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=list(partitions))
        for topic_id, partitions in member.assigned.items()
        if (topic := topics.with_id(topic_id)) is not None
    ]
    return message.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        assignment=message.Assignment(topic_partitions=assigned),
    )
