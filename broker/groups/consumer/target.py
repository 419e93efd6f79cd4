"""The target assignment: which member is to have which partitions, computed by an assignor for a group epoch."""

from klamm.broker.groups.assignors import ASSIGNORS, Assignment, GroupSpec, MemberSpec
from klamm.broker.groups.assignors.spec import NOTHING
from klamm.broker.groups.consumer import records
from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.consumer.member import Member
from klamm.broker.groups.consumer.outcome import Context, GroupSettings
from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.consumer.subscriptions import subscribed_topics
from klamm.protocol.uuid import Uuid


def may_compute(group: ConsumerGroup, context: Context) -> bool:
    """`consumer.assignment.interval.ms` has passed since the last target assignment."""
    interval_ms, last_ms = context.settings.assignment_interval_ms, group.assignment_timestamp_ms
    return not interval_ms or not last_ms or context.now_ms >= last_ms + interval_ms


def preferred_assignor(
    group: ConsumerGroup, settings: GroupSettings, change: tuple[Member, Member] | None = None
) -> str:
    """The assignor that most members ask for; the default where none asks, or where several are asked for most.

    `change`: a member as it is, and as it will be.
    """
    counts = group.assignor_counts.copy()
    if change is not None:
        was, becomes = change
        if was.server_assignor is not None:
            counts[was.server_assignor] -= 1
        if becomes.server_assignor is not None:
            counts[becomes.server_assignor] += 1
    asked = [name for name in settings.assignors if counts[name] > 0]
    return max(asked, key=counts.__getitem__) if asked else settings.assignors[0]


def compute_target(
    group: ConsumerGroup, epoch: int, change: tuple[Member, Member], *, homogeneous: bool, context: Context
) -> tuple[list[Record], Assignment]:
    """The records of the new target assignment, and what the changed member gets."""
    member = change[1]
    members = {**group.members, member.member_id: member}
    partition_counts: dict[Uuid, int] = {}
    known: dict[tuple[frozenset[str], str], frozenset[Uuid]] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id, each in members.items():
        subscription = each.subscribed_topic_names, each.subscribed_topic_regex
        if subscription not in known:
            found = subscribed_topics(each, group.resolved, context.topics)
            partition_counts |= {topic_id: topic.partitions for topic_id, topic in found.items()}
            known[subscription] = frozenset(found)
        specs[member_id] = MemberSpec(known[subscription], group.target_of(member_id), each.instance_id)
    assign = ASSIGNORS[preferred_assignor(group, context.settings, change)]
    assignments = assign(GroupSpec(specs, partition_counts, homogeneous))
    written = [
        records.target(group.group_id, member_id, assignment)
        for member_id in members
        if (assignment := _without_empty(assignments.get(member_id, NOTHING))) != group.target.get(member_id)
    ]
    written.append(records.target_epoch(group.group_id, epoch, context.now_ms))
    return written, _without_empty(assignments.get(member.member_id, NOTHING))


def _without_empty(assignment: Assignment) -> Assignment:
    return {topic_id: partitions for topic_id, partitions in assignment.items() if partitions}
